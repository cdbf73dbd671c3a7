"""Commands that Ctrl-C ends well: it is no error, and what was done until then is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.kernel.process import signals

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


def ends_on_signals(interrupt: Callable[[], None]) -> AbstractContextManager[None]:
    """Meanwhile the signals that ask us to end call ``interrupt``, and nothing else."""
    return signals.handled(lambda _: interrupt())
