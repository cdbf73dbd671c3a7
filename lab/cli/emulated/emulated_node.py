"""One port of the node that a tool runs in: its settings and its counters, as other rocelab commands have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.cli.traffic.counters import since_clear

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.backends.backend import Fabric
    from lab.model.qos.port import PortQos


@dataclass(frozen=True)
class EmulatedNode:
    """A node of a running fabric whose ports are emulated."""

    fabric: Fabric
    name: str

    @property
    def ports(self) -> Mapping[str, PortQos]:
        """Settings of its ports by interface."""
        return self.fabric.qos[self.name].ports

    def counters(self) -> Mapping[str, Mapping[str, int]]:
        """Counters of its ports by interface and name, as ``rocelab counters`` has them."""
        counted = since_clear(self.fabric)[self.name]
        return {interface: counted[interface] for interface in self.ports}
