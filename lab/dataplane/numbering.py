"""Port ids: a number for every interface of a fabric, assigned node by node.

An id is the major number of the port's root qdisc, as ``tc qdisc`` shows it. The ids of a node are consecutive: its
clock, its interfaces, and on hosts the drains of its NICs.

The record of a port holds the ifindex of its interface, which may be any number. Interfaces that rocelab creates have
``FIRST_INDEX`` + id; interfaces of an adopted lab keep their index.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from lab.dataplane.port_layout import NODE_PORTS
from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.model.topology import Topology

FIRST_INDEX: Final = 1000
"""Above the ifindexes of devices that kernel modules create in new namespaces."""
CLOCK_INTERFACE: Final = "lo"
_FOREIGN_INDEX: Final = 1 << 24
"""Above the ifindexes that the kernel assigns to the devices of an adopted lab."""
_CLOCK_INDEX: Final = 1
"""The ifindex of ``lo`` in every namespace."""
_DRAIN_PREFIX: Final = "rx-"


@dataclass(frozen=True, slots=True)
class NodePorts:
    """The ids of one node, consecutive from ``first``: clock, interfaces, drains."""

    node: str
    number: int
    first: int
    interfaces: tuple[str, ...]
    host: bool
    """Whether the node is a host: each of its NICs may have a drain, which has its own id."""
    first_nic: int = 0
    """The number of a host's first NIC among those of all hosts of the fabric."""
    found: tuple[int, ...] = ()
    """The ifindexes of the interfaces in an adopted lab; empty if rocelab created them."""

    @property
    def clock(self) -> int:
        """The id of the node's clock, which is attached to ``lo`` and times XONs and the renewal of pauses."""
        return self.first

    @property
    def count(self) -> int:
        """The number of ids of the node."""
        return 1 + len(self.interfaces) * (2 if self.host else 1)

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices with a port, in the order of ids: the interfaces, and on hosts their drains."""
        return (*self.interfaces, *map(drain_name, self.interfaces)) if self.host else self.interfaces

    @property
    def nics(self) -> int:
        """The number of NICs with congestion control: the interfaces of a host, none of a switch."""
        return len(self.interfaces) if self.host else 0

    def port(self, interface: str) -> int:
        """Return the id of an interface."""
        return self.first + 1 + self.interfaces.index(interface)

    def drain(self, interface: str) -> int:
        """Return the id of the drain of a host's NIC."""
        return self.port(interface) + len(self.interfaces)

    def nic(self, interface: str) -> int:
        """Return the number of an interface of a host among the NICs of all hosts; 0 for a switch."""
        return self.first_nic + self.interfaces.index(interface) if self.nics else 0

    def index(self, port: int) -> int:
        """Return the ifindex, in the node's namespace, of the interface with the id ``port``."""
        if port == self.clock:
            return _CLOCK_INDEX
        if not self.found:
            return FIRST_INDEX + port
        place = port - self.clock - 1
        return self.found[place] if place < len(self.found) else _FOREIGN_INDEX + port


def drain_name(interface: str) -> str:
    """Return the name of the ifb device to which the packets that ``interface`` receives are redirected."""
    return _DRAIN_PREFIX + interface


def drained_interface(device: str) -> str:
    """Return the interface of a device: the one that it drains, or the device itself."""
    return device.removeprefix(_DRAIN_PREFIX)


@dataclass(frozen=True)
class Numbering:
    """The port ids of a fabric."""

    nodes: Mapping[str, NodePorts]

    @property
    def size(self) -> int:
        """The size of a map with one entry for each id; id 0 is unused."""
        return 1 + sum(node.count for node in self.nodes.values())

    def index(self, node: str, interface: str) -> int:
        """Return the ifindex of an interface in its namespace."""
        return self.nodes[node].index(self.nodes[node].port(interface))

    @property
    def nics(self) -> int:
        """The number of NICs of all hosts."""
        return sum(node.nics for node in self.nodes.values())

    @property
    def free_index(self) -> int:
        """The first ifindex above those of all links and drains that rocelab creates."""
        return FIRST_INDEX + self.size

    @cached_property
    def names(self) -> Mapping[int, tuple[str, str]]:
        """Node and interface of each id that may occur in an event."""
        return {
            ports.port(interface): (node, interface)
            for node, ports in self.nodes.items()
            for interface in ports.interfaces
        }


def number_ports(topology: Topology, found: Mapping[str, Mapping[str, int]] | None = None) -> Numbering:
    """Return the port ids of a topology; the same topology always gets the same ids.

    ``found`` are the ifindexes of an adopted lab's interfaces, by node. UsageError if a node has more lossless ports
    than its clock can serve.
    """
    nodes = {}
    free, nics = 1, 0
    for number, node in enumerate(topology.nodes):
        interfaces = tuple(link.end_at(node.name).interface for link in topology.links_of(node.name))
        indexes = tuple(found[node.name][each] for each in interfaces) if found else ()
        nodes[node.name] = NodePorts(
            node=node.name,
            number=number,
            first=free,
            interfaces=interfaces,
            host=not node.role.is_switch,
            first_nic=nics,
            found=indexes,
        )
        if topology.qos is not None and nodes[node.name].count > NODE_PORTS:
            most = (NODE_PORTS - 1) // (1 if node.role.is_switch else 2)
            raise UsageError(
                f"node {node.name} has {len(interfaces)} lossless ports, and may have {most}",
                "spread its links over more nodes, or leave `qos:` out",
            )
        free += nodes[node.name].count
        nics += nodes[node.name].nics
    return Numbering(nodes)
