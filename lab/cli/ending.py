"""Commands that Ctrl-C ends well: it is no error, and what was done until then is reported."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def ends_on_signals(interrupt: Callable[[], None]) -> Iterator[None]:
    """Meanwhile the signals that ask us to end call ``interrupt``, and nothing else."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: interrupt()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
