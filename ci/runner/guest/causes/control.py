"""The lab's control port, as it is in a guest: one line of JSON each way."""

import errno
import itertools
import json
import os
import select
import time

PATH = os.environ.get('RDMA_XRC_CONTROL')
NUMBERS = itertools.count()
NODE = int(os.environ.get('NODE', '1'))
PATIENCE = 30


def ask(verb, **request):
    """What the lab answers; an error of its is one here."""
    if not PATH:
        raise AssertionError('RDMA_XRC_CONTROL is not set: this runs in a guest of ci/lab')
    tag = f'{os.getpid()} {next(NUMBERS)}'
    port = opened()
    try:
        os.write(port, json.dumps({'do': verb, 'tag': tag, **request}).encode() + b'\n')
        answer = read(port, tag)
    finally:
        os.close(port)
    if 'error' in answer:
        raise AssertionError(f'{verb}: {answer["error"]}')
    return answer['ok']


def read(port, tag):
    """The answer with the tag; what came before it is left of another's talk."""
    text = b''
    while True:
        if not select.select([port], [], [], PATIENCE)[0]:
            raise AssertionError(f'no answer within {PATIENCE} s')
        text += os.read(port, 1 << 16)
        *lines, text = text.split(b'\n')
        for line in lines:
            try:
                answer = json.loads(line)
            except ValueError:
                continue
            if isinstance(answer, dict) and answer.get('tag') == tag:
                return answer


def opened():
    """The port, which only one process at a time can have."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return os.open(PATH, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > until:
                raise
            time.sleep(0.05)


def link(**faults):
    """What happens to packets from this node to itself; nothing said: nothing."""
    ask('link', **{'from': NODE, 'to': NODE}, **faults)


def port(state):
    ask('port', node=NODE, state=state)


def activity():
    """This node's part of the model's report."""
    return ask('report')['guests'][NODE - 1]
