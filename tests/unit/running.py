"""A fabric that seems to run: its files in a folder of the test's own, its ports arrays instead of kernel memory."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.backends import qos, state
from lab.backends.state import FabricState, Kind
from lab.cli import counters as counters_command
from lab.cli import qos as qos_command
from lab.dataplane import port_maps
from lab.dataplane.numbering import Numbering, number_ports
from lab.dataplane.port_maps import PortMaps
from lab.faults.kinds import cable
from lab.kernel.interfaces import InterfaceState
from lab.kernel.netns import Namespace
from lab.kernel.rtnl import Batch
from lab.model.topology import Topology
from tests.unit.dataplane.made_maps import configured, empty


@dataclass
class Running:
    """The fabric's maps, and what netlink would have been asked for."""

    topology: Topology
    state: FabricState
    maps: PortMaps
    numbering: Numbering
    requests: list[str]

    def id(self, end: str) -> int:
        """The id of the port ``leaf1:swp1``."""
        node, _, interface = end.partition(":")
        return self.numbering.nodes[node].port(interface)


def run(topology: Topology, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    """Have every command find ``topology`` up, with its state below ``folder``."""
    monkeypatch.setattr(state, "STATE_ROOT", folder)
    monkeypatch.setattr(state, "FABRICS", folder / "fabrics")
    kept = FabricState(topology.name)
    with kept.locked():
        kept.record(Kind.BACKEND, ["netns"])
        kept.save_topology(topology)
        kept.mark_ready()
    maps = configured(topology) if topology.qos else empty(number_ports(topology))
    requests: list[str] = []
    for module in (qos, cable, counters_command, qos_command):
        monkeypatch.setattr(module, "open_maps", lambda _, **_options: maps)
    monkeypatch.setattr(qos, "root_qdiscs", lambda namespace: _roots(namespace.name, topology))
    idle = InterfaceState("rx-eth1", True, 1500, 0, 0, 0, 0, 0)
    monkeypatch.setattr(qos, "interfaces", lambda _: {"rx-eth1": idle})
    monkeypatch.setattr(Namespace, "inside", lambda _, work: work())
    monkeypatch.setattr(Batch, "commit", lambda batch: _note(batch, requests))
    return Running(topology, kept, maps, number_ports(topology), requests)


def _roots(namespace: str, topology: Topology) -> dict[str, tuple[str, str]]:
    node = number_ports(topology).nodes[namespace.removeprefix(f"rl-{topology.name}.")]
    return {name: (port_maps.qdisc_kind(topology.name), f"{node.port(name):x}:") for name in node.interfaces}


def _note(batch: Batch, requests: list[str]) -> None:
    requests += (what for _, what in batch._requests)
    batch._requests.clear()
