"""Warnings about QoS that is valid but unwise, with ports of the same warning in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lab.model.qos import check
from lab.model.qos.headroom import HOST_REACTION
from lab.model.qos.resolve import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.model.qos.port import NodeQos
    from lab.model.topology import Topology

_SHOWN = 3


class QosAdvice(NamedTuple):
    """Ports (``leaf1:swp3``), the field of their profiles (``ecn.3.kmax``), the warning, and the remedy."""

    ports: tuple[str, ...]
    field: str
    message: str
    remedy: str

    def __str__(self) -> str:
        more = f" and {len(self.ports) - _SHOWN} more" if len(self.ports) > _SHOWN else ""
        return f"{' '.join(self.ports[:_SHOWN])}{more}: {self.field}: {self.message}; {self.remedy}"


def advise(topology: Topology, reaction: float = HOST_REACTION) -> tuple[QosAdvice, ...]:
    """Return all warnings about ``topology``; none for a fabric without QoS, and for any preset."""
    return advise_nodes(topology, resolve(topology, reaction))


def advise_nodes(topology: Topology, nodes: Mapping[str, NodeQos]) -> tuple[QosAdvice, ...]:
    """Return all warnings about a fabric whose nodes have the QoS ``nodes``."""
    return fold(_advice(topology, nodes))


def fold(found: Iterable[QosAdvice]) -> tuple[QosAdvice, ...]:
    """Merge equal warnings, and join their ports."""
    ports: dict[tuple[str, str, str], list[str]] = {}
    for places, *what in found:
        ports.setdefault((what[0], what[1], what[2]), []).extend(places)
    return tuple(QosAdvice(tuple(places), *what) for what, places in ports.items())


def node_advice(name: str, node: NodeQos) -> Iterator[QosAdvice]:
    """Yield the warnings about one node, port by port."""
    for interface, fault in check.advice(node):
        yield QosAdvice((f"{name}:{interface}",), ".".join(map(str, fault.fields[0])), fault.message, fault.remedy)


def _advice(topology: Topology, nodes: Mapping[str, NodeQos]) -> Iterator[QosAdvice]:
    for name, node in nodes.items():
        yield from node_advice(name, node)
    for link in topology.links if nodes else ():
        for end in link.ends:
            peer = link.other(end)
            ours, theirs = (nodes[at.node].ports[at.interface].pfc for at in (end, peer))
            if ours.tx_priorities & ~theirs.rx_priorities:
                message = f"{peer} does not obey the pauses that this end sends"
                remedy = "enable PFC at both ends, or expect drops in the lossless class"
                yield QosAdvice((str(end),), "pfc", message, remedy)
