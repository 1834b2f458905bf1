"""Peers that do not answer, and peers that have no receive: how often, how long, and what waits meanwhile."""

import time

from pyverbs import enums as e
from pyverbs.qp import QPAttr

from bench import PATIENCE, QUIET, Case, Row, poll, seen

# The unit of the coded time-out, and by how much hardware may stretch it.
TIMEOUT_UNIT = 4.096e-6
STRETCH = 4
# What a busy machine may add to any time that is measured in an emulated guest, in seconds.
SLACK = 5
# Times that RNR codes stand for, in seconds.
RNR_TIMES = {20: 0.01024, 24: 0.04096, 28: 0.16384, 0: 0.65536}


class Gone:
    """Nobody answers."""

    def silent(self, pair, timeout=12, retries=2):
        """Sends to a peer that is silent and returns how long it took to give up."""
        row = self.row
        began = time.monotonic()
        pair.post(*(pair.request(wr_id) for wr_id in (1, 2, 3, 4)))
        sends = [(wc.wr_id, seen(wc)) for wc in pair.sent(4)]
        took = time.monotonic() - began
        self.check_sender(pair, row, sends)
        least = (retries + 1) * TIMEOUT_UNIT * 2 ** timeout
        self.assertGreaterEqual(took, least, 'it gave up too soon')
        self.assertLessEqual(took, least * STRETCH + SLACK, 'it gave up too late')
        self.assertEqual(pair.received(1, QUIET), [], 'something was received')
        self.assertEqual(self.events(pair, len(row.events)), row.events)
        return took

    def test_receiver_destroyed(self):
        pair = self.pair(timeout=12, retries=2)
        pair.receiver.close()
        self.silent(pair)

    def test_receiver_in_reset(self):
        pair = self.pair(timeout=12, retries=2)
        pair.receiver.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        self.silent(pair)

    def test_receiver_in_init(self):
        pair = self.pair(timeout=12, retries=2, receiver_to=e.IBV_QPS_INIT)
        self.silent(pair)

    def test_receiver_in_error(self):
        pair = self.pair(timeout=12, retries=2)
        pair.receiver.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        self.silent(pair)

    def test_receiver_that_never_was(self):
        self.silent(self.pair(timeout=12, retries=2, destination=0xabcdef))

    def test_lid_that_nobody_has(self):
        self.silent(self.pair(timeout=12, retries=2, lid=0x77))

    def test_retry_count_and_timeout_multiply(self):
        short = self.silent(self.pair(timeout=12, retries=0, destination=0xabcdef), 12, 0)
        long = self.silent(self.pair(timeout=16, retries=1, destination=0xabcdef), 16, 1)
        self.assertGreater(long, short)

    def test_timeout_0_waits_for_ever(self):
        pair = self.pair(timeout=0, retries=1, receiver_to=e.IBV_QPS_INIT)
        pair.post(pair.request(1))
        self.assertEqual(pair.sent(1, 1), [], 'it gave up')
        self.assertEqual(pair.state('sender'), 'RTS')


class NotReady:
    """There is no receive."""

    def test_rnr_retry_0(self):
        pair = self.pair(rnr_retries=0, rnr_timer=28)
        self.exhausted(pair, 0, RNR_TIMES[28])

    def test_rnr_retry_3(self):
        pair = self.pair(rnr_retries=3, rnr_timer=28)
        self.exhausted(pair, 3, RNR_TIMES[28])

    def exhausted(self, pair, retries, wait):
        row = self.row
        began = time.monotonic()
        pair.post(*(pair.request(wr_id) for wr_id in (1, 2, 3, 4)))
        sends = [(wc.wr_id, seen(wc)) for wc in pair.sent(4)]
        took = time.monotonic() - began
        self.check_sender(pair, row, sends)
        self.assertGreaterEqual(took, retries * wait, 'it gave up too soon')
        self.assertLessEqual(took, retries * wait + SLACK, 'it gave up too late')
        # The other end knows nothing of it.
        self.assertEqual(pair.state('receiver'), 'RTS')
        self.assertEqual(self.events(pair, 0), row.events)

    def test_rnr_timer_codes(self):
        row = self.row
        for code, wait in RNR_TIMES.items():
            with self.subTest(code=code):
                pair = self.pair(rnr_retries=2, rnr_timer=code)
                began = time.monotonic()
                pair.post(pair.request(1))
                self.assertEqual([seen(wc) for wc in pair.sent(1)], [row.sender])
                took = time.monotonic() - began
                self.assertGreaterEqual(took, 2 * wait)
                self.assertLessEqual(took, 2 * wait + SLACK)

    def test_rnr_retry_7_waits_for_a_receive(self):
        row = self.row
        pair = self.pair(rnr_retries=7, rnr_timer=12)
        pair.post(*(pair.request(wr_id) for wr_id in (1, 2, 3, 4)))
        # Far more than seven waits of 0.64 ms.
        self.assertEqual(pair.sent(1, 0.5), [])
        pair.receive(101, 102, 103, 104)
        self.assertEqual([(wc.wr_id, seen(wc)) for wc in pair.sent(4)], [(n, row.sender) for n in (1, 2, 3, 4)])
        self.check_receiver(pair, row, (101, 102, 103, 104))

    def test_receive_in_time(self):
        # Six tries of 164 ms each: the receive comes while they last.
        row = self.row
        pair = self.pair(rnr_retries=6, rnr_timer=28)
        pair.post(pair.request(1))
        time.sleep(0.2)
        pair.receive(101)
        self.assertEqual([seen(wc) for wc in pair.sent(1)], [row.sender])
        self.check_receiver(pair, row, (101,))

    def test_write_with_immediate_without_a_receive(self):
        row = self.row
        pair = self.pair(rnr_retries=0, rnr_timer=12)
        pair.post(pair.request(1, e.IBV_WR_RDMA_WRITE_WITH_IMM))
        self.assertEqual([seen(wc) for wc in pair.sent(1)], [row.sender])
        self.assertEqual(pair.state('receiver'), 'RTS')


class Rc(Gone, NotReady, Case):
    service = 'RC'


class Xrc(Gone, NotReady, Case):
    service = 'XRC'

    def test_empty_srq_holds_up_its_connection_only(self):
        empty, full = self.node.srq(), self.node.srq()
        pair = self.pair(srq=empty, rnr_retries=7, rnr_timer=12)
        other = self.pair(srq=full, rnr_retries=7, rnr_timer=12)
        other.receive(201, 202)
        behind = pair.request(2)
        behind.set_qp_type_xrc(full[0].get_srq_num())
        # The second message is for an SRQ with receives, but behind one for an SRQ without.
        pair.post(pair.request(1), behind)
        self.assertEqual(pair.sent(1, 0.5), [])
        # Another connection's message to the same SRQ does not wait.
        other.post(other.request(3))
        self.assertEqual([seen(wc) for wc in other.sent(1)], [self.row.sender])
        self.assertEqual([(wc.wr_id, wc.qp_num) for wc in other.received(1)], [(201, other.receiver.qp_num)])
        pair.receive(101)
        self.assertEqual([(wc.wr_id, seen(wc)) for wc in pair.sent(2)], [(1, 'SUCCESS'), (2, 'SUCCESS')])
        self.assertEqual([(wc.wr_id, wc.qp_num) for wc in other.received(1)], [(202, pair.receiver.qp_num)])
        self.assertEqual([(wc.wr_id, wc.qp_num) for wc in pair.received(1)], [(101, pair.receiver.qp_num)])


class Uc(Case):
    """Unreliable connections never learn."""

    service = 'UC'

    def unheard(self, pair):
        row = self.row
        pair.post(*(pair.request(wr_id) for wr_id in (1, 2, 3, 4)))
        self.check_sender(pair, row, [(wc.wr_id, seen(wc)) for wc in pair.sent(4)])
        self.assertEqual(pair.received(1, QUIET), [])

    def test_receiver_that_never_was(self):
        self.unheard(self.pair(destination=0xabcdef))

    def test_rnr_retry_0(self):
        self.unheard(self.pair())
