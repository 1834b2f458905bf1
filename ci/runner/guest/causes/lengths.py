"""Messages that do not fit: in the receive, in the connection, in a datagram."""

from pyverbs.addr import AH, AHAttr
from pyverbs.mr import MR
from pyverbs.qp import QPAttr
from pyverbs.wr import SGE

from bench import ALL_RIGHTS, MTU, PORT, QKEY, SIZE, Case

GRH = 40


class Receive:
    """Longer than the receive."""

    def test_longer_than_the_receive(self):
        pair = self.pair()
        self.check(pair, pair.request(1, length=9), receive_options={'length': 8})

    def test_packets_longer_than_the_receive(self):
        # The first packet fits, the last one does not.
        pair = self.pair()
        self.check(pair, pair.request(1, length=MTU + 1), receive_options={'length': MTU})


class Any:
    """Longer than any message."""

    def test_longer_than_any_message(self):
        pair = self.pair()
        mr = self.node.mr
        sges = [SGE(mr.buf, 1 << 29, mr.lkey), SGE(mr.buf, (1 << 29) + 1, mr.lkey)]
        self.check(pair, pair.request(1, sges=sges))


class Rc(Receive, Any, Case):
    service = 'RC'


class Xrc(Receive, Any, Case):
    service = 'XRC'


class Uc(Receive, Any, Case):
    service = 'UC'


class Ud(Case):
    """Datagrams."""

    service = 'UD'

    def setUp(self):
        super().setUp()
        self.mr = MR(self.node.pd, 2 * SIZE, ALL_RIGHTS)

    def datagrams(self, qkey=QKEY):
        """A pair of datagram QPs; the far one has this key."""
        pair = self.node.pair('UD', connect=False)
        for qp, key in ((pair.sender, QKEY), (pair.receiver, qkey)):
            attr = QPAttr(port_num=PORT)
            attr.qkey = key
            qp.to_rts(attr)
        self.ah = AH(self.node.pd, attr=AHAttr(port_num=PORT, dlid=self.node.lid))
        make, number = pair.request, pair.receiver.qp_num

        def request(wr_id, destination=number, **options):
            wr = make(wr_id, **{'mr': self.mr, **options})
            wr.set_wr_ud(self.ah, destination, QKEY)
            return wr
        pair.request = request
        return pair

    def send(self, pair, receive_options=None, **options):
        self.check(pair, pair.request(1, **options), receive_options={'mr': self.mr, **(receive_options or {})})

    def test_datagram_longer_than_the_mtu(self):
        self.send(self.datagrams(), length=4097)

    def test_datagram_with_a_bad_local_key(self):
        self.send(self.datagrams(), lkey=0xfffff00)

    def test_datagram_longer_than_the_receive(self):
        self.send(self.datagrams(), receive_options={'length': GRH + 7})

    def test_datagram_into_a_bad_key(self):
        self.send(self.datagrams(), receive_options={'lkey': 0xfffff00})

    def test_datagram_to_nobody(self):
        self.send(self.datagrams(), destination=0xabcdef)

    def test_datagram_with_another_q_key(self):
        self.send(self.datagrams(qkey=QKEY + 1))
