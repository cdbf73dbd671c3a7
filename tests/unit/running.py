"""A fabric that seems to run: its files in a folder of the test's own, its ports arrays instead of kernel memory."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.backends import fabric_state, live_qos, nic_drains
from lab.backends.fabric_state import FabricState, JournalKind
from lab.cli.traffic import counters as counters_command
from lab.cli.traffic import qos as qos_command
from lab.dataplane import port_maps
from lab.dataplane.numbering import NodePorts, Numbering, drain_name, number_ports
from lab.dataplane.port_maps import PortMaps
from lab.faults.kinds import cable
from lab.kernel.netlink.interfaces import InterfaceState
from lab.kernel.netlink.rtnl import NetlinkBatch
from lab.kernel.process.netns import Namespace
from lab.model.topology import Topology
from tests.unit.dataplane.made_maps import configured, empty

DRAIN = drain_name("eth1")


@dataclass
class Kernel:
    """Nodes, by their namespaces, that have a drain behind eth1, and those whose packets are led through it."""

    topology: Topology
    requests: list[str] = field(default_factory=list)
    drains: set[str] = field(default_factory=set)
    led: set[str] = field(default_factory=set)
    _here: str = ""

    def inside(self, namespace: str, work: Callable[[], Any]) -> Any:
        """Do it there."""
        self._here = namespace
        return work()

    def take(self, batch: NetlinkBatch) -> None:
        """Do what netlink is asked for, and note it."""
        for what in (what for _, what in batch._requests):
            self.requests.append(what)
            if what == f"ifb {DRAIN}":
                self.drains.add(self._here)
            elif what == f"{DRAIN} gone":
                self.drains.remove(self._here)
            elif what == "ingress redirection":
                self.led ^= {self._here}
        batch._requests.clear()

    def node(self, namespace: str) -> NodePorts:
        """The ids of the node in a namespace."""
        return number_ports(self.topology).nodes[namespace.removeprefix(f"rl-{self.topology.name}.")]

    def indices(self, namespace: Namespace) -> dict[str, int]:
        """Of its drain alone, where it has one."""
        node = self.node(namespace.name)
        return {DRAIN: node.index(node.drain("eth1"))} if namespace.name in self.drains else {}

    def roots(self, namespace: Namespace) -> dict[str, tuple[str, str]]:
        """Each port's qdisc."""
        node, kind = self.node(namespace.name), port_maps.qdisc_kind(self.topology.name)
        ids = {name: node.port(name) for name in node.interfaces}
        if namespace.name in self.drains:
            ids[DRAIN] = node.drain("eth1")
        return {name: (kind, f"{number:x}:") for name, number in ids.items()}

    def is_redirected(self, _: int) -> bool:
        """Whether packets are led through the drain of the node that is entered."""
        return self._here in self.led


@dataclass
class Running:
    """The fabric's maps, and what netlink would have been asked for."""

    topology: Topology
    state: FabricState
    maps: PortMaps
    numbering: Numbering
    kernel: Kernel

    @property
    def requests(self) -> list[str]:
        """What netlink was asked for."""
        return self.kernel.requests

    def id(self, end: str) -> int:
        """The id of the port ``leaf1:swp1``."""
        node, _, interface = end.partition(":")
        return self.numbering.nodes[node].port(interface)


def run(topology: Topology, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    """Have every command find ``topology`` up, with its state below ``folder``."""
    monkeypatch.setattr(fabric_state, "STATE_ROOT", folder)
    monkeypatch.setattr(fabric_state, "FABRICS", folder / "fabrics")
    kept = FabricState(topology.name)
    with kept.locked():
        kept.record(JournalKind.BACKEND, ["netns"])
        kept.save_topology(topology)
        kept.mark_ready()
    maps = configured(topology) if topology.qos else empty(number_ports(topology))
    kernel = Kernel(topology)
    for module in (live_qos, cable, counters_command, qos_command):
        monkeypatch.setattr(module, "open_maps", lambda _, **_options: maps)
    for module in (live_qos, nic_drains):
        monkeypatch.setattr(module, "root_qdiscs", kernel.roots)
    idle = InterfaceState(DRAIN, True, 1500, 0, 0, 0, 0, 0)
    monkeypatch.setattr(nic_drains, "interfaces", lambda _: {DRAIN: idle})
    monkeypatch.setattr(nic_drains, "indices", kernel.indices)
    monkeypatch.setattr(nic_drains, "is_redirected", kernel.is_redirected)

    def inside(namespace: Namespace, work: Callable[[], Any]) -> Any:
        return kernel.inside(namespace.name, work)

    def commit(batch: NetlinkBatch) -> None:
        kernel.take(batch)

    monkeypatch.setattr(Namespace, "inside", inside)
    monkeypatch.setattr(NetlinkBatch, "commit", commit)
    return Running(topology, kept, maps, number_ports(topology), kernel)
