"""Signals that ask us to end, for a while taken otherwise: above all by work that they must not cut in two."""

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
    """Have these signals, by default all that ask us to end, call ``handle`` with their number, and nothing else."""
    before = {number: signal.signal(number, lambda got, _frame: handle(got)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Keep the signals that ask us to end waiting meanwhile; the first of them is raised again at the end.

    A mask would not do: the kernel gives a signal to any thread that takes it, and Python then runs the handler in
    the main thread all the same. In other threads, which never run handlers, there is nothing to hold.
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
    """A descriptor on which signals come meanwhile, each as the octet of its number, and nowhere else."""
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
