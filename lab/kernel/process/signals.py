"""Temporary handlers for terminating signals, above all around work that must not be interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def handled(handle: Callable[[int], object], numbers: Iterable[int] = _ENDING) -> Iterator[None]:
    """Handle these signals, by default all that terminate rocelab, only by ``handle``, called with their number."""
    before = {number: signal.signal(number, lambda got, _frame: handle(got)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
