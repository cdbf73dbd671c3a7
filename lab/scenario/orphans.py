"""Clean-up of programs of a killed scenario, which would otherwise keep running.

``players/PID-STARTED`` in the fabric's folder exists while a process runs a scenario. All programs that it starts
have a mark in their environment. Programs that must outlive it, such as FRR's daemons, are started without the mark
(``lab.routing.daemons``).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.faults.ledger import Holder
from lab.kernel.process import process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.fabric_state import FabricState

MARK: Final = "ROCELAB_PLAYER"


@contextlib.contextmanager
def marked(state: FabricState) -> Iterator[None]:
    """Mark every program that this process starts within the block."""
    holder = Holder.current()
    name = f"{holder.pid}-{holder.started}"
    state.players.mkdir(mode=0o700, exist_ok=True)
    (state.players / name).touch()
    os.environ[MARK] = f"{state.owner}-{name}"
    try:
        yield
    finally:
        del os.environ[MARK]
        (state.players / name).unlink(missing_ok=True)


def mend(state: FabricState) -> bool:
    """End the programs of killed scenario processes, and return whether there were any. Heal their faults before."""
    left = [entry for entry in state.players.glob("*") if not _holder(entry.name).lives]
    for entry in left:
        end(f"{MARK}={state.owner}-{entry.name}")
        entry.unlink(missing_ok=True)
    return bool(left)


def end(mark: str) -> None:
    """End every program with ``NAME=VALUE`` in its environment, and return when none is left."""

    def meant(pid: int) -> bool:
        with contextlib.suppress(OSError):
            return mark.encode() in Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
        return False

    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    process.kill(filter(meant, found), meant=meant)


def _holder(name: str) -> Holder:
    pid, _, started = name.partition("-")
    return Holder(int(pid), int(started))
