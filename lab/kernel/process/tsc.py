"""The CPU's cycle counter, which programs such as perftest use for timing, compared with the kernel's clock.

It is the TSC of x86 (Intel SDM vol. 3, 17.17) and the virtual count of ARM (ARM DDI 0487, CNTVCT_EL0). The kernel
reports its frequency only where its own clock is the bare counter, in the page of a perf event (cap_user_time of
perf_event_open(2)). A KVM guest uses the host's clock and reports none. The frequency is therefore measured, over the
interval that is to be converted.
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
"""Machine code of a function without arguments that returns the counter, for each processor."""
_TRIES: Final = 16


@dataclass(frozen=True, slots=True)
class TscReading:
    """The counter and CLOCK_MONOTONIC, in seconds, at one moment."""

    cycles: int
    seconds: float


def read() -> TscReading:
    """Read both clocks. Returns the tightest of several readings: a busy machine may pause between the clocks.

    Raises EnvironmentLacks on an unknown processor, or where new code must not run.
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
    """Return the cycles per second between two readings; zero or negative if the counter ran backwards."""
    return (last.cycles - first.cycles) / (last.seconds - first.seconds)


class _Counter:
    """A callable that reads the counter by its machine instruction."""

    def __init__(self, code: bytes) -> None:
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.write(code)
        self._page = (ctypes.c_char * len(page)).from_buffer(page)  # keeps the page alive while it is callable
        libc.make_executable(ctypes.addressof(self._page), len(page))
        # PYFUNCTYPE keeps the GIL: no other thread of this process runs between the two clocks.
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
