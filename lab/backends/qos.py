"""The QoS of a running fabric, changed at any of its ports while traffic runs: all of a request, or nothing.

What is asked for is worked out and checked first, for all nodes. Then the kernel gets it; when that fails, the old
records are written back. At last it is kept beside the topology, for later commands to know.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lab.dataplane import live, slots
from lab.dataplane.numbering import drain_name
from lab.dataplane.port_maps import open_maps, qdisc_kind
from lab.errors import OperationFailed, UsageError
from lab.kernel import signals
from lab.kernel.interfaces import interfaces, root_qdiscs
from lab.model.qos.advice import advise_nodes, fold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lab.backends.base import Fabric
    from lab.dataplane.numbering import NodePorts
    from lab.dataplane.port_maps import PortMaps
    from lab.kernel.locks import Waiting
    from lab.kernel.netns import Namespace
    from lab.model.qos.advice import Advice
    from lab.model.qos.port import NodeQos
    from lab.model.qos.request import Request
    from lab.model.topology import Endpoint

_EMPTYING: Final = 5.0
"""Seconds in which a drain without a rate passes on what it holds; it takes milliseconds."""
_POLL: Final = 0.005


@dataclass(frozen=True, slots=True)
class Outcome:
    """Names of the nodes that are now different, and what is unwise there and was not before."""

    nodes: tuple[str, ...]
    advice: tuple[Advice, ...]


def require_ports(fabric: Fabric) -> None:
    """UsageError for a fabric whose links are only shaped."""
    if fabric.topology.qos is None:
        remedy = "write `qos: lab` into its topology, then rocelab down and up"
        raise UsageError(f"fabric {fabric.name} has no lossless ports", remedy)


def deviations(fabric: Fabric, ends: Collection[Endpoint]) -> dict[Endpoint, list[str]]:
    """For each port, in words, what the kernel has otherwise than it was asked to; mostly nothing."""
    maps, kind = open_maps(fabric.name), qdisc_kind(fabric.name)
    found: dict[Endpoint, list[str]] = {}
    for name in dict.fromkeys(end.node for end in ends):
        node = fabric.numbering.nodes[name]
        fields = live.differences(maps, node, fabric.qos[name], fabric.plan[name])
        roots = root_qdiscs(fabric.namespace(name))
        for end in (end for end in ends if end.node == name):
            root = roots.get(end.interface, ("gone", ""))
            attached = root == (kind, f"{node.port(end.interface):x}:")
            found[end] = fields[end.interface] if attached else [f"root qdisc {root[0]}", *fields[end.interface]]
    return {end: found[end] for end in ends}


def change_qos(
    fabric: Fabric, ports: Collection[Endpoint], request: Request, waiting: Waiting | None = None
) -> Outcome:
    """Make ``request`` at ``ports``, and keep it.

    UsageError or InvalidInput when it cannot be, OperationFailed when the kernel refuses it; nothing changes then.
    Another command that has the fabric is waited for as in ``lifecycle.up``; UsageError when it has taken it away.
    """
    from lab.model.qos.request import work_out  # noqa: PLC0415 - its schema, and so pydantic, is for changes only

    require_ports(fabric)
    owner = fabric.state.owner
    with fabric.state.locked(waiting):
        if fabric.state.owner != owner:
            raise UsageError(f"fabric {fabric.name} was taken down", "rocelab ls lists what runs")
        fabric = replace(fabric)  # what an earlier command has changed meanwhile
        changed = work_out(fabric.topology, fabric.qos, ports, request)
        if changed:
            with signals.held():
                apply_nodes(fabric, changed)
    before = {*advise_nodes(fabric.topology, fabric.qos), *slot_advice(fabric, fabric.qos)}
    wanted = {**fabric.qos, **changed}
    after = (*advise_nodes(fabric.topology, wanted), *slot_advice(fabric, wanted))
    return Outcome(tuple(changed), tuple(advice for advice in after if advice not in before))


def slot_advice(fabric: Fabric, nodes: Mapping[str, NodeQos]) -> tuple[Advice, ...]:
    """Where a running fabric's ports cannot hold as many packets as ``nodes`` ask for; nothing without such ports."""
    if fabric.topology.qos is None:
        return ()
    return fold(slots.advise(open_maps(fabric.name).slots, fabric.numbering, nodes))


def apply_nodes(fabric: Fabric, changed: Mapping[str, NodeQos]) -> None:
    """Have the kernel do what these nodes are to do from now on, and keep it, or change nothing.

    The caller holds the fabric's lock, and has checked what it asks for.
    """
    maps = open_maps(fabric.name, writable=True)
    with contextlib.ExitStack() as undo:
        for name, interface in _drained(changed, fabric.qos):
            _add_drain(fabric, name, interface)  # it has no rate yet
            undo.callback(_remove_drain, fabric, maps, name, interface)
        undo.callback(_write, fabric, maps, {name: fabric.qos[name] for name in changed})
        _write(fabric, maps, changed)
        fabric.state.save_qos({**fabric.state.load_qos(), **changed})
        undo.pop_all()
    for name, interface in _drained(fabric.qos, changed):
        _remove_drain(fabric, maps, name, interface)


def put_back(fabric: Fabric, nodes: Mapping[str, NodeQos]) -> None:
    """Have nodes be as they were before somebody changed them, however far he has come.

    Who was killed has perhaps told the kernel and not yet kept it: all are written. The lock is as above.
    """
    apply_nodes(fabric, {name: node for name, node in nodes.items() if node != fabric.qos[name]})
    _write(fabric, open_maps(fabric.name, writable=True), nodes)


def _write(fabric: Fabric, maps: PortMaps, nodes: Mapping[str, NodeQos]) -> None:
    for name, qos in nodes.items():
        live.rewrite(maps, fabric.numbering.nodes[name], qos, fabric.plan[name])


def _drained(nodes: Mapping[str, NodeQos], others: Mapping[str, NodeQos]) -> Iterator[tuple[str, str]]:
    """Node and interface of the NICs that have a drain in ``nodes`` and none in ``others``, of nodes in both."""
    for name in nodes.keys() & others.keys():
        for interface, port in nodes[name].ports.items():
            if port.drain is not None and others[name].ports[interface].drain is None:
                yield name, interface


def _add_drain(fabric: Fabric, name: str, interface: str) -> None:
    from lab.dataplane.attach import add_drain  # noqa: PLC0415 - pyroute2, which only this needs
    from lab.kernel.rtnl import Batch  # noqa: PLC0415

    batch = Batch()
    add_drain(batch, fabric.numbering.nodes[name], interface, qdisc_kind(fabric.name))
    fabric.namespace(name).inside(batch.commit)


def _remove_drain(fabric: Fabric, maps: PortMaps, name: str, interface: str) -> None:
    """Nothing is lost: packets go past the drain once it is empty, and it goes when the last has left it."""
    from lab.dataplane import attach  # noqa: PLC0415 - see _add_drain
    from lab.kernel.rtnl import Batch  # noqa: PLC0415

    node, namespace = fabric.numbering.nodes[name], fabric.namespace(name)
    batch = Batch()
    _await_empty(maps, namespace, node, interface)
    attach.bypass_drain(batch, node, interface)
    namespace.inside(batch.commit)
    _await_empty(maps, namespace, node, interface)
    attach.remove_drain(batch, node, interface)
    namespace.inside(batch.commit)


def _await_empty(maps: PortMaps, namespace: Namespace, node: NodePorts, interface: str) -> None:
    """Wait until nothing waits in the drain's queue, and its device has handed on what has left the queue."""
    waiting = maps.counters[node.drain(interface)]["queue"]["depth_packets"]
    device = drain_name(interface)
    deadline = time.monotonic() + _EMPTYING
    while waiting.any() or _in_device(namespace, device):
        if time.monotonic() >= deadline:
            raise OperationFailed(
                f"the drain of {node.node}:{interface} keeps packets", "rocelab down, then rocelab up"
            )
        time.sleep(_POLL)


def _in_device(namespace: Namespace, device: str) -> int:
    """Packets that an ifb has taken in and not yet given back; both are counted by the device."""
    state = interfaces(namespace)[device]
    return state.rx_packets - state.tx_packets
