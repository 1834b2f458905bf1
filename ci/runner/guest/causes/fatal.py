"""A device that fails: what programs and the kernel's log say, and that the driver starts it anew. In a boot of its own."""

import errno
import re
import subprocess
import time

from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError

import control
from bench import PATIENCE, PORT, Case, Node, seen

# What Linux's mlx5 driver says of it, and nothing else.
LOG = [
    r'poll_health:\d+:.*: Fatal error 3 detected',
    r'print_health_info:\d+:.*',
    r'mlx5_health_try_recover:\d+:.*: (handling bad device here|starting health recovery flow)',
    r'mlx5_handle_bad_state:\d+:.*: starting teardown',
    r'mlx5_error_sw_reset:\d+:.*: (start|end)',
    r'mlx5_pci_slot_reset Device state = .*',
    r'wait vital counter value 0x[0-9a-f]+ after \d+ iterations',
    r'firmware version: .*',
    r'mlx5_init_clock:\d+:.*',
    r'health recovery succeeded',
]
NEEDED = ['Fatal error 3 detected', 'health recovery succeeded']


class Device(Case):
    service = 'XRC'

    def log(self):
        lines = subprocess.run(['dmesg'], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
        return [line.split('mlx5_core ', 1)[1].split(': ', 1)[1] for line in lines if 'mlx5_core ' in line]

    def test_device_fatal(self):
        row = self.row
        before = len(self.log())
        pair = self.pair()
        pair.receive(101, 102, 103)
        control.ask('fatal', node=control.NODE)
        found = set()
        while not found >= {name for _, name in row.events}:
            event = self.node.events.get(PATIENCE)
            self.assertIsNotNone(event, f'only {found} came')
            found.add(event[0])
        self.assertEqual([('node', name) for name in found], row.events)
        # Nothing is done any more, and what needs the kernel fails.
        pair.post(pair.request(1))
        self.assertEqual(pair.sent(1, 1), [])
        self.assertEqual(pair.received(1, 1), [])
        with self.assertRaises(PyverbsRDMAError) as caught:
            self.node.context.query_port(PORT)
        self.assertEqual(caught.exception.error_code, errno.EIO)
        self.node.context.close()

        self.node = self.anew()
        again = self.pair()
        again.receive(101, 102, 103)
        again.post(*(again.request(wr_id) for wr_id in (1, 2, 3)))
        self.assertEqual([seen(wc) for wc in again.sent(3)], ['SUCCESS'] * 3)
        self.assertEqual([wc.wr_id for wc in again.received(3)], [101, 102, 103])
        said = self.log()[before:]
        odd = [line for line in said if not any(re.fullmatch(known, line) for known in LOG)]
        self.assertEqual(odd, [], 'the kernel says something else than it should')
        for needed in NEEDED:
            self.assertEqual(sum(needed in line for line in said), 1, f'{needed}: {said}')

    def anew(self):
        """The device, as soon as the driver has started it anew."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return Node()
            except (PyverbsError, OSError):
                self.assertLess(time.monotonic(), until, 'the device did not come back')
                time.sleep(0.2)
