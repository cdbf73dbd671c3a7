"""The drains of hosts' NICs in a fabric that runs: put behind them, and taken away when the last packet has left.

A drain is an interface of its own, and what the NIC receives is led through it: who is killed leaves one without the
other.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lab.dataplane.numbering import drain_name
from lab.dataplane.port_maps import qdisc_kind
from lab.errors import OperationFailed
from lab.kernel.netlink.interfaces import indices, interfaces, root_qdiscs
from lab.kernel.netlink.tc_hooks import is_redirected

if TYPE_CHECKING:
    from collections.abc import Collection

    from lab.backends.backend import Fabric
    from lab.dataplane.numbering import NodePorts
    from lab.dataplane.port_maps import PortMaps
    from lab.kernel.process.netns import Namespace
    from lab.model.qos.port import NodeQos

_EMPTYING: Final = 5.0
"""Seconds in which a drain without a rate passes on what it holds; it takes milliseconds."""
_POLL: Final = 0.005


def wanted(node: NodeQos) -> frozenset[str]:
    """The interfaces whose NICs are to be drained at a rate."""
    return frozenset(interface for interface, port in node.ports.items() if port.drain is not None)


def without(node: NodeQos) -> NodeQos:
    """The same node with NICs that take in all that comes."""
    return replace(node, ports={interface: replace(port, drain=None) for interface, port in node.ports.items()})


def standing(fabric: Fabric, name: str) -> frozenset[str]:
    """The interfaces of a node that have a drain, whole or not; a device of another index is somebody else's."""
    node = fabric.numbering.nodes[name]
    if not node.host:
        return frozenset()
    found = indices(fabric.namespace(name))
    return frozenset(each for each in node.interfaces if found.get(drain_name(each)) == node.index(node.drain(each)))


def stale(fabric: Fabric, name: str, qos: NodeQos) -> frozenset[str]:
    """The interfaces of a node that have a drain and are to have none, or have one in pieces."""
    found = standing(fabric, name)
    if not found:
        return found
    node, namespace, kind = fabric.numbering.nodes[name], fabric.namespace(name), qdisc_kind(fabric.name)
    roots = root_qdiscs(namespace)
    whole = {
        each
        for each in found
        if roots.get(drain_name(each)) == (kind, f"{node.drain(each):x}:") and _is_led(namespace, node, each)
    }
    return found - (whole & wanted(qos))


def add(fabric: Fabric, name: str, some: Collection[str]) -> None:
    """Have what these interfaces of a node receive go through a drain; at what rate, their records say."""
    from lab.dataplane.attach import add_drain  # noqa: PLC0415 - pyroute2, which only this needs
    from lab.kernel.netlink.rtnl import NetlinkBatch  # noqa: PLC0415

    for interface in sorted(some):
        batch = NetlinkBatch()
        add_drain(batch, fabric.numbering.nodes[name], interface, qdisc_kind(fabric.name))
        fabric.namespace(name).inside(batch.commit)


def remove(fabric: Fabric, maps: PortMaps, name: str, some: Collection[str]) -> None:
    """Take drains away that have no rate any more, whole or not.

    Nothing is lost: packets go past the drain once it is empty, and it goes when the last has left it.
    OperationFailed when it keeps some.
    """
    from lab.dataplane import attach  # noqa: PLC0415 - see add
    from lab.kernel.netlink.rtnl import NetlinkBatch  # noqa: PLC0415

    node, namespace = fabric.numbering.nodes[name], fabric.namespace(name)
    for interface in sorted(some):
        batch = NetlinkBatch()
        _await_empty(maps, namespace, node, interface)
        if _is_led(namespace, node, interface):
            attach.bypass_drain(batch, node, interface)
            namespace.inside(batch.commit)
            _await_empty(maps, namespace, node, interface)
        attach.remove_drain(batch, node, interface)
        namespace.inside(batch.commit)


def _is_led(namespace: Namespace, node: NodePorts, interface: str) -> bool:
    """Whether what an interface receives goes through its drain."""
    return namespace.inside(lambda: is_redirected(node.index(node.port(interface))))


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
