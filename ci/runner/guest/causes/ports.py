"""A port that goes down and comes up again, on command."""

import glob
import pathlib
import time

from pyverbs import enums as e

import control
from bench import PATIENCE, PORT, QUIET, Case, seen
from peers import SLACK, STRETCH, TIMEOUT_UNIT


class Ports(Case):
    """What a port does to traffic under way."""

    def tearDown(self):
        control.port('up')
        # IPoIB joins its group again; the next test may need it.
        until = time.monotonic() + PATIENCE
        while not all(self.carrier(path) for path in glob.glob('/sys/class/net/ib*/carrier')):
            self.assertLess(time.monotonic(), until, 'IPoIB did not come back')
            time.sleep(0.05)
        while self.node.events.get(QUIET):
            pass
        super().tearDown()

    @staticmethod
    def carrier(path):
        return pathlib.Path(path).read_text().strip() == '1'

    def port_state(self):
        return self.node.context.query_port(PORT).state


class Events(Ports):
    service = 'RC'

    def test_port_down_and_up(self):
        found = []
        for state, expected in (('down', e.IBV_PORT_DOWN), ('up', e.IBV_PORT_ACTIVE)):
            control.port(state)
            found.append(self.node.events.get(PATIENCE))
            self.assertEqual(self.port_state(), expected)
        self.assertEqual([('node', name) for name, _ in found], self.row.events)
        self.assertEqual([number for _, number in found], [PORT, PORT])
        self.assertIsNone(self.node.events.get(QUIET))


class Traffic:
    def test_port_down_too_long(self):
        row = self.row
        pair = self.pair(timeout=14, retries=1)
        pair.receive(101, 102, 103)
        control.port('down')
        began = time.monotonic()
        pair.post(*(pair.request(wr_id) for wr_id in (1, 2, 3, 4)))
        sends = [(wc.wr_id, seen(wc)) for wc in pair.sent(4)]
        took = time.monotonic() - began
        self.check_sender(pair, row, sends)
        self.check_receiver(pair, row, (101, 102, 103))
        least = 2 * TIMEOUT_UNIT * 2 ** 14
        self.assertGreaterEqual(took, least)
        self.assertLessEqual(took, least * STRETCH + SLACK)
        self.assertEqual(self.events(pair, len(row.events)), row.events)

    def test_port_back_in_time(self):
        row = self.row
        # Eight time-outs of at least 0.54 s.
        pair = self.pair(timeout=17, retries=7)
        pair.receive(*range(101, 113))
        pair.post(*(pair.request(wr_id) for wr_id in (1, 2, 3, 4)))
        self.assertEqual([seen(wc) for wc in pair.sent(4)], [row.sender] * 4)
        control.port('down')
        pair.post(*(pair.request(wr_id) for wr_id in (5, 6, 7, 8)))
        self.assertEqual(pair.sent(1, 0.5), [], 'nothing gets through')
        control.port('up')
        pair.post(*(pair.request(wr_id) for wr_id in (9, 10, 11, 12)))
        self.assertEqual([(wc.wr_id, seen(wc)) for wc in pair.sent(8)], [(n, row.sender) for n in range(5, 13)])
        self.check_receiver(pair, row, range(101, 113))
        self.assertEqual(self.events(pair, len(row.events)), row.events)


class Rc(Traffic, Ports):
    service = 'RC'


class Xrc(Traffic, Ports):
    service = 'XRC'
