"""Runs rdma-core's own tests and says how each ended: JSON, an object a line, on standard output.

    rdma_core_tests.py FOLDER DEVICE [WORD]     only tests whose name holds the word

What the tests themselves print goes to standard error. The names of all tests come first, so that one that takes the
interpreter with it is missed.
"""

import importlib.util
import json
import os
import random
import signal
import sys
import traceback
import unittest

# Seconds; none takes a tenth of it in an emulated guest on a busy machine.
LIMIT = 120
SEED = 44


class Results(unittest.TestResult):
    """Says how each test ended as soon as it has."""

    def __init__(self, say):
        super().__init__()
        self.say = say

    def ended(self, test, how, why=''):
        self.say({'test': test.id(), 'ended': how, 'why': str(why)[:1000]})

    def failed(self, test, how, error):
        print(f'{how}: {test.id()}', file=sys.stderr)
        traceback.print_exception(*error)
        self.ended(test, how, f'{error[0].__name__}: {error[1]}')

    def startTest(self, test):
        super().startTest(test)
        print(f'{test.id()} ...', file=sys.stderr, flush=True)
        signal.alarm(LIMIT)

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)

    def addSuccess(self, test):
        self.ended(test, 'ok')

    def addSkip(self, test, reason):
        self.ended(test, 'skipped', reason)

    def addError(self, test, err):
        self.failed(test, 'error', err)

    def addFailure(self, test, err):
        self.failed(test, 'failure', err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.failed(test, 'failure', err)

    def addExpectedFailure(self, test, err):
        self.ended(test, 'ok')

    def addUnexpectedSuccess(self, test):
        self.ended(test, 'failure', 'it succeeded, which was not expected')


def time_is_up(signum, frame):
    raise TimeoutError(f'not over after {LIMIT} s')


def load(folder, device):
    """What the tests' own starter does, whose arguments a module of theirs reads."""
    # Instead of this script's own folder.
    sys.path[0] = folder
    sys.argv[1:] = ['--dev', device]
    from args_parser import parser
    parser.parse_args()
    start = os.path.join(folder, '__init__.py')
    spec = importlib.util.spec_from_file_location('tests', start, submodule_search_locations=[folder])
    module = importlib.util.module_from_spec(spec)
    sys.modules['tests'] = module
    spec.loader.exec_module(module)
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def main():
    folder, device, *words = sys.argv[1:]
    # Line by line, so that a process that a test forks finds nothing to write once more.
    out = os.fdopen(os.dup(1), 'w', buffering=1)
    os.dup2(2, 1)

    def say(what):
        out.write(json.dumps(what) + '\n')

    tests = [test for test in flat(load(folder, device)) if all(word in test.id() for word in words)]
    say({'listed': [test.id() for test in tests]})
    # Many of them throw dice; the same ones every time, so that what is found can be found again.
    random.seed(SEED)
    signal.signal(signal.SIGALRM, time_is_up)
    unittest.TestSuite(tests).run(Results(say))
    say({'done': True})


if __name__ == '__main__':
    main()
