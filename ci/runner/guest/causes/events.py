"""Events by what causes them, apart from those that come with a failed request."""

import ctypes

from pyverbs import enums as e
from pyverbs.qp import QPAttr
from pyverbs.srq import SrqAttr

from bench import PATIENCE, QUIET, Case, qp_attr, seen

# From libibverbs' and the provider's public headers: kinds of objects, and where their structures have what is used.
MLX5DV_OBJ_QP, MLX5DV_OBJ_SRQ = 1, 4
OBJ_QP, OBJ_SRQ, OBJ_SIZE = 0, 4, 14
QP_DOORBELL_RECORD, QP_DOORBELL = 0, 5
SRQ_DOORBELL_RECORD = 1


def words(element, kind, at):
    """The provider's own description of an object: pointers, as numbers."""
    out = (ctypes.c_uint64 * 32)()
    objects = (ctypes.c_uint64 * OBJ_SIZE)()
    objects[at], objects[at + 1] = element, ctypes.addressof(out)
    provider = ctypes.CDLL('libmlx5.so.1')
    if provider.mlx5dv_init_obj(objects, ctypes.c_uint64(kind)) != 0:
        raise AssertionError('mlx5dv_init_obj failed')
    return out


class Limit(Case):
    """An SRQ with fewer receives than its limit."""

    def limit(self, pair):
        row = self.row
        pair.receive(*range(101, 111))
        pair.srq.modify(SrqAttr(srq_limit=7), e.IBV_SRQ_LIMIT)
        self.assertEqual(pair.srq.query().srq_limit, 7)
        for wr_id in (1, 2, 3):
            pair.send(wr_id)
            self.assertEqual([seen(wc) for wc in pair.sent(1)], [row.sender])
        self.assertIsNone(self.node.events.get(QUIET), '7 of 10 receives are left: no event yet')
        pair.send(4)
        event = self.node.events.raw(PATIENCE)
        self.assertEqual(row.events, [('receiver', event[0])])
        # It comes once, until it is armed anew.
        self.assertEqual(pair.srq.query().srq_limit, 0)
        pair.send(5)
        self.assertEqual(len(pair.sent(2)), 2)
        self.assertIsNone(self.node.events.get(QUIET))
        pair.srq.modify(SrqAttr(srq_limit=5), e.IBV_SRQ_LIMIT)
        self.assertIsNone(self.node.events.get(QUIET), '5 are left')
        pair.send(6)
        self.assertEqual(self.node.events.raw(PATIENCE), event, 'the same SRQ')
        self.assertEqual(len(pair.sent(1)), 1)
        self.assertEqual([wc.wr_id for wc in pair.received(6)], [101, 102, 103, 104, 105, 106])
        return event[2]


class Xrc(Limit):
    service = 'XRC'

    def test_srq_limit(self):
        self.limit(self.pair(srq=self.node.srq()))

    def test_limit_of_one_srq_is_not_anothers(self):
        first, second = self.node.srq(), self.node.srq()
        pair, other = self.pair(srq=first), self.pair(srq=second)
        for one in (pair, other):
            one.receive(101, 102, 103)
            one.srq.modify(SrqAttr(srq_limit=2), e.IBV_SRQ_LIMIT)
        events = []
        for one in (pair, other):
            one.post(one.request(1), one.request(2))
            self.assertEqual(len(one.sent(2)), 2)
            events.append(self.node.events.get(PATIENCE))
        self.assertEqual([('receiver', events[0][0])], self.row.events)
        self.assertNotEqual(events[0], events[1], 'they are told apart by their handles')
        self.assertEqual((first[0].query().srq_limit, second[0].query().srq_limit), (0, 0))

    def test_broken_srq(self):
        row = self.row
        pair = self.pair(srq=self.node.srq())
        pair.receive(101, 102, 103)
        pair.srq.modify(SrqAttr(srq_limit=3), e.IBV_SRQ_LIMIT)
        pair.send(9)
        self.assertEqual([seen(wc) for wc in pair.sent(1)], ['SUCCESS'])
        self.assertEqual([wc.wr_id for wc in pair.received(1)], [101])
        srq = self.node.events.raw(PATIENCE)[2]
        # The program says that it posted more receives than the queue holds.
        record = words(srq, MLX5DV_OBJ_SRQ, OBJ_SRQ)[SRQ_DOORBELL_RECORD]
        ctypes.c_uint32.from_address(record).value = 0x00700000
        pair.post(*(pair.request(wr_id) for wr_id in (1, 2, 3, 4)))
        self.check_sender(pair, row, [(wc.wr_id, seen(wc)) for wc in pair.sent(4)])
        found = [event for event in (self.node.events.raw(PATIENCE) for _ in row.events)]
        self.assertEqual(sorted(('receiver', event[0]) for event in found), sorted(row.events))
        self.assertIn(srq, [event[2] for event in found])
        self.assertEqual(pair.state('receiver'), 'ERR')

    def test_first_message_before_rts(self):
        row = self.row
        pair = self.pair(receiver_to=e.IBV_QPS_RTR)
        pair.receive(101, 102)
        pair.post(pair.request(1), pair.request(2))
        self.assertEqual([(wc.wr_id, seen(wc)) for wc in pair.sent(2)], [(1, row.sender), (2, row.sender)])
        self.assertEqual(self.events(pair, 1), row.events)


class Rc(Limit):
    service = 'RC'

    def test_srq_limit(self):
        self.limit(self.pair(use_srq=self.node.basic_srq()))

    def test_first_message_before_rts(self):
        row = self.row
        pair = self.pair(receiver_to=e.IBV_QPS_RTR)
        pair.receive(101, 102)
        pair.post(pair.request(1), pair.request(2))
        self.assertEqual([(wc.wr_id, seen(wc)) for wc in pair.sent(2)], [(1, row.sender), (2, row.sender)])
        self.assertEqual(self.events(pair, 1), row.events)

    def test_last_receive_of_a_qp_with_a_basic_srq(self):
        row = self.row
        pair = self.pair(use_srq=self.node.basic_srq())
        pair.receive(101)
        pair.receiver.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        self.assertEqual(self.events(pair, 1), row.events)
        # What is in the SRQ stays there for others.
        self.assertEqual(pair.received(1, QUIET), [])

    def known(self, pair):
        """The receiver as libibverbs knows it, from the event of its first message."""
        pair.receive(100)
        pair.send(100)
        self.assertEqual([seen(wc) for wc in pair.sent(1)], ['SUCCESS'])
        self.assertEqual([seen(wc) for wc in pair.received(1)], ['SUCCESS'])
        event = self.node.events.raw(PATIENCE)
        self.assertEqual(event[:2], ('COMM_EST', pair.receiver.qp_num))
        return words(event[2], MLX5DV_OBJ_QP, OBJ_QP)

    def test_broken_receive_queue(self):
        row = self.row
        pair = self.pair(receiver_to=e.IBV_QPS_RTR)
        record = self.known(pair)[QP_DOORBELL_RECORD]
        pair.receive(101, 102, 103)
        # More receives than the queue holds.
        ctypes.c_uint32.from_address(record).value = 0x00700000
        pair.post(*(pair.request(wr_id) for wr_id in (1, 2, 3, 4)))
        self.check_sender(pair, row, [(wc.wr_id, seen(wc)) for wc in pair.sent(4)])
        self.assertEqual(self.events(pair, 1), row.events)
        self.assertEqual(pair.state('receiver'), 'ERR')

    def test_broken_send_queue(self):
        row = self.row
        pair = self.pair(receiver_to=e.IBV_QPS_RTR)
        qp = self.known(pair)
        pair.receiver.to_rts(qp_attr(pair.sender.qp_num, self.node.lid))
        # More sends than the queue holds, and a doorbell.
        ctypes.c_uint32.from_address(qp[QP_DOORBELL_RECORD] + 4).value = 0x00700000
        doorbell = (pair.receiver.qp_num << 8 | 2) | 0x0a << 32
        ctypes.c_uint64.from_address(qp[QP_DOORBELL]).value = int.from_bytes(doorbell.to_bytes(8, 'big'), 'little')
        self.assertEqual(self.events(pair, 1), row.events)
        self.assertEqual(pair.state('receiver'), 'ERR')
