"""The time stamp counter of an emulated x86 guest: the host's, or nanoseconds of virtual time."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.kernel.process import tsc
from lab.vm.host.qemu import Time

if TYPE_CHECKING:
    from lab.vm.image.arch import Arch

VIRTUAL_KHZ: Final = 1_000_000
_CPUINFO: Final = Path("/proc/cpuinfo")
_CONSTANT: Final = re.compile(r"^flags\s*:.*\bconstant_tsc\b", re.MULTILINE)
_SPAN: Final = 0.1
"""Seconds of the measurement. The clocks are read to a microsecond, which gives the frequency to about 10 ppm."""


def guest_khz(arch: Arch, lives_in: Time) -> int | None:
    """Return the guest's TSC frequency in kHz; None if it is unknown, or the guest is no x86."""
    if arch.machine != "x86_64":
        return None
    return VIRTUAL_KHZ if lives_in is Time.VIRTUAL else host_khz()


def host_khz() -> int | None:
    """Return the host's TSC frequency in kHz; None if it varies with the CPU's speed, or the host is no x86."""
    if not _CONSTANT.search(_CPUINFO.read_text(encoding="utf-8", errors="replace")):
        return None
    first = tsc.read()
    time.sleep(_SPAN)
    return round(tsc.frequency(first, tsc.read()) / 1000)
