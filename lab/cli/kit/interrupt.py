"""Commands that end normally on Ctrl-C and report their results so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.kernel.process import signals

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


def ends_on_signals(interrupt: Callable[[], None]) -> AbstractContextManager[None]:
    """Call ``interrupt`` instead of exiting on SIGINT, SIGTERM and similar signals, inside the context."""
    return signals.handled(lambda _: interrupt())
