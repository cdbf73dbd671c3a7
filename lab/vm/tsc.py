"""The host's time stamp counter, which QEMU hands to an emulated x86 guest as it is."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final

from lab.kernel import cycles

_CPUINFO: Final = Path("/proc/cpuinfo")
_CONSTANT: Final = re.compile(r"^flags\s*:.*\bconstant_tsc\b", re.MULTILINE)
_SPAN: Final = 0.1
"""Seconds; the clocks are read to a microsecond, so the frequency comes out to some 10 ppm."""


def host_khz() -> int | None:
    """Its frequency in kHz; None where the counter follows the processor's speed, or the host is no x86."""
    if not _CONSTANT.search(_CPUINFO.read_text(encoding="utf-8", errors="replace")):
        return None
    first = cycles.read()
    time.sleep(_SPAN)
    return round(cycles.frequency(first, cycles.read()) / 1000)
