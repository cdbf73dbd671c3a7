"""Facts about the recording machine that affect results."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any, Final

from lab import __version__
from lab.kernel.process.time_source import lives_in
from lab.vm.calls.call import inside_vm

_CPUS: Final = Path("/proc/cpuinfo")
_VENDOR: Final = Path("/sys/class/dmi/id/sys_vendor")


def host_facts() -> dict[str, Any]:
    """Return kernel, CPU, machine vendor (DMI), kind of time (host or virtual), and versions."""
    return {
        "rocelab": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "vendor": _text(_VENDOR),
        "time": lives_in(),
        "in_vm": inside_vm(),
    }


def _cpu() -> str:
    for line in _text(_CPUS).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
