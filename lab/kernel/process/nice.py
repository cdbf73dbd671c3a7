"""The scheduling priority of a thread. On Linux, setpriority(2) applies to one thread."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_NICE: Final = -10


class Priority:
    """Raises a thread inside ``before_others`` to real-time priority and back."""

    def __init__(self) -> None:
        self._urgent = False

    def be_urgent(self, wanted: bool) -> None:
        """Switch this thread to SCHED_RR, if the system allows it, or back to the nice value of ``before_others``.

        Where the kernel shares the processors among sessions (autogroups, sched(7)), a nice value counts within its
        session only.
        """
        if wanted != self._urgent:
            policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK if wanted else os.SCHED_OTHER
            with suppress(OSError):
                os.sched_setscheduler(0, policy, os.sched_param(1 if wanted else 0))
                self._urgent = wanted


@contextmanager
def before_others() -> Iterator[Priority]:
    """Give this thread priority over ordinary programs, if the system allows it.

    For threads that lose data when they wait: perftest polls and uses every CPU.
    """
    usual, priority = os.getpriority(os.PRIO_PROCESS, 0), Priority()
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, min(usual, _NICE))
    try:
        yield priority
    finally:
        priority.be_urgent(False)
        os.setpriority(os.PRIO_PROCESS, 0, usual)
