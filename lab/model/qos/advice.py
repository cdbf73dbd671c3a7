"""Warnings about QoS that is valid but unwise, with ports of the same warning in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lab.model.qos import check
from lab.model.qos.congestion.cc_registers import CcAlgorithm
from lab.model.qos.headroom import HOST_REACTION, roce_frame
from lab.model.qos.port import Trust, members
from lab.model.qos.presets import FLOOR_PACKETS, ROCE_DSCP
from lab.model.qos.resolve import resolve
from lab.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.model.qos.port import NodeQos, PortQos
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


def _congestion_control(topology: Topology, nodes: Mapping[str, NodeQos]) -> Iterator[QosAdvice]:
    """Yield switch ports that defeat congestion control: by no marks, marks of every packet, or paused CNPs."""
    settings = [port.cc for node in nodes.values() for port in node.ports.values()]
    nics = [cc for cc in settings if cc is not None and cc.algorithm is CcAlgorithm.DCQCN]
    dscps = {cc.registers.cnp_dscp for cc in nics if cc.np}
    for name, node in nodes.items() if nics else ():
        for interface, port in node.ports.items() if topology.node(name).role.is_switch else ():
            yield from _paused_cnps(f"{name}:{interface}", port, dscps)
            queue = port.priority_to_queue[port.priority_of(ROCE_DSCP)]
            ecn, frame = port.queues[queue].ecn, roce_frame(port.mtu)
            if not ecn.enabled:
                message = f"queue {queue} of RoCE does not mark, and hosts have congestion control"
                yield QosAdvice((f"{name}:{interface}",), f"ecn.{queue}", message, "without marks it does nothing")
            elif ecn.kmin < FLOOR_PACKETS * frame:
                message = f"kmin {format_size(ecn.kmin)} is less than {FLOOR_PACKETS} packets of {format_size(frame)}"
                remedy = "an MTU of 1500 has the RDMA payload of 1024 bytes that published thresholds are for"
                yield QosAdvice((f"{name}:{interface}",), f"ecn.{queue}.kmin", message, remedy)


def _paused_cnps(place: str, port: PortQos, dscps: Iterable[int]) -> Iterator[QosAdvice]:
    """Yield the classes of CNPs that are lossless at a switch port. Hosts refuse such a class."""
    for dscp in sorted(dscps) if port.trust is Trust.DSCP else ():
        priority = port.dscp_to_priority[dscp]
        if priority in members(port.pfc.priorities):
            message = f"CNPs have priority {priority}, which is lossless: a pause holds them back"
            remedy = f"map DSCP {dscp} to a lossy priority with a queue of its own, like priority 6"
            yield QosAdvice((place,), f"map.dscp.{dscp}", message, remedy)


def _unknown_queue_pairs(topology: Topology, nodes: Mapping[str, NodeQos]) -> Iterator[QosAdvice]:
    """Yield the NICs of hosts without RDMA devices where congestion control is the only defence of a queue."""
    for host in topology.hosts:
        ports = nodes[host.name].ports if nodes and not host.rdma else {}
        for interface, port in ports.items():
            lossless = port.priority_of(ROCE_DSCP) in members(port.pfc.rx_priorities)
            if port.cc is not None and port.cc.rp and not lossless:
                message = "congestion control limits QPs of RDMA devices only, and the host has none; RoCE has no PFC"
                yield QosAdvice(
                    (f"{host.name}:{interface}",), "nic.cc", message, "add them (--rdma), or expect drops"
                )


def _advice(topology: Topology, nodes: Mapping[str, NodeQos]) -> Iterator[QosAdvice]:
    for name, node in nodes.items():
        yield from node_advice(name, node)
    yield from _congestion_control(topology, nodes)
    yield from _unknown_queue_pairs(topology, nodes)
    for link in topology.links if nodes else ():
        for end in link.ends:
            peer = link.other(end)
            ours, theirs = (nodes[at.node].ports[at.interface].pfc for at in (end, peer))
            if ours.tx_priorities & ~theirs.rx_priorities:
                message = f"{peer} does not obey the pauses that this end sends"
                remedy = "enable PFC at both ends, or expect drops in the lossless class"
                yield QosAdvice((str(end),), "pfc", message, remedy)
