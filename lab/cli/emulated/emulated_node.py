"""Settings and counters of the node in which a tool runs, with the same values as in other rocelab commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.backends.backend import Fabric
    from lab.model.qos.port import PortQos


@dataclass(frozen=True)
class EmulatedNode:
    """A node of a running fabric with emulated ports."""

    fabric: Fabric
    name: str

    @property
    def ports(self) -> Mapping[str, PortQos]:
        """Settings of the ports by interface."""
        return self.fabric.qos[self.name].ports

    def counters(self) -> Mapping[str, Mapping[str, int]]:
        """Return the counters of the ports by interface and name, as in ``rocelab counters``."""
        from lab.cli.traffic.counters import since_clear  # noqa: PLC0415 - slow to import, and most tools show none

        counted = since_clear(self.fabric)[self.name]
        return {interface: counted[interface] for interface in self.ports}
