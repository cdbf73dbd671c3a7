"""Temporary handlers for terminating signals, above all around work that must not be interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import FrameType

Handler: TypeAlias = "Callable[[int, FrameType | None], object] | int | None"

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SOON: Final = 0.001
"""Seconds."""
_CONTEXTLIB: Final = contextlib.contextmanager.__code__.co_filename


@contextlib.contextmanager
def handled(handle: Callable[[int], object], numbers: Iterable[int] = _ENDING) -> Iterator[None]:
    """Handle these signals, by default all that terminate rocelab, only by ``handle``, called with their number."""
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in before:
            signal.signal(number, lambda got, _frame: handle(got))
        yield
    finally:
        _restore(before)


def _restore(handlers: Mapping[int, Handler]) -> None:
    """Install handlers, all of them even if one raises an error meanwhile; that error is raised then."""
    with contextlib.ExitStack() as each:
        for number, handler in handlers.items():
            each.callback(signal.signal, number, handler)


def outside_contexts(handle: Callable[[int], NoReturn]) -> Callable[[int, FrameType | None], None]:
    """Return a signal handler that calls ``handle`` with the signal's number; ``handle`` raises an error.

    It never does so in the code of ``contextlib``. A context manager that an error leaves half entered or half left
    stays so as long as the error's traceback, with its locks taken. The signal is handled a little later then.
    Uses SIGALRM and the process's real-time timer.
    """

    def on_signal(number: int, frame: FrameType | None) -> None:
        if frame is None or frame.f_code.co_filename != _CONTEXTLIB:
            handle(number)
        signal.signal(signal.SIGALRM, lambda _alarm, interrupted: _handle_now(number, interrupted))
        signal.setitimer(signal.ITIMER_REAL, _SOON)

    return on_signal


def _handle_now(number: int, frame: FrameType | None) -> None:
    """Call the present handler of a signal as if the signal had interrupted this frame."""
    handler = signal.getsignal(number)
    if callable(handler):
        handler(number, frame)
    else:
        signal.raise_signal(number)


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
    try:
        with handled(lambda _: None, which):
            woken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
            try:
                yield reader
            finally:
                signal.set_wakeup_fd(woken)
    finally:
        os.close(reader)
        os.close(writer)
