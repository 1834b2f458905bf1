"""What never reaches the device: the library or the driver says no, by errno."""

import errno

from pyverbs import enums as e
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QPAttr
from pyverbs.wr import SGE, RecvWR

from bench import QUIET, Case, qp_attr, seen


class Refused:
    """Calls that fail at once."""

    def refused(self, call, *arguments):
        """The call fails with the errno that the row names, which is in its column for the sender."""
        with self.assertRaises(PyverbsRDMAError) as caught:
            call(*arguments)
        self.assertEqual(errno.errorcode[caught.exception.error_code], self.row.sender)

    def idle(self, pair):
        """Nothing of it reached the device, and the QP is as good as before."""
        self.assertEqual(pair.sent(1, QUIET), [])
        self.assertEqual(pair.state('sender'), 'RTS')
        pair.receive(101)
        pair.post(pair.request(9))
        self.assertEqual([(wc.wr_id, seen(wc)) for wc in pair.sent(1)], [(9, 'SUCCESS')])

    def test_inline_data_too_long(self):
        pair = self.pair()
        flags = e.IBV_SEND_SIGNALED | e.IBV_SEND_INLINE
        self.refused(pair.post, pair.request(1, length=1000, flags=flags))
        self.idle(pair)

    def test_too_many_pieces_to_send(self):
        pair = self.pair()
        mr = self.node.mr
        self.refused(pair.post, pair.request(1, sges=[SGE(mr.buf, 1, mr.lkey)] * 40))
        self.idle(pair)

    def test_too_many_pieces_to_receive(self):
        pair = self.pair()
        mr = self.node.mr
        wr = RecvWR(wr_id=1, num_sge=40, sg=[SGE(mr.buf, 1, mr.lkey)] * 40)
        self.refused((pair.srq or pair.receiver).post_recv, wr)
        self.idle(pair)

    def test_send_queue_full(self):
        pair = self.pair(destination=0xabcdef, timeout=18)
        def fill():
            for wr_id in range(1 << 12):
                pair.post(pair.request(wr_id))
        self.refused(fill)

    def test_reset_to_rts(self):
        # RESET to RTS without what lies between.
        pair = self.pair(connect=False)
        self.refused(pair.sender.modify, QPAttr(qp_state=e.IBV_QPS_RTS), e.IBV_QP_STATE)

    def test_drained_send_queue(self):
        # The stock driver has no way from RTS to SQD, so that SQ_DRAINED cannot come.
        pair = self.pair()
        self.refused(pair.sender.modify, QPAttr(qp_state=e.IBV_QPS_SQD), e.IBV_QP_STATE)
        self.idle(pair)


class Early:
    """Posted in a state in which nothing is sent."""

    def test_send_posted_before_rts(self):
        pair = self.pair(connect=False)
        pair.receiver.to_rts(qp_attr(pair.sender.qp_num, self.node.lid))
        attr = qp_attr(pair.receiver.qp_num, self.node.lid)
        pair.sender.to_rtr(attr)
        self.refused(pair.post, pair.request(1))
        pair.sender.to_rts(attr)
        self.idle(pair)


class Rc(Refused, Early, Case):
    service = 'RC'


class Xrc(Refused, Early, Case):
    service = 'XRC'


class Uc(Case):
    """Operations that the service does not have."""

    service = 'UC'

    def test_read_over_uc(self):
        pair = self.pair()
        self.check(pair, pair.request(1, e.IBV_WR_RDMA_READ))

    def test_atomic_over_uc(self):
        pair = self.pair()
        self.check(pair, pair.request(1, e.IBV_WR_ATOMIC_FETCH_AND_ADD))
