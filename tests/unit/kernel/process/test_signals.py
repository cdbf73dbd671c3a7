"""Handlers of signals: errors that they raise leave no lock taken, and no handler of theirs behind."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import pytest

from lab.kernel.process import locks, process, signals
from tests.patience import PATIENCE
from tests.unit.kernel.process.free_locks import is_free

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType

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


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    """Hypothesis watches the garbage collector with a callback. Python loses the error of a signal in it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture(autouse=True)
def _own_timer() -> Iterator[None]:
    """Give the timer back to the limit of a test's time."""
    handler, (left, _) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, left)


def interrupt(number: int) -> NoReturn:
    raise KeyboardInterrupt(number)


@contextlib.contextmanager
def interruptible(number: signal.Signals) -> Iterator[Callable[[int, FrameType | None], None]]:
    """Yield the handler that this signal has in the block."""
    handler = signals.outside_contexts(interrupt)
    before = signal.signal(number, handler)
    try:
        yield handler
    finally:
        signal.signal(number, before)


def test_every_signal_has_a_name() -> None:
    assert signals.name_of(signal.SIGKILL) == "SIGKILL"
    assert signals.name_of(signal.SIGRTMIN + 1) == f"signal {signal.SIGRTMIN + 1}"


@pytest.mark.parametrize("taking", [locks.held, locks.locked])
def test_a_signal_at_any_moment_leaves_no_lock_taken(tmp_path: Path, taking: Taking) -> None:
    path = tmp_path / "lock"
    last = time.monotonic() + PATIENCE

    @contextlib.contextmanager
    def user_of_the_lock() -> Iterator[None]:
        with taking(path):
            yield

    argv = [sys.executable, "-c", textwrap.dedent(SENDER), str(TRIES)]
    with (
        interruptible(signal.SIGTERM),
        subprocess.Popen(argv, stdin=subprocess.PIPE, bufsize=0) as sender,
    ):
        assert sender.stdin
        for _ in range(TRIES):
            path.mkdir(exist_ok=True)
            try:
                sender.stdin.write(b" ")
                while time.monotonic() < last:
                    with user_of_the_lock():
                        pass
                sender.kill()
                pytest.fail("a signal was lost")
            except KeyboardInterrupt:
                path.mkdir(exist_ok=True)
                assert is_free(path), "the lock is taken while the error is handled"
            close_all(path)


def close_all(path: Path) -> None:
    """Close what was interrupted while it was opened, as the end of a process does."""
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of /proc/self/fd itself
            if str(link.readlink()).removesuffix(" (deleted)") == str(path):
                os.close(int(link.name))


def frame_of_contextlib() -> FrameType:
    names: dict[str, FrameType] = {}
    exec(compile("import sys; frame = sys._getframe()", contextlib.__file__, "exec"), names)  # noqa: S102 - no input
    return names["frame"]


def test_a_signal_in_contextlib_is_received_by_who_waits_for_it_next() -> None:
    """Neither is it lost, nor does the timer's own signal look like one that was sent."""
    with interruptible(signal.SIGTERM) as handler:
        handler(signal.SIGTERM, frame_of_contextlib())
        with signals.received([signal.SIGTERM]) as reader:
            assert process.readable(reader, PATIENCE)
            assert os.read(reader, 9) == bytes([signal.SIGTERM])
            assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_a_signal_in_contextlib_interrupts_what_follows() -> None:
    with interruptible(signal.SIGTERM) as handler:
        handler(signal.SIGTERM, frame_of_contextlib())
        with pytest.raises(KeyboardInterrupt):
            signal.sigtimedwait([], PATIENCE)  # an alarm interrupts it


@pytest.mark.parametrize("at", range(80))
def test_a_signal_at_any_moment_leaves_no_handler_behind(at: int) -> None:
    """Python looks for signals at the beginning of each function, and after each call of one in C."""
    moments = iter(range(1000))
    ours = [signal.SIGUSR2, signal.SIGHUP]
    before = [signal.getsignal(number) for number in ours]

    def profile(frame: FrameType, event: str, _: object) -> None:
        outside = frame.f_code.co_filename != contextlib.__file__
        if outside and event in {"call", "c_return"} and next(moments) == at:
            signal.raise_signal(signal.SIGUSR1)

    with interruptible(signal.SIGUSR1), contextlib.suppress(KeyboardInterrupt):
        context = signals.handled(lambda _: None, ours)
        sys.setprofile(profile)
        try:
            with context:
                pass
        finally:
            sys.setprofile(None)
    after = [signal.getsignal(number) for number in ours]
    for number, handler in zip(ours, before, strict=True):
        signal.signal(number, handler)
    assert after == before


class Starting:
    """Starts something when it is entered, and ends it when it is left."""

    def __init__(self, started: list[str]) -> None:
        self.started = started

    def __enter__(self) -> None:
        self.started.append("something")

    def __exit__(self, *_: object) -> None:
        self.started.clear()


@pytest.mark.parametrize("at", range(8))
def test_a_signal_at_any_moment_leaves_nothing_that_a_class_started(at: int) -> None:
    """The same moments, in the methods of a context manager that is no generator."""
    moments, started = iter(range(1000)), list[str]()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event in {"call", "c_return"} and next(moments) == at:
            handler(signal.SIGUSR1, frame)

    with interruptible(signal.SIGUSR1) as handler:
        try:
            context = Starting(started)
            sys.setprofile(profile)
            with context:
                pass
            sys.setprofile(None)
            signal.sigtimedwait([], 0.01)  # one that was deferred arrives
        except KeyboardInterrupt:
            sys.setprofile(None)
    assert not started


class Locking:
    """A context manager whose ``__enter__`` waits for a lock."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> None:
        signal.raise_signal(signal.SIGUSR1)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        raise AssertionError


def test_a_signal_while_a_context_is_entered_does_not_wait_for_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is interrupted, and repeated, again and again: that is a wait, and no moment in between."""
    monkeypatch.setattr(signals, "_MOST_WAITS", 20)
    with (tmp_path / "lock").open("w") as holder, (tmp_path / "lock").open() as other:
        fcntl.flock(holder, fcntl.LOCK_EX)
        freed = threading.Timer(PATIENCE, fcntl.flock, (holder, fcntl.LOCK_UN))
        freed.start()
        with interruptible(signal.SIGUSR1), pytest.raises(KeyboardInterrupt), Locking(other.fileno()):
            pass
        assert freed.is_alive()
        freed.cancel()


class Destroyed:
    """An object whose destructor a signal interrupts."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_a_signal_while_a_lost_one_is_noticed_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each moment of the hook for lost errors: Python would lose this error, too."""
    others: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", others.append)
    for at in range(4):
        moments = iter(range(1000))

        def profile(frame: FrameType, event: str, _: object, at: int = at, moments: Iterator[int] = moments) -> None:
            if event == "call" and frame.f_code.co_filename == signals.__file__ and next(moments) == at:
                sys.setprofile(None)
                handler(signal.SIGTERM, frame)

        with interruptible(signal.SIGTERM) as handler:
            signals.send_lost_again(KeyboardInterrupt)
            lost = Destroyed()
            with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it arrives at some moment
                sys.setprofile(profile)
                del lost
                sys.setprofile(None)
                for _ in range(100):
                    signal.sigtimedwait([], 0.01)
    assert not others


def test_a_signal_whose_error_a_destructor_loses_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other errors of destructors are printed as ever."""
    others: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: others.append(lost.exc_value))
    signals.send_lost_again(KeyboardInterrupt)

    def outlive_it() -> None:
        last = time.monotonic() + PATIENCE
        Destroyed()
        while time.monotonic() < last:
            pass

    with interruptible(signal.SIGTERM), pytest.raises(KeyboardInterrupt):
        outlive_it()
    assert others == []
    monkeypatch.setattr(Destroyed, "__del__", lambda _: [].pop())
    Destroyed()
    assert [type(each) for each in others] == [IndexError]


EXITING = """
import atexit, signal, sys, time

def lose():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:
        sys.unraisablehook(type("Lost", (), {"exc_value": error}))

def interrupt(number):
    raise KeyboardInterrupt(number)

class Slow:
    now = time.monotonic
    def __del__(self):
        last = Slow.now() + 0.1
        while Slow.now() < last:
            pass

if sys.argv[1] == "late":
    atexit.register(lose)
from lab.kernel.process import signals
if sys.argv[1] == "early":
    atexit.register(lose)
signal.signal(signal.SIGINT, signals.outside_contexts(interrupt))
signals.send_lost_again(KeyboardInterrupt)
signals.slow = Slow()
"""


@pytest.mark.parametrize("when", ["early", "late"])
def test_a_signal_whose_error_is_lost_while_python_exits_does_not_kill(when: str) -> None:
    """Python gives SIGALRM back when it exits: the signal's timer would kill the process then."""
    argv = [sys.executable, "-c", EXITING, when]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
