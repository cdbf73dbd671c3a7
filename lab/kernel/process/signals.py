"""Temporary handlers for terminating signals, above all around work that must not be interrupted."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SOON: Final = 0.001
"""Seconds."""
_CONTEXTLIB: Final = contextlib.contextmanager.__code__.co_filename
_METHODS: Final = frozenset({"__enter__", "__exit__"})
_HOOKS: Final = frozenset({"on_unraisable", "_send_soon"})
"""Functions of this module whose errors Python would lose again."""

_deferred: Final[list[int]] = []
"""Signals that arrived where contexts are entered or left, and are sent again soon.

A child process has no timer, and none of these.
"""
_waits: Final[Counter[tuple[FrameType, int]]] = Counter()
"""Alarms in a row at one instruction of an ``__enter__`` or ``__exit__``: its call waits for something."""
_latest: Final[list[int]] = []
"""The last signal that raised an error."""
_MOST_WAITS: Final = 1000
"""A second."""
_exiting: Final = threading.Event()
"""Set when Python begins to exit."""
os.register_at_fork(after_in_child=_deferred.clear)


@contextlib.contextmanager
def handled(handle: Callable[[int], object], numbers: Iterable[int] = _ENDING) -> Iterator[None]:
    """Handle these signals, by default all that terminate rocelab, only by ``handle``, called with their number.

    All handlers are restored at the end, even if another signal raises an error meanwhile.
    """
    with contextlib.ExitStack() as undo:
        for number in numbers:
            for _ in range(2):  # the other signal can interrupt one of the two calls
                undo.callback(signal.signal, number, signal.getsignal(number))
            signal.signal(number, lambda got, _frame: handle(got))
        yield


def outside_contexts(handle: Callable[[int], NoReturn]) -> Callable[[int, FrameType | None], None]:
    """Return a signal handler that calls ``handle`` with the signal's number; ``handle`` raises an error.

    It never does so in the code of ``contextlib``, or of an ``__enter__`` or ``__exit__``. A context manager that an
    error leaves half entered or half left stays so as long as the error's traceback, with its locks taken. The signal
    is handled a little later then, or when a call in such a method has waited for a second. Uses SIGALRM and the
    process's real-time timer.
    """

    def on_signal(number: int, frame: FrameType | None) -> None:
        if not _is_in_context(frame):
            _latest[:] = [number]
            handle(number)
        _deferred.append(number)
        _send_soon()

    return on_signal


def send_lost_again(kind: type[BaseException]) -> None:
    """Have a signal sent again if its error, of this kind, was raised where Python cannot pass it on.

    That is in destructors, in callbacks of weak references and of C code, and thus in any import: Python prints
    "Exception ignored", and goes on.
    """
    others = sys.unraisablehook

    def on_unraisable(lost: sys.UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, kind):
            others(lost)
        elif _latest:
            _deferred.append(_latest[0])
            _send_soon()

    sys.unraisablehook = on_unraisable


def _is_in_context(frame: FrameType | None) -> bool:
    if frame is None:
        return False
    file, name = frame.f_code.co_filename, frame.f_code.co_name
    return file == _CONTEXTLIB or name in _METHODS or (name in _HOOKS and file == __file__)


@atexit.register
def _stop_sending() -> None:
    """Send no signal again while Python exits: it has given SIGALRM back by then, which would kill the process."""
    _exiting.set()
    if _deferred:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _send_soon() -> None:
    if _exiting.is_set():
        return
    signal.signal(signal.SIGALRM, _on_alarm)
    signal.setitimer(signal.ITIMER_REAL, _SOON)


def _on_alarm(_alarm: int, frame: FrameType | None) -> None:
    if frame is not None and _is_in_context(frame) and not _is_waiting(frame):
        _send_soon()
    else:
        _waits.clear()
        _send_deferred()


def _is_waiting(frame: FrameType) -> bool:
    """Return whether the same call has been interrupted for a second, and is repeated each time (PEP 475).

    Time alone does not show it: on a busy machine, a second can pass anywhere.
    """
    here = (frame, frame.f_lasti)
    count = _waits[here] + 1
    _waits.clear()
    _waits[here] = count
    return count > _MOST_WAITS


def _send_deferred() -> None:
    """Send the first deferred signal again, if any, to its present handler."""
    if _deferred:
        signal.setitimer(signal.ITIMER_REAL, 0)
        number = _deferred[0]
        _deferred.clear()
        signal.raise_signal(number)


def ignore_from_now() -> None:
    """Ignore terminating signals until the process exits: its command is complete, and its exit code is fixed."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def name_of(number: int) -> str:
    """Return the name of a signal, such as SIGKILL; most real-time signals have only a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Defer terminating signals until the block ends; the first of them is raised again then.

    A signal mask would not do. The kernel delivers a signal to any thread that accepts it, and Python then runs the
    handler in the main thread anyway. Other threads never run handlers, and need nothing here.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    try:
        with handled(waiting.append):
            yield
    finally:
        if waiting:
            signal.raise_signal(waiting[0])


@contextlib.contextmanager
def received(which: Iterable[signal.Signals]) -> Iterator[int]:
    """Yield a descriptor that delivers these signals, each as a byte with its number. No other handler runs."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    early: list[int] = []
    try:
        with handled(early.append, which):
            _send_deferred()
            woken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
            try:
                if early:
                    os.write(writer, bytes(early[:1]))
                yield reader
            finally:
                signal.set_wakeup_fd(woken)
    finally:
        os.close(reader)
        os.close(writer)
