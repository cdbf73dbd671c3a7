"""The idle loop of the CPU in virtual time: it executes instructions, so that the clock advances exactly.

QEMU lets a CPU that waits for a timer sleep on the host. A busy host wakes it late, and a shaper then loses tokens. A
CPU that never waits meets every timer at its exact instruction. NOPs cost little to translate: waiting takes at most
an eighth of the time that it would take on the host.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.vm.image.arch import Arch

_NOTHINGS: Final = 64
"""NOPs in a round of the loop. With more, time passes faster, but the host's answers (disk, shared folders) seem to
take longer. Measured: 10 s of waiting took 5.8 s with 10 of them, 2.1 s with 30, 0.7 s with 100."""
_PR_SET_PDEATHSIG: Final = 1


class Idler:
    """A process that uses the CPU's idle time (SCHED_IDLE). It is stopped while no call needs it."""

    def __init__(self, arch: Arch) -> None:
        """Fork the process. The caller must not have other threads yet. It ends with its parent."""
        self._lock = threading.Lock()
        self._calls = 0
        self._pid = os.fork()
        if not self._pid:
            _idle(arch.idle_loop(_NOTHINGS))
        os.waitpid(self._pid, os.WUNTRACED)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Keep the CPU from waiting during the block."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._lock:
            before, self._calls = self._calls, self._calls + change
            if not (before and self._calls):
                os.kill(self._pid, signal.SIGCONT if self._calls else signal.SIGSTOP)


def _idle(code: bytes) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    loop = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    os.kill(os.getpid(), signal.SIGSTOP)
    loop()
