"""Work that a signal must not cut in two: the signal waits, and is delivered when the work is done."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
    before = {number: signal.signal(number, lambda got, _frame: waiting.append(got)) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])
