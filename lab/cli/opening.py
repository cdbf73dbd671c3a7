"""How commands come by a running fabric: they wait for one that is being changed, and say for whom."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lab.backends import lifecycle
from lab.backends.state import find_fabric
from lab.cli.output import stderr
from lab.faults.ledger import Ledger

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lab.backends.base import Fabric


def tell(holder: str) -> None:
    """Say who is waited for."""
    stderr.print(f"waiting for {holder}", markup=False, highlight=False, soft_wrap=True)


def open_fabric(name: str | None) -> Fabric:
    """``lifecycle.open_fabric`` for somebody who watches."""
    _mend(name)
    return lifecycle.open_fabric(name, tell)


def reading(name: str | None) -> AbstractContextManager[Fabric]:
    """``lifecycle.reading`` for somebody who watches."""
    _mend(name)
    return lifecycle.reading(name, tell)


def _mend(name: str | None) -> None:
    """Heal what was broken for as long as a command ran that was killed."""
    state = find_fabric(name)
    if not os.access(state.faults, os.R_OK) or not Ledger.of(state).entries():
        return
    from lab.faults.engine import heal_abandoned  # noqa: PLC0415 - all kinds of faults, and most fabrics have none

    for entry in heal_abandoned(lifecycle.open_fabric(name, tell), tell):
        stderr.print(f"healed {entry}, whose command was killed", markup=False, highlight=False, soft_wrap=True)
