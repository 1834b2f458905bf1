"""A wire that loses, doubles, reorders and delays packets: each message once, in order, with the right bytes."""

import time

from pyverbs import enums as e
from pyverbs.mr import MR

import control
from bench import ALL_RIGHTS, MTU, Case, seen
from peers import SLACK, STRETCH, TIMEOUT_UNIT

# Rounds, and the operations of one: a send with immediate data, a write, a read, a fetch-and-add.
ROUNDS = 60
OPERATIONS = 4
# Rounds that are posted at once.
BATCH = 4
# The longest message: some take several packets, some one, and they end within packets.
LONGEST = 3 * MTU
SLOT = 4 * MTU
FIVE_PERCENT = 0.05
# A time-out of 67 ms at least, which leaves a slow machine's answers the time that they take.
TIMEOUT = 14


def length(number):
    return 1 + number * 397 % LONGEST


def pattern(number, kind, size):
    # Seven bits: pyverbs writes text, as UTF-8.
    return bytes((number * 31 + kind * 101 + at) % 127 for at in range(size)).decode()


class Faulty:
    """Traffic over a wire with faults."""

    def tearDown(self):
        control.link()
        super().tearDown()

    def faulty(self, counters, **faults):
        row = self.row
        pair = self.pair(timeout=TIMEOUT, retries=7, rnr_retries=7, rnr_timer=12)
        before = control.activity()
        control.link(seed=len(self.id()), **faults)
        traffic = Traffic(self, pair)
        for start in range(0, ROUNDS, BATCH):
            traffic.batch(start, row.sender)
        traffic.end()
        control.link()
        after = control.activity()
        for counter in counters:
            self.assertGreater(after[counter], before[counter], f'{counter} shows no fault')
        self.assertEqual(pair.state('sender'), 'RTS')
        self.assertEqual(pair.state('receiver'), 'RTS')
        self.assertEqual(self.events(pair, 0), row.events)

    def test_loss(self):
        self.faulty(['packets_lost', 'packets_retransmitted'], loss=FIVE_PERCENT)

    def test_duplication(self):
        self.faulty(['packets_duplicated', 'duplicate_requests'], duplicate=FIVE_PERCENT)

    def test_reordering(self):
        self.faulty(['packets_reordered', 'packets_retransmitted'], reorder=FIVE_PERCENT)

    def test_delay(self):
        self.faulty(['packets_delayed'], delay_us=2000)

    def test_jitter(self):
        self.faulty(['packets_delayed'], delay_us=200, jitter_us=400)

    def test_all_at_once(self):
        self.faulty(['packets_lost', 'packets_duplicated', 'packets_reordered', 'packets_delayed'],
                    loss=FIVE_PERCENT, duplicate=FIVE_PERCENT, reorder=FIVE_PERCENT, delay_us=100, jitter_us=100)

    def test_nothing_gets_through(self):
        row = self.row
        pair = self.pair(timeout=TIMEOUT, retries=1)
        pair.receive(101, 102, 103)
        before = control.activity()
        control.link(loss=1)
        began = time.monotonic()
        pair.post(*(pair.request(wr_id) for wr_id in (1, 2, 3, 4)))
        sends = [(wc.wr_id, seen(wc)) for wc in pair.sent(4)]
        took = time.monotonic() - began
        control.link()
        self.check_sender(pair, row, sends)
        self.check_receiver(pair, row, (101, 102, 103))
        least = 2 * TIMEOUT_UNIT * 2 ** TIMEOUT
        self.assertGreaterEqual(took, least)
        self.assertLessEqual(took, least * STRETCH + SLACK)
        self.assertGreater(control.activity()['packets_lost'], before['packets_lost'])

    def test_wire_mended_in_time(self):
        row = self.row
        pair = self.pair(timeout=17, retries=7)
        pair.receive(101, 102, 103, 104)
        control.link(loss=1)
        pair.post(*(pair.request(wr_id) for wr_id in (1, 2, 3, 4)))
        self.assertEqual(pair.sent(1, 0.5), [])
        control.link()
        self.assertEqual([(wc.wr_id, seen(wc)) for wc in pair.sent(4)], [(n, row.sender) for n in (1, 2, 3, 4)])
        self.check_receiver(pair, row, (101, 102, 103, 104))


class Traffic:
    """Rounds of all operations, each checked."""

    def __init__(self, case, pair):
        self.case, self.pair = case, pair
        pd = case.node.pd
        # The sender's: what is sent, what is written, what was read, what the counter was.
        self.local = MR(pd, 4 * BATCH * SLOT, ALL_RIGHTS)
        # The receiver's: receives, what is written to, what is read, the counter.
        self.remote = MR(pd, 3 * BATCH * SLOT + 8, ALL_RIGHTS)
        self.counter = 3 * BATCH * SLOT
        self.remote.write('\0' * 8, 8, self.counter)

    def at(self, kind, number):
        return (kind * BATCH + number % BATCH) * SLOT

    def batch(self, start, status):
        """Posts a few rounds at once and checks all that comes of them."""
        case, pair, numbers = self.case, self.pair, range(start, start + BATCH)
        for n in numbers:
            pair.receive(n, mr=self.remote, offset=self.at(0, n), length=SLOT)
            for kind in (0, 1):
                self.local.write(pattern(n, kind, length(n)), length(n), self.at(kind, n))
            self.remote.write(pattern(n, 2, length(n)), length(n), self.at(2, n))
        pair.post(*(request for n in numbers for request in self.requests(n)))

        sends = [(wc.wr_id, seen(wc)) for wc in pair.sent(BATCH * OPERATIONS)]
        posted = range(start * OPERATIONS, (start + BATCH) * OPERATIONS)
        case.assertEqual(sends, [(wr_id, status) for wr_id in posted], 'each request once, in order')
        received = [(wc.wr_id, seen(wc), wc.byte_len, wc.imm_data) for wc in pair.received(BATCH)]
        expected = [(n, 'SUCCESS', length(n), n) for n in numbers]
        case.assertEqual(received, expected, 'each message once, in order')
        for n in numbers:
            size = length(n)
            for kind, mr, at in ((0, self.remote, self.at(0, n)), (1, self.remote, self.at(1, n)),
                                 (2, self.local, self.at(2, n))):
                got = mr.read(size, at).decode(errors='replace')
                case.assertTrue(got == pattern(n, kind, size), f'bytes of round {n}, operation {kind}')
            was = int.from_bytes(self.local.read(8, self.at(3, n)), 'little')
            case.assertEqual(was, n, 'each addition happened once, in order')

    def requests(self, n):
        pair, signalled = self.pair, e.IBV_SEND_SIGNALED
        first = n * OPERATIONS
        common = {'mr': self.local, 'remote': self.remote, 'flags': signalled}
        yield pair.request(first, e.IBV_WR_SEND_WITH_IMM, length=length(n), offset=self.at(0, n), imm=n, **common)
        yield pair.request(first + 1, e.IBV_WR_RDMA_WRITE, length=length(n), offset=self.at(1, n),
                           remote_offset=self.at(1, n), **common)
        yield pair.request(first + 2, e.IBV_WR_RDMA_READ, length=length(n), offset=self.at(2, n),
                           remote_offset=self.at(2, n), **common)
        yield pair.request(first + 3, e.IBV_WR_ATOMIC_FETCH_AND_ADD, length=8, offset=self.at(3, n),
                           remote_offset=self.counter, **common)

    def end(self):
        """Nothing came twice."""
        total = int.from_bytes(self.remote.read(8, self.counter), 'little')
        self.case.assertEqual(total, ROUNDS)
        self.case.assertEqual(self.pair.sent(1, 0.05), [])
        self.case.assertEqual(self.pair.received(1, 0.05), [])


class Rc(Faulty, Case):
    service = 'RC'


class Xrc(Faulty, Case):
    service = 'XRC'
