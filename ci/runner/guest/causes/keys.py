"""Keys: wrong ones, of another domain, too short, without the right, at either end."""

from pyverbs import enums as e
from pyverbs.mr import MR

from bench import ALL_RIGHTS, MTU, SIZE, Case

READ = e.IBV_WR_RDMA_READ
WRITE = e.IBV_WR_RDMA_WRITE
ADD = e.IBV_WR_ATOMIC_FETCH_AND_ADD
SWAP = e.IBV_WR_ATOMIC_CMP_AND_SWP
# A key whose index nobody has, and the right index with the wrong lowest byte.
NOBODYS_KEY = 0xfffff00


class Local:
    """The sender's own keys."""

    def test_bad_local_key(self):
        pair = self.pair()
        self.check(pair, pair.request(1, lkey=NOBODYS_KEY))

    def test_local_key_with_another_variant(self):
        pair = self.pair()
        self.check(pair, pair.request(1, lkey=self.node.mr.lkey ^ 1))

    def test_deregistered_local_key(self):
        pair = self.pair()
        mr = MR(self.node.pd, SIZE, ALL_RIGHTS)
        lkey = mr.lkey
        mr.close()
        self.check(pair, pair.request(1, lkey=lkey))

    def test_local_key_of_another_domain(self):
        pair = self.pair()
        self.check(pair, pair.request(1, mr=MR(self.node.other_pd, SIZE, ALL_RIGHTS)))

    def test_length_beyond_the_local_key(self):
        pair = self.pair()
        self.check(pair, pair.request(1, offset=SIZE - 8, length=9))

    def test_address_before_the_local_key(self):
        pair = self.pair()
        self.check(pair, pair.request(1, offset=-1))


class LocalOfAnswers:
    """Keys for what comes back to the sender."""

    def test_read_into_a_key_without_local_write(self):
        pair = self.pair()
        self.check(pair, pair.request(1, READ, mr=MR(self.node.pd, SIZE, 0)))

    def test_read_into_a_bad_key(self):
        pair = self.pair()
        self.check(pair, pair.request(1, READ, lkey=NOBODYS_KEY))

    def test_atomic_into_a_bad_key(self):
        pair = self.pair()
        self.check(pair, pair.request(1, ADD, lkey=NOBODYS_KEY))


class Receives:
    """The receiver's own keys."""

    def test_receive_with_a_bad_key(self):
        pair = self.pair()
        self.check(pair, pair.request(1), receive_options={'lkey': NOBODYS_KEY})

    def test_receive_into_a_key_without_local_write(self):
        pair = self.pair()
        self.check(pair, pair.request(1), receive_options={'mr': MR(self.node.pd, SIZE, 0)})

    def test_receive_into_a_key_of_another_domain(self):
        pair = self.pair()
        mr = MR(self.node.other_pd, SIZE, ALL_RIGHTS)
        self.check(pair, pair.request(1), receive_options={'mr': mr})

    def test_receive_longer_than_its_key(self):
        pair = self.pair()
        self.check(pair, pair.request(1, length=MTU), receive_options={'offset': SIZE - MTU + 1, 'length': MTU})


class Remote:
    """Keys that the sender names for the receiver's memory."""

    def remote(self, opcode, pair=None, **options):
        pair = pair or self.pair()
        self.check(pair, pair.request(1, opcode, **options))

    def test_write_with_a_bad_key(self):
        self.remote(WRITE, rkey=NOBODYS_KEY)

    def test_write_with_a_deregistered_key(self):
        mr = MR(self.node.pd, SIZE, ALL_RIGHTS)
        rkey = mr.rkey
        mr.close()
        self.remote(WRITE, rkey=rkey)

    def test_write_with_a_key_of_another_domain(self):
        self.remote(WRITE, remote=MR(self.node.other_pd, SIZE, ALL_RIGHTS))

    def test_write_beyond_the_key(self):
        self.remote(WRITE, remote_offset=SIZE - 8, length=9)

    def test_write_not_granted_by_the_key(self):
        self.remote(WRITE, remote=MR(self.node.pd, SIZE, ALL_RIGHTS & ~e.IBV_ACCESS_REMOTE_WRITE))

    def test_write_not_granted_by_the_qp(self):
        self.remote(WRITE, self.pair(receiver_rights=ALL_RIGHTS & ~e.IBV_ACCESS_REMOTE_WRITE))

    def test_write_with_immediate_with_a_bad_key(self):
        self.remote(e.IBV_WR_RDMA_WRITE_WITH_IMM, rkey=NOBODYS_KEY)


class RemoteOfAnswers(Remote):
    """The same for reads and atomics."""

    def test_read_with_a_bad_key(self):
        self.remote(READ, rkey=NOBODYS_KEY)

    def test_read_beyond_the_key(self):
        self.remote(READ, remote_offset=SIZE - 8, length=9)

    def test_read_not_granted_by_the_key(self):
        self.remote(READ, remote=MR(self.node.pd, SIZE, ALL_RIGHTS & ~e.IBV_ACCESS_REMOTE_READ))

    def test_read_not_granted_by_the_qp(self):
        self.remote(READ, self.pair(receiver_rights=ALL_RIGHTS & ~e.IBV_ACCESS_REMOTE_READ))

    def test_atomic_with_a_bad_key(self):
        self.remote(ADD, rkey=NOBODYS_KEY)

    def test_atomic_beyond_the_key(self):
        self.remote(SWAP, remote_offset=SIZE)

    def test_atomic_not_granted_by_the_key(self):
        self.remote(ADD, remote=MR(self.node.pd, SIZE, ALL_RIGHTS & ~e.IBV_ACCESS_REMOTE_ATOMIC))

    def test_atomic_not_granted_by_the_qp(self):
        self.remote(SWAP, self.pair(receiver_rights=ALL_RIGHTS & ~e.IBV_ACCESS_REMOTE_ATOMIC))

    def test_misaligned_atomic(self):
        self.remote(ADD, remote_offset=4)


class Rc(Local, LocalOfAnswers, Receives, RemoteOfAnswers, Case):
    service = 'RC'


class Xrc(Local, LocalOfAnswers, Receives, RemoteOfAnswers, Case):
    service = 'XRC'


class Uc(Local, Receives, Remote, Case):
    service = 'UC'
