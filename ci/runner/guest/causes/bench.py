"""What the tests of causes stand on: two ends in one process, their completions and events, and the table.

Each test makes one cause and compares what both ends saw with its row of ci/mlx5-model/ERRORS.md: the row is the
expectation, so that the table cannot say anything else than what the tests have seen.
"""

import ctypes
import os
import pathlib
import re
import select
import time
import unittest

from pyverbs import enums as e
from pyverbs.addr import AHAttr
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr, SrqInitAttrEx
from pyverbs.wr import SGE, RecvWR, SendWR
from pyverbs.xrcd import XRCD, XRCDInitAttr

DEVICE = os.environ.get('RDMA_XRC_DEVICE', 'mlx5_0')
PORT = 1
MTU = 1024
SIZE = 4 * MTU
QKEY = 0x11111111
ALL_RIGHTS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
              | e.IBV_ACCESS_REMOTE_ATOMIC)
# An emulated guest on a busy machine is slow; what arrives is waited for so long, in seconds.
PATIENCE = 60
# What must not come is waited for so long.
QUIET = 0.05

FLUSHED = 'WR_FLUSH_ERR 0xf9'
TABLE = pathlib.Path(__file__).parents[3] / 'mlx5-model' / 'ERRORS.md'


def names(prefix):
    return {value: name[len(prefix):] for name, value in vars(e).items() if name.startswith(prefix)}


# Opcodes and flags of completions share the prefix with the statuses.
STATUSES = {value: name for value, name in ((getattr(e, n), n[len('IBV_WC_'):]) for n in dir(e) if n.startswith('IBV_WC_'))
            if name.endswith('_ERR') or name == 'SUCCESS'}
STATES = names('IBV_QPS_')
EVENTS = names('IBV_EVENT_')


def seen(wc):
    """A completion as the table writes it."""
    status = STATUSES[wc.status]
    return status if wc.status == e.IBV_WC_SUCCESS else f'{status} {wc.vendor_err:#04x}'


class Row:
    """A row of the table, for one test and one service."""

    def __init__(self, test, service):
        rows = [row for row in self.rows() if f'`{test}`' == row['test'] and service in row['service']]
        if len(rows) != 1:
            raise AssertionError(f'{len(rows)} rows of {TABLE.name} are for `{test}` and {service}')
        self.sender, self.receiver = rows[0]['sender'], rows[0]['receiver']
        self.events = self.read_events(rows[0]['events'], service)

    @staticmethod
    def rows():
        for line in TABLE.read_text().splitlines():
            cells = [cell.strip() for cell in line.strip().strip('|').split('|')]
            if len(cells) == 7 and cells[6].startswith('`'):
                yield {'service': re.split(', ', cells[1]), 'sender': cells[2], 'receiver': cells[3],
                       'events': cells[4], 'test': cells[6]}

    @staticmethod
    def read_events(cell, service):
        if cell == 'none':
            return []
        found = []
        for part in cell.split(', '):
            match = re.fullmatch(r'(sender|receiver|node) ([A-Z_]+)(?: \(([A-Z, ]+)\))?', part)
            if not match:
                raise AssertionError(f'{TABLE.name} has the events {cell!r}, of which {part!r} makes no sense')
            if match[3] is None or service in match[3].split(', '):
                found.append((match[1], match[2]))
        return found


class Events:
    """The asynchronous events of a context."""

    def __init__(self, context, descriptor):
        self.context, self.descriptor = context, descriptor

    def get(self, seconds):
        """The next event's name, and the number of its QP, or the handle of its SRQ; None if there is none."""
        event = self.raw(seconds)
        return event and event[:2]

    def raw(self, seconds):
        if not select.select([self.descriptor], [], [], seconds)[0]:
            return None
        event = self.context.get_async_event()
        # pyverbs does not say whom an event is about. Its object ends with libibverbs' own structure, which does:
        # a pointer or a port, then the type.
        size = event.__sizeof__()
        element = ctypes.c_uint64.from_address(id(event) + size - 16).value
        if ctypes.c_uint32.from_address(id(event) + size - 8).value != event.event_type:
            raise AssertionError('this version of pyverbs keeps its events otherwise')
        name = EVENTS[event.event_type]
        number = element
        if name.startswith('QP') or name in ('COMM_EST', 'SQ_DRAINED', 'PATH_MIG', 'PATH_MIG_ERR'):
            # struct ibv_qp: six pointers, the handle, the number.
            number = ctypes.c_uint32.from_address(element + 52).value
        elif name.startswith('SRQ'):
            # struct ibv_srq: three pointers, the handle.
            number = ctypes.c_uint32.from_address(element + 24).value
        elif name.startswith('CQ'):
            # struct ibv_cq: three pointers, the handle, the size.
            number = ctypes.c_uint32.from_address(element + 28).value
        event.ack()
        return name, number, element


def open_context():
    """A context and its events."""
    def events():
        found = set()
        for name in os.listdir('/proc/self/fd'):
            try:
                if 'infinibandevent' in os.readlink(f'/proc/self/fd/{name}'):
                    found.add(int(name))
            except OSError:
                pass
        return found
    before = events()
    context = Context(name=DEVICE)
    new = events() - before
    if len(new) != 1:
        raise AssertionError(f'a context has {len(new)} descriptors for events')
    return context, Events(context, new.pop())


class Node:
    """A context with what all ends in it share."""

    def __init__(self):
        self.context, self.events = open_context()
        self.lid = self.context.query_port(PORT).lid
        self.pd = PD(self.context)
        self.other_pd = PD(self.context)
        self.mr = MR(self.pd, SIZE, ALL_RIGHTS)
        self.xrcds = {}

    def xrcd(self, name='first'):
        if name not in self.xrcds:
            mask = e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS
            self.xrcds[name] = XRCD(self.context, XRCDInitAttr(mask, os.O_CREAT, -1))
        return self.xrcds[name]

    def srq(self, pd=None, xrcd=None, cq=None, size=16, sges=2):
        """An XRC SRQ, with a completion queue of its own unless one is given."""
        cq = cq or CQ(self.context, 64)
        attr = SrqInitAttrEx(max_wr=size, max_sge=sges)
        attr.srq_type = e.IBV_SRQT_XRC
        attr.pd, attr.xrcd, attr.cq = pd or self.pd, xrcd or self.xrcd(), cq
        attr.comp_mask = (e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD | e.IBV_SRQ_INIT_ATTR_CQ
                          | e.IBV_SRQ_INIT_ATTR_XRCD)
        return SRQ(self.context, attr), cq

    def basic_srq(self, size=16):
        return SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=size, max_sge=1)))

    def pair(self, service, **options):
        return Pair(self, service, **options)


def qp_attr(destination, lid, timeout=14, retries=7, rnr_retries=0, rnr_timer=1, rights=ALL_RIGHTS, psn=0):
    attr = QPAttr(port_num=PORT)
    attr.pkey_index = 0
    attr.qp_access_flags = rights
    attr.path_mtu = e.IBV_MTU_1024
    attr.dest_qp_num = destination
    attr.rq_psn = attr.sq_psn = psn
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
    attr.min_rnr_timer, attr.timeout = rnr_timer, timeout
    attr.retry_cnt, attr.rnr_retry = retries, rnr_retries
    attr.qkey = QKEY
    attr.ah_attr = AHAttr(port_num=PORT, dlid=lid)
    return attr


TYPES = {'RC': e.IBV_QPT_RC, 'UC': e.IBV_QPT_UC, 'UD': e.IBV_QPT_UD}


class Pair:
    """A sender and a receiver, connected.

    RC and UC: two QPs with a receive queue each. XRC: an initiator, a target and an SRQ. Sends and receives
    complete in queues of their own.
    """

    def __init__(self, node, service, connect=True, srq=None, send_cqe=64, receive_cqe=64, use_srq=None, **options):
        self.node, self.service = node, service
        self.send_cq = CQ(node.context, send_cqe)
        if service == 'XRC':
            self.srq, self.receive_cq = srq or node.srq()
            xrcd = options.pop('xrcd', None) or node.xrcd()
            self.receiver = QP(node.context, QPInitAttrEx(
                qp_type=e.IBV_QPT_XRC_RECV, comp_mask=e.IBV_QP_INIT_ATTR_XRCD, xrcd=xrcd))
            cap = QPCap(max_send_wr=16, max_send_sge=2, max_recv_wr=0, max_recv_sge=0)
            self.sender = QP(node.context, QPInitAttrEx(
                qp_type=e.IBV_QPT_XRC_SEND, comp_mask=e.IBV_QP_INIT_ATTR_PD, pd=node.pd, scq=self.send_cq,
                cap=cap, sq_sig_all=0))
        else:
            self.srq = use_srq
            self.receive_cq = CQ(node.context, receive_cqe)
            cap = QPCap(max_send_wr=16, max_send_sge=2, max_recv_wr=16, max_recv_sge=2)
            def make(send, receive, srq=None):
                return QP(node.pd, QPInitAttr(qp_type=TYPES[service], scq=send, rcq=receive, cap=cap, srq=srq,
                                              sq_sig_all=0))
            self.idle_cq = CQ(node.context, 16)
            self.sender = make(self.send_cq, self.idle_cq)
            self.receiver = make(self.idle_cq, self.receive_cq, use_srq)
        self.remote_srqn = self.srq.get_srq_num() if service == 'XRC' else None
        self.numbers = {self.sender.qp_num: 'sender', self.receiver.qp_num: 'receiver'}
        if connect:
            self.connect(**options)

    def connect(self, receiver_rights=ALL_RIGHTS, destination=None, lid=None, receiver_to=e.IBV_QPS_RTS, **options):
        """Connects the two; `destination` and `lid` are where the sender believes the receiver to be."""
        lid = self.node.lid if lid is None else lid
        # A target that sends nothing may still have to give a retry count.
        attr = qp_attr(self.sender.qp_num, self.node.lid, rights=receiver_rights, **options)
        if receiver_to == e.IBV_QPS_RTS:
            self.receiver.to_rts(attr)
        elif receiver_to == e.IBV_QPS_RTR:
            self.receiver.to_rtr(attr)
        elif receiver_to == e.IBV_QPS_INIT:
            self.receiver.to_init(attr)
        destination = self.receiver.qp_num if destination is None else destination
        self.sender.to_rts(qp_attr(destination, lid, **options))

    def receive(self, *wr_ids, mr=None, lkey=None, length=SIZE, offset=0):
        """Posts receives."""
        mr = mr or self.node.mr
        for wr_id in wr_ids:
            sge = SGE(mr.buf + offset, length, mr.lkey if lkey is None else lkey)
            wr = RecvWR(wr_id=wr_id, num_sge=1, sg=[sge])
            (self.srq or self.receiver).post_recv(wr)

    def request(self, wr_id, opcode=e.IBV_WR_SEND, mr=None, lkey=None, length=8, offset=0, remote=None, rkey=None,
                remote_offset=0, flags=e.IBV_SEND_SIGNALED, sges=None, imm=0x1234):
        """A send work request; its far end is the node's own memory unless said otherwise."""
        mr, remote = mr or self.node.mr, remote or self.node.mr
        sges = sges or [SGE(mr.buf + offset, length, mr.lkey if lkey is None else lkey)]
        wr = SendWR(wr_id=wr_id, opcode=opcode, num_sge=len(sges), sg=sges, send_flags=flags, imm_data=imm)
        rkey, address = remote.rkey if rkey is None else rkey, remote.buf + remote_offset
        if opcode in (e.IBV_WR_RDMA_READ, e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_WRITE_WITH_IMM):
            wr.set_wr_rdma(rkey, address)
        elif opcode in (e.IBV_WR_ATOMIC_CMP_AND_SWP, e.IBV_WR_ATOMIC_FETCH_AND_ADD):
            wr.set_wr_atomic(rkey, address, 1, 2)
        if self.service == 'XRC':
            wr.set_qp_type_xrc(self.remote_srqn)
        return wr

    def post(self, *requests):
        """Posts the requests at once: with one doorbell, so that none is on its way before the last is there."""
        for one, following in zip(requests, requests[1:]):
            one.next_wr = following
        self.sender.post_send(requests[0])

    def send(self, wr_id, **options):
        self.post(self.request(wr_id, **options))

    def sent(self, count, seconds=PATIENCE):
        return poll(self.send_cq, count, seconds)

    def received(self, count, seconds=PATIENCE):
        return poll(self.receive_cq, count, seconds)

    def state(self, end):
        qp = getattr(self, end)
        attr, _ = qp.query(e.IBV_QP_STATE)
        return STATES[attr.qp_state]


def poll(cq, count, seconds=PATIENCE):
    """So many completions, in their order, or those that came in time."""
    found, until = [], time.monotonic() + seconds
    while len(found) < count:
        number, completions = cq.poll(count - len(found))
        found += completions
        if not number:
            if time.monotonic() > until:
                break
            time.sleep(0.001)
    return found


class Case(unittest.TestCase):
    """A test of one cause, in each of its services."""

    maxDiff = None
    service = None

    def setUp(self):
        self.node = Node()

    def tearDown(self):
        # What comes besides what the test looked at is in no row.
        self.assertIsNone(self.node.events.get(0), 'an event more than the row has')
        # Objects refer to each other; pyverbs closes what is in a context with the context, in the right order.
        self.node.context.close()

    @property
    def row(self):
        module = type(self).__module__
        method = self._testMethodName
        if not method.startswith('test_'):
            raise AssertionError(f'{method} is no test')
        return Row(f'{module}.{method[len("test_"):]}', self.service)

    def pair(self, **options):
        return self.node.pair(self.service, **options)

    def events(self, pair, count):
        """So many events as (end, name), and whatever comes in the moment after them."""
        found = []
        while True:
            event = self.node.events.get(PATIENCE if len(found) < count else QUIET)
            if event is None:
                return found
            of_node = event[0].startswith(('PORT', 'DEVICE'))
            found.append(('node' if of_node else pair.numbers.get(event[1], f'{event[1]:#x}'), event[0]))

    def check(self, pair, request, receives=(101, 102, 103), receive_options=None):
        """Posts the request with three good ones behind it, and compares what both ends see with the row."""
        row = self.row
        if receives:
            pair.receive(receives[0], **(receive_options or {}))
            pair.receive(*receives[1:])
        pair.post(request, *(pair.request(wr_id) for wr_id in (2, 3, 4)))
        sends = [(wc.wr_id, seen(wc)) for wc in pair.sent(4)]
        self.check_sender(pair, row, sends)
        self.check_receiver(pair, row, receives)
        self.assertEqual(sorted(self.events(pair, len(row.events))), sorted(row.events), 'events')

    def check_sender(self, pair, row, sends):
        self.assertEqual([wr_id for wr_id, _ in sends], [1, 2, 3, 4], 'each send completes once, in order')
        results = [result for _, result in sends]
        self.assertIn(results[0], row.sender.split(' or '), 'the sender of what failed')
        if results[0] == 'SUCCESS':
            self.assertEqual(results[1:], ['SUCCESS'] * 3, 'what was sent behind it')
            self.assertEqual(pair.state('sender'), 'RTS')
        else:
            self.assertEqual(results[1:], [FLUSHED] * 3, 'what was sent behind it')
            broken = 'SQE' if self.service in ('UC', 'UD') else 'ERR'
            self.assertEqual(pair.state('sender'), broken)
        self.assertEqual(pair.sent(1, QUIET), [], 'nothing completes twice')

    def check_receiver(self, pair, row, receives):
        first, _, rest = row.receiver.partition(', then ')
        if not rest and first in ('nothing', 'flushed', 'received'):
            first, rest = None, first
        expected = [(receives[0], first)] if first else []
        left = receives[1:] if first else receives
        if rest == 'received':
            expected += [(wr_id, 'SUCCESS') for wr_id in left]
        elif rest == 'flushed' and self.service != 'XRC':
            expected += [(wr_id, FLUSHED) for wr_id in left]
        elif rest not in ('nothing', 'flushed'):
            raise AssertionError(f'{TABLE.name} has a receiver that sees {row.receiver!r}')
        found = [(wc.wr_id, seen(wc)) for wc in pair.received(len(expected))]
        self.assertEqual(found, expected, 'the receiver, in order')
        self.assertEqual(pair.received(1, QUIET), [], 'nothing is received besides')
        self.assertEqual(pair.state('receiver'), 'ERR' if rest == 'flushed' else 'RTS')
