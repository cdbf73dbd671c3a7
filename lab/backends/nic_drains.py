"""Add and remove the drains of hosts' NICs in a running fabric; a drain is removed when it is empty.

A drain is an ifb device; a redirect on the NIC's ingress leads received packets through it. A killed command may
leave one without the other.
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
"""Seconds for a drain without a rate to become empty; it takes milliseconds."""
_POLL: Final = 0.005


def wanted(node: NodeQos) -> frozenset[str]:
    """Return the interfaces that are configured with a drain rate."""
    return frozenset(interface for interface, port in node.ports.items() if port.drain is not None)


def without(node: NodeQos) -> NodeQos:
    """Return the same node without drain rates."""
    return replace(node, ports={interface: replace(port, drain=None) for interface, port in node.ports.items()})


def standing(fabric: Fabric, name: str) -> frozenset[str]:
    """Return the interfaces of a node with a drain, complete or not; a device with another index is not a drain."""
    node = fabric.numbering.nodes[name]
    if not node.host:
        return frozenset()
    found = indices(fabric.namespace(name))
    return frozenset(each for each in node.interfaces if found.get(drain_name(each)) == node.index(node.drain(each)))


def stale(fabric: Fabric, name: str, qos: NodeQos) -> frozenset[str]:
    """Return the interfaces of a node whose drain is incomplete or no longer configured."""
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
    """Add drains to these interfaces of a node; the ports' records hold the rates."""
    from lab.dataplane.attach import add_drain  # noqa: PLC0415 - pyroute2, which only this needs
    from lab.kernel.netlink.rtnl import NetlinkBatch  # noqa: PLC0415

    for interface in sorted(some):
        batch = NetlinkBatch()
        add_drain(batch, fabric.numbering.nodes[name], interface, qdisc_kind(fabric.name))
        fabric.namespace(name).inside(batch.commit)


def remove(fabric: Fabric, maps: PortMaps, name: str, some: Collection[str]) -> None:
    """Remove drains, complete or not, that no longer have a rate.

    No packet is lost: the redirect is removed when the drain is empty, and the drain when the last packet has left.
    OperationFailed if it does not become empty.
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
    """Return whether received packets of an interface are redirected to its drain."""
    return namespace.inside(lambda: is_redirected(node.index(node.port(interface))))


def _await_empty(maps: PortMaps, namespace: Namespace, node: NodePorts, interface: str) -> None:
    """Wait until the drain's queue is empty, and its device has passed on all packets that left the queue."""
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
    """Return the packets inside an ifb: received minus sent, from the counters of the device."""
    state = interfaces(namespace)[device]
    return state.rx_packets - state.tx_packets
