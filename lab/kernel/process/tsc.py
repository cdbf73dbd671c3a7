"""The CPU's cycle counter, by which programs such as perftest time, held against the kernel's clock.

It is the TSC of x86 (Intel SDM vol. 3, 17.17) and the virtual count of ARM (ARM DDI 0487, CNTVCT_EL0). The kernel
knows its frequency and tells user space only where its own clock is the bare counter, in the page of a perf event
(cap_user_time of perf_event_open(2)): not in a guest of KVM, whose clock is the host's. So it is measured: over the
time that is to be converted.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import time
from dataclasses import dataclass
from functools import cache
from typing import Final

from lab.errors import EnvironmentLacks
from lab.kernel.process import libc

_READ: Final = {
    "x86_64": bytes.fromhex("0f31 48c1e220 4809d0 c3"),  # rdtsc; shl rdx, 32; or rax, rdx; ret
    "aarch64": bytes.fromhex("40e03bd5 c0035fd6"),  # mrs x0, cntvct_el0; ret
}
"""The one instruction that Python has no name for, as a function without arguments."""
_TRIES: Final = 16


@dataclass(frozen=True, slots=True)
class TscReading:
    """The counter and CLOCK_MONOTONIC, in seconds, at one moment."""

    cycles: int
    seconds: float


def read() -> TscReading:
    """Read both clocks; the closest of some readings, because a busy machine may pause between one and the other.

    EnvironmentLacks on a processor whose counter is not known here, or where new code must not run.
    """
    counter = _counter()
    found = []
    for _ in range(_TRIES):
        before = time.monotonic_ns()
        cycles = counter()
        after = time.monotonic_ns()
        found.append((after - before, TscReading(cycles, (before + after) / 2 * 1e-9)))
    return min(found, key=lambda reading: reading[0])[1]


def frequency(first: TscReading, last: TscReading) -> float:
    """Cycles per second between two readings; not positive when the counter ran backwards."""
    return (last.cycles - first.cycles) / (last.seconds - first.seconds)


class _Counter:
    """The instruction that reads the counter, as something to call."""

    def __init__(self, code: bytes) -> None:
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.write(code)
        self._page = (ctypes.c_char * len(page)).from_buffer(page)  # holds the page for as long as it may be called
        libc.make_executable(ctypes.addressof(self._page), len(page))
        # PYFUNCTYPE: no other thread of this process gets between the two clocks.
        self._read = ctypes.PYFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(self._page))

    def __call__(self) -> int:
        return int(self._read())


@cache
def _counter() -> _Counter:
    code = _READ.get(platform.machine())
    if code is None:
        raise EnvironmentLacks(f"no cycle counter known of processor {platform.machine()}", "use x86_64 or aarch64")
    try:
        return _Counter(code)
    except OSError as error:
        raise EnvironmentLacks(f"the cycle counter cannot be read: {error}", "allow programs to map code") from error
