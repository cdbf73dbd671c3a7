"""Open a running fabric for a command; if another command is changing it, print its name and wait."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lab.backends import lifecycle
from lab.backends.fabric_state import find_fabric
from lab.cli.kit import recorded_command
from lab.cli.kit.output import stderr
from lab.errors import EnvironmentLacks
from lab.faults.ledger import Ledger

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lab.backends.backend import Fabric
    from lab.backends.fabric_state import FabricState


def tell(holder: str) -> None:
    """Print which command is being waited for."""
    _say(f"waiting for {holder}")


def require_root(state: FabricState) -> None:
    """Raise EnvironmentLacks for a user who may not change the fabric's files: its namespaces refuse them as well."""
    if state.directory.is_dir() and not os.access(state.directory, os.W_OK):
        raise EnvironmentLacks(f"fabric {state.name} belongs to root", "use sudo")


def open_fabric(name: str | None, *, as_root: bool = True) -> Fabric:
    """Return the fabric as ``lifecycle.open_fabric`` does, and print what it waits for.

    EnvironmentLacks without root, unless only the files that describe the fabric are read (``as_root``).
    """
    if as_root:
        require_root(find_fabric(name))
    _mend(name)
    return lifecycle.open_fabric(name, tell)


def reading(name: str | None) -> AbstractContextManager[Fabric]:
    """Yield the fabric as ``lifecycle.reading`` does, and print what it waits for; EnvironmentLacks without root."""
    require_root(find_fabric(name))
    _mend(name)
    return lifecycle.reading(name, tell)


def _mend(name: str | None) -> None:
    """Clean up after killed commands: unfinished changes, and state held by a process that is gone."""
    state = find_fabric(name)
    recorded_command.about(state)
    _mend_ports(state)
    _mend_faults(state)
    _mend_scenario(state)


def _mend_ports(state: FabricState) -> None:
    if os.access(state.changing, os.W_OK):
        from lab.backends import live_qos  # noqa: PLC0415 - NumPy, and rarely needed

        if live_qos.mend(lifecycle.open_fabric(state.name, tell), tell):
            _say(f"put the ports of {state.name} in order: the command that changed them was killed")


def _mend_faults(state: FabricState) -> None:
    if os.access(state.faults, os.R_OK) and Ledger.of(state).entries():
        from lab.faults.fault_engine import heal_abandoned  # noqa: PLC0415 - all kinds of faults, and most fabrics have none

        for entry in heal_abandoned(lifecycle.open_fabric(state.name, tell), tell):
            _say(f"healed {entry}, whose command was killed")


def _mend_scenario(state: FabricState) -> None:
    if os.access(state.settings, os.R_OK):
        from lab.scenario import port_restore  # noqa: PLC0415 - scenarios, and rarely needed

        if port_restore.mend(lifecycle.open_fabric(state.name, tell), tell):
            _say(f"put back the ports of {state.name}, whose scenario was killed")
    if os.access(state.players, os.R_OK) and any(state.players.iterdir()):
        from lab.scenario import orphans  # noqa: PLC0415 - the same

        if orphans.mend(state):
            _say(f"ended what a scenario had running in {state.name}, which was killed")
    if os.access(state.challenge, os.X_OK):
        from lab.scenario.challenges.challenge_record import mend  # noqa: PLC0415 - the same

        if mend(state):
            _say(f"the challenge of {state.name} is over: whoever attended it was killed")


def _say(line: str) -> None:
    stderr.print(line, markup=False, highlight=False, soft_wrap=True)
