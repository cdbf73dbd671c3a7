"""Which port is which: an id for every interface of a fabric, dealt out node by node.

An id is the major number of the port's root qdisc, as ``tc qdisc`` shows it. The port's record has the index of its
interface: any will do for the port's programs. Interfaces that rocelab makes have ``FIRST_INDEX`` + id, others what
they were found with. Of each node the first id is its clock's, the last are those of the queues that its NICs are
drained from, where it is a host.
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
"""Clear of the devices that modules put into new namespaces."""
CLOCK_INTERFACE: Final = "lo"
_FOREIGN_INDEX: Final = 1 << 24
"""Clear of what the kernel deals out to devices that others make."""
_CLOCK_INDEX: Final = 1
"""That of ``lo`` in every namespace."""
_DRAIN_PREFIX: Final = "rx-"


@dataclass(frozen=True, slots=True)
class NodePorts:
    """The ids of one node, ``first`` and those that follow it: clock, interfaces, drains."""

    node: str
    number: int
    first: int
    interfaces: tuple[str, ...]
    host: bool
    """Whether its NICs may be drained slowly: each has a queue behind it, with an id of its own."""
    found: tuple[int, ...] = ()
    """The indexes of the interfaces where somebody else has made them; empty where they are ours."""

    @property
    def clock(self) -> int:
        """The id of what wakes the node's pauses up; it sits on ``lo``."""
        return self.first

    @property
    def count(self) -> int:
        """How many ids the node has."""
        return 1 + len(self.interfaces) * (2 if self.host else 1)

    @property
    def devices(self) -> tuple[str, ...]:
        """What has a port, in the order of their ids: the interfaces, and of a host the drains behind them."""
        return (*self.interfaces, *map(drain_name, self.interfaces)) if self.host else self.interfaces

    def port(self, interface: str) -> int:
        """The id of an interface."""
        return self.first + 1 + self.interfaces.index(interface)

    def drain(self, interface: str) -> int:
        """The id of the queue that a host's NIC is drained from."""
        return self.port(interface) + len(self.interfaces)

    def index(self, port: int) -> int:
        """The index in the node's namespace of the interface that a port of the node is on."""
        if port == self.clock:
            return _CLOCK_INDEX
        if not self.found:
            return FIRST_INDEX + port
        place = port - self.clock - 1
        return self.found[place] if place < len(self.found) else _FOREIGN_INDEX + port


def drain_name(interface: str) -> str:
    """The name of the ifb device through which a host takes in what ``interface`` receives."""
    return _DRAIN_PREFIX + interface


def drained_interface(device: str) -> str:
    """The interface that a device is, or is the drain of."""
    return device.removeprefix(_DRAIN_PREFIX)


@dataclass(frozen=True)
class Numbering:
    """Every port of a fabric."""

    nodes: Mapping[str, NodePorts]

    @property
    def size(self) -> int:
        """Entries of a map that has one for each id; 0 is nobody's."""
        return 1 + sum(node.count for node in self.nodes.values())

    def index(self, node: str, interface: str) -> int:
        """The interface's index in its namespace."""
        return self.nodes[node].index(self.nodes[node].port(interface))

    @property
    def free_index(self) -> int:
        """From here on no interface of any node has an index."""
        return FIRST_INDEX + self.size

    @cached_property
    def names(self) -> Mapping[int, tuple[str, str]]:
        """Node and interface of each id that an event can name."""
        return {
            ports.port(interface): (node, interface)
            for node, ports in self.nodes.items()
            for interface in ports.interfaces
        }


def number_ports(topology: Topology, found: Mapping[str, Mapping[str, int]] | None = None) -> Numbering:
    """Deal out ids: the same topology gives the same ones.

    ``found`` are the indexes that interfaces have, by node, where somebody else has made them. UsageError for a node
    with more lossless ports than its clock looks at.
    """
    nodes = {}
    free = 1
    for number, node in enumerate(topology.nodes):
        interfaces = tuple(link.end_at(node.name).interface for link in topology.links_of(node.name))
        indexes = tuple(found[node.name][each] for each in interfaces) if found else ()
        nodes[node.name] = NodePorts(node.name, number, free, interfaces, not node.role.is_switch, indexes)
        if topology.qos is not None and nodes[node.name].count > NODE_PORTS:
            most = (NODE_PORTS - 1) // (1 if node.role.is_switch else 2)
            raise UsageError(
                f"node {node.name} has {len(interfaces)} lossless ports, and may have {most}",
                "spread its links over more nodes, or leave `qos:` out",
            )
        free += nodes[node.name].count
    return Numbering(nodes)
