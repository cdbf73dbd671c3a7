"""The ports' configuration before a scenario changed it, on disk: it is restored even if the scenario is killed.

``settings.json`` in the fabric's folder, readable by root only, contains the process of the scenario and the original
configuration. It is written before the first change, and removed after everything is restored.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from lab.backends.live_qos import put_back
from lab.errors import UsageError
from lab.faults.ledger import Holder
from lab.kernel.process import files
from lab.model.qos.qos_store import dump_node, restore_node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.backends.backend import Fabric
    from lab.backends.fabric_state import FabricState
    from lab.kernel.process.locks import Waiting
    from lab.model.qos.port import NodeQos

_MODE: Final = 0o600


def keep(fabric: Fabric, nodes: Mapping[str, NodeQos], waiting: Waiting | None = None) -> None:
    """Save the nodes' configuration before this process changes a port for the first time.

    Raises UsageError if the fabric is gone, or while another scenario has changed its ports.
    """
    mend(fabric, waiting)
    with fabric.state.locked(waiting):
        if not fabric.state.ready:
            raise UsageError(f"fabric {fabric.name} was taken down", "rocelab ls lists what runs")
        holder = _holder(fabric.state)
        if holder is None:
            _write(fabric.state, nodes)
        elif holder != Holder.current():
            raise UsageError(
                f"fabric {fabric.name} has its ports set by another scenario (pid {holder.pid})", "wait for it to end"
            )


def restore(fabric: Fabric, waiting: Waiting | None = None) -> None:
    """Restore the ports that this process changed, if any."""
    if _holder(fabric.state) == Holder.current():
        with fabric.state.locked(waiting):
            _put_back(fabric)


def mend(fabric: Fabric, waiting: Waiting | None = None) -> bool:
    """Restore the ports that a killed scenario changed. Return whether there were any.

    Heal the scenario's faults before: they were injected into the changed configuration.
    """
    if not _abandoned(fabric.state):
        return False
    with fabric.state.locked(waiting):
        return _abandoned(fabric.state) and _put_back(fabric)


def _abandoned(state: FabricState) -> bool:
    holder = _holder(state)
    return holder is not None and not holder.lives


def _put_back(fabric: Fabric) -> bool:
    text = fabric.state.settings.read_text(encoding="utf-8")
    put_back(replace(fabric), {name: restore_node(node) for name, node in json.loads(text)["nodes"].items()})
    fabric.state.settings.unlink()
    return True


def _holder(state: FabricState) -> Holder | None:
    try:
        return Holder(**json.loads(state.settings.read_text(encoding="utf-8"))["holder"])
    except FileNotFoundError:
        return None


def _write(state: FabricState, nodes: Mapping[str, NodeQos]) -> None:
    kept = {"holder": asdict(Holder.current()), "nodes": {name: dump_node(node) for name, node in nodes.items()}}
    with files.replaced(state.settings) as fresh:
        fresh.touch(mode=_MODE)
        fresh.write_text(json.dumps(kept), encoding="utf-8")
