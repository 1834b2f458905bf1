"""Queues that are broken off, flushed, filled up, and used again."""

import time

from pyverbs import enums as e
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.addr import AH, AHAttr
from pyverbs.qp import QPAttr

from bench import ALL_RIGHTS, FLUSHED, PORT, QKEY, QUIET, Case, qp_attr, seen


def to_error(qp):
    qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)


def results(completions):
    return [(wc.wr_id, seen(wc)) for wc in completions]


class Broken:
    """Into error by the program itself."""

    def test_receiver_moved_to_error(self):
        row = self.row
        pair = self.pair()
        pair.receive(101, 102, 103)
        to_error(pair.receiver)
        self.check_receiver(pair, row, (101, 102, 103))
        self.assertEqual(self.events(pair, len(row.events)), row.events)

    def test_sender_moved_to_error(self):
        # Its peer is silent, so all that is posted is still there.
        row = self.row
        pair = self.pair(destination=0xabcdef, timeout=18)
        pair.receive(101, 102, 103)
        pair.post(*(pair.request(wr_id) for wr_id in (1, 2, 3, 4)))
        to_error(pair.sender)
        self.check_sender(pair, row, results(pair.sent(4)))
        self.check_receiver(pair, row, (101, 102, 103))
        self.assertEqual(self.events(pair, len(row.events)), row.events)

    def test_sends_posted_in_error(self):
        row = self.row
        pair = self.pair()
        to_error(pair.sender)
        pair.post(*(pair.request(wr_id) for wr_id in (1, 2)))
        pair.post(*(pair.request(wr_id) for wr_id in (3, 4)))
        self.check_sender(pair, row, results(pair.sent(4)))

    def test_many_sends_flushed(self):
        # As many as the queue holds, twice, unsignalled ones among them: an error always completes.
        row = self.row
        pair = self.pair(destination=0xabcdef, timeout=18)
        for start in (1, 17):
            wrs = [pair.request(n, flags=e.IBV_SEND_SIGNALED if n % 3 else 0) for n in range(start, start + 16)]
            pair.post(*wrs)
            if start == 1:
                to_error(pair.sender)
            self.assertEqual(results(pair.sent(16)), [(n, row.sender) for n in range(start, start + 16)])
        self.assertEqual(pair.sent(1, QUIET), [])

    def test_reset_forgets_what_was_posted(self):
        row = self.row
        pair = self.pair(destination=0xabcdef, timeout=18)
        pair.post(*(pair.request(wr_id) for wr_id in (1, 2, 3, 4)))
        pair.sender.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        self.assertEqual(pair.sent(1, QUIET), [])
        self.assertEqual(pair.state('sender'), 'RESET')
        # And it can be used again.
        pair.receive(101, 102, 103)
        pair.sender.to_rts(qp_attr(pair.receiver.qp_num, self.node.lid))
        pair.post(pair.request(5))
        self.assertEqual(results(pair.sent(1)), [(5, row.sender)])
        self.assertEqual(results(pair.received(1)), [(101, 'SUCCESS')])


class OwnReceives:
    """Receive queues that are not shared."""

    def test_receives_posted_in_error(self):
        pair = self.pair()
        to_error(pair.receiver)
        pair.receive(101, 102)
        time.sleep(0.05)
        pair.receive(103)
        self.check_receiver(pair, self.row, (101, 102, 103))


class Full:
    """Completion queues that nobody reads."""

    def overrun(self, pair, cq, end):
        row = self.row
        pair.receive(*range(101, 113))
        for wr_id in range(1, 13):
            pair.post(pair.request(wr_id))
        events = self.events_of_queue(len(row.events))
        self.assertIn(('CQ_ERR', cq.cqe), events, 'the queue is told apart by its size')
        names = [(pair.numbers.get(number, end), name) for name, number in events]
        self.assertEqual(sorted(names), sorted(row.events))
        self.assertEqual(pair.state(end), 'ERR')
        # What was written before the queue was full can still be read; what came after it is lost.
        before = pair.sent(64, QUIET) if end == 'sender' else pair.received(64, QUIET)
        self.assertEqual(results(before), [(wc.wr_id, 'SUCCESS') for wc in before])
        first = 1 if end == 'sender' else 101
        self.assertEqual([wc.wr_id for wc in before], list(range(first, first + cq.cqe + 1)))
        if end == 'receiver':
            # The sender is told of it, or finds nobody any more.
            sends = [seen(wc) for wc in pair.sent(12)]
            good = sends.count('SUCCESS')
            self.assertGreaterEqual(good, cq.cqe + 1)
            self.assertEqual(sends, ['SUCCESS'] * good + [row.sender] + [FLUSHED] * (11 - good))

    def events_of_queue(self, count):
        found = []
        while True:
            event = self.node.events.get(60 if len(found) < count else QUIET)
            if event is None:
                return found
            found.append(event)

    def test_overrun_by_sends(self):
        pair = self.pair(send_cqe=7)
        self.overrun(pair, pair.send_cq, 'sender')

    def test_overrun_by_receives(self):
        if self.service == 'XRC':
            pair = self.pair(srq=self.node.srq(cq=CQ(self.node.context, 7)), timeout=12, retries=0)
        else:
            pair = self.pair(receive_cqe=7, timeout=12, retries=0)
        self.overrun(pair, pair.receive_cq, 'receiver')


class Rc(Broken, OwnReceives, Full, Case):
    service = 'RC'


class Xrc(Broken, Full, Case):
    service = 'XRC'


class Resume:
    """Out of send error."""

    def resume(self, pair, request):
        row = self.row
        pair.receive(101, 102, 103, **self.receives)
        pair.post(request, pair.request(2))
        self.assertEqual(results(pair.sent(2)), [(1, row.sender), (2, FLUSHED)])
        self.assertEqual(pair.state('sender'), 'SQE')
        # It still flushes what is posted to it.
        pair.post(pair.request(3))
        self.assertEqual(results(pair.sent(1)), [(3, FLUSHED)])
        pair.sender.modify(QPAttr(qp_state=e.IBV_QPS_RTS, cur_qp_state=e.IBV_QPS_SQE),
                           e.IBV_QP_STATE | e.IBV_QP_CUR_STATE)
        self.assertEqual(pair.state('sender'), 'RTS')
        pair.post(pair.request(4), pair.request(5))
        self.assertEqual(results(pair.sent(2)), [(4, 'SUCCESS'), (5, 'SUCCESS')])
        self.assertEqual(results(pair.received(2)), [(101, 'SUCCESS'), (102, 'SUCCESS')])
        self.assertEqual(pair.received(1, QUIET), [])


class Uc(Resume, Case):
    service = 'UC'
    receives = {}

    def test_send_error_and_resume(self):
        pair = self.pair()
        self.resume(pair, pair.request(1, lkey=0xfffff00))


class Ud(Resume, Case):
    service = 'UD'

    def test_send_error_and_resume(self):
        pair = self.node.pair('UD', connect=False)
        self.receives = {}
        attr = QPAttr(port_num=PORT)
        attr.qkey = QKEY
        pair.sender.to_rts(attr)
        pair.receiver.to_rts(attr)
        ah = AH(self.node.pd, attr=AHAttr(port_num=PORT, dlid=self.node.lid))
        make = pair.request

        def request(wr_id, **options):
            wr = make(wr_id, **options)
            wr.set_wr_ud(ah, pair.receiver.qp_num, QKEY)
            return wr
        pair.request = request
        self.resume(pair, pair.request(1, lkey=0xfffff00))
