"""Whose time this machine lives in: figures of delays and rates are nothing without it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lab.model.qos.headroom import HOST_REACTION, VIRTUAL_REACTION

VIRTUAL: Final = "virtual"
"""The machine is rocelab's VM, whose clock counts its instructions: a busy host changes no figure."""
HOST: Final = "host"
WORD: Final = "rocelab.time="
"""Begins the word on the kernel's command line with which the VM is told."""
_COMMAND_LINE: Final = Path("/proc/cmdline")


def reaction() -> float:
    """Seconds that an emulated port of this machine may take to pause, at worst."""
    return VIRTUAL_REACTION if lives_in() == VIRTUAL else HOST_REACTION


def of_time(kind: str) -> str:
    """What is written behind seconds that a machine of this kind of time counted: nothing for real time."""
    return " of virtual time" if kind == VIRTUAL else ""


def lives_in() -> str:
    """VIRTUAL or HOST."""
    return VIRTUAL if WORD + VIRTUAL in _COMMAND_LINE.read_text(encoding="utf-8", errors="replace").split() else HOST
