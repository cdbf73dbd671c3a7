"""The scheduling priority of a thread (setpriority(2): on Linux it is a thread's own)."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_NICE: Final = -10


class Priority:
    """What a thread may ask for while it comes before ordinary programs."""

    def __init__(self) -> None:
        self._urgent = False

    def be_urgent(self, wanted: bool) -> None:
        """Come before the programs of every session, where the system allows it, or only as ``before_others`` says.

        A nice value counts among the programs of one session only, where the kernel shares the processors among
        sessions (autogroups: sched(7)).
        """
        if wanted != self._urgent:
            policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK if wanted else os.SCHED_OTHER
            with suppress(OSError):
                os.sched_setscheduler(0, policy, os.sched_param(1 if wanted else 0))
                self._urgent = wanted


@contextmanager
def before_others() -> Iterator[Priority]:
    """Let this thread come before ordinary programs, where the system allows it.

    For those who lose something when they wait: perftest polls and takes every CPU that there is.
    """
    usual, priority = os.getpriority(os.PRIO_PROCESS, 0), Priority()
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, min(usual, _NICE))
    try:
        yield priority
    finally:
        priority.be_urgent(False)
        os.setpriority(os.PRIO_PROCESS, 0, usual)
