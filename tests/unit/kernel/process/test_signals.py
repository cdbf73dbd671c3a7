"""Handlers of signals: errors that they raise leave no lock taken, and no handler of theirs behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import pytest

from lab.kernel.process import locks, signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

Taking: TypeAlias = "Callable[[Path], AbstractContextManager[None]]"
TRIES = 3000
SENDER = """
    import os, signal, sys, time
    parent = os.getppid()
    for at in range(int(sys.argv[1])):
        if not sys.stdin.buffer.raw.read(1):
            break
        until = time.perf_counter_ns() + at % 1000 * 200
        while time.perf_counter_ns() < until:
            pass
        os.kill(parent, signal.SIGTERM)
"""
"""For each byte that it reads, it sends its parent a signal, 0 to 200 us later."""


def test_every_signal_has_a_name() -> None:
    assert signals.name_of(signal.SIGKILL) == "SIGKILL"
    assert signals.name_of(signal.SIGRTMIN + 1) == f"signal {signal.SIGRTMIN + 1}"


@pytest.mark.parametrize("taking", [locks.held, locks.locked])
def test_a_signal_at_any_moment_leaves_no_lock_taken(tmp_path: Path, taking: Taking) -> None:
    path = tmp_path / "lock"

    def interrupt(number: int) -> NoReturn:
        raise KeyboardInterrupt(number)

    @contextlib.contextmanager
    def user_of_the_lock() -> Iterator[None]:
        with taking(path):
            yield

    handler = signal.signal(signal.SIGTERM, signals.outside_contexts(interrupt))
    argv = [sys.executable, "-c", textwrap.dedent(SENDER), str(TRIES)]
    try:
        with subprocess.Popen(argv, stdin=subprocess.PIPE, bufsize=0) as sender:
            assert sender.stdin
            for _ in range(TRIES):
                path.mkdir(exist_ok=True)
                try:
                    sender.stdin.write(b" ")
                    while True:
                        with user_of_the_lock():
                            pass
                except KeyboardInterrupt:
                    assert is_free(path), "the lock is taken while the error is handled"
    finally:
        signal.signal(signal.SIGTERM, handler)


def is_free(path: Path) -> bool:
    """By flock(2) itself."""
    path.mkdir(exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
