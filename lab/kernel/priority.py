"""The scheduling priority of a thread (setpriority(2): on Linux it is a thread's own)."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_NICE: Final = -10


@contextmanager
def before_others() -> Iterator[None]:
    """Let this thread come before ordinary programs, where the system allows it.

    For those who lose something when they wait: perftest polls and takes every CPU that there is.
    """
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, min(usual, _NICE))
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, usual)
