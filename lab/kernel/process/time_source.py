"""Whether this machine runs in real time or in virtual time, without which delays and rates mean nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lab.model.qos.headroom import HOST_REACTION, VIRTUAL_REACTION

VIRTUAL: Final = "virtual"
"""The machine is rocelab's VM, whose clock counts its instructions: load on the host changes no result."""
HOST: Final = "host"
WORD: Final = "rocelab.time="
"""Prefix of the kernel command line parameter that sets the kind of time of the VM."""
_COMMAND_LINE: Final = Path("/proc/cmdline")


def reaction() -> float:
    """Return the longest time, in seconds, that an emulated port of this machine takes to react to a pause frame."""
    return VIRTUAL_REACTION if lives_in() == VIRTUAL else HOST_REACTION


def of_time(kind: str) -> str:
    """Return the words after a duration in seconds for this kind of time: nothing for real time."""
    return " of virtual time" if kind == VIRTUAL else ""


def lives_in() -> str:
    """Return VIRTUAL or HOST, the kind of time of this machine."""
    return VIRTUAL if WORD + VIRTUAL in _COMMAND_LINE.read_text(encoding="utf-8", errors="replace").split() else HOST
