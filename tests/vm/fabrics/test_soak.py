"""What ``./scripts/soak`` counts in the kernel is exact.

It counts the namespaces of the whole machine: those of whoever else is at work on a host come and go meanwhile.
"""

import contextlib
import subprocess

import pytest

from tests.bench.soak import namespaces

pytestmark = pytest.mark.vm
MANY = 20


def test_namespaces_are_counted_one_by_one_and_not_at_all_when_they_have_ended() -> None:
    """Their number is not that of slabs: what a CPU has left over of one is not counted with them."""
    before = namespaces()
    with contextlib.ExitStack() as stack:
        for _ in range(MANY):
            argv = ["unshare", "--net", "sh", "-c", "echo ready; exec cat"]
            held = stack.enter_context(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            assert held.stdout is not None
            assert held.stdout.readline() == b"ready\n"
        assert namespaces() == before + MANY
    assert namespaces() == before
