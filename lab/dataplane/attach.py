"""Programs and qdiscs of the emulated port on a node's interfaces: requests for a ``Batch`` in its namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.dataplane.numbering import drain_name
from lab.kernel.netlink import links, tc

if TYPE_CHECKING:
    from lab.dataplane.numbering import NodePorts
    from lab.dataplane.port_maps import Programs
    from lab.kernel.netlink import rtnl
    from lab.model.qos.port import NodeQos


def attach(batch: rtnl.NetlinkBatch, node: NodePorts, qos: NodeQos, programs: Programs) -> None:
    """Put clock and ports on a node's interfaces; ``batch`` is committed in its namespace.

    Programs first: they let everything pass until there is a port, whose queues want to be told of each packet.
    """
    clock = node.index(node.clock)
    tc.add_clsact(batch, clock)
    tc.add_bpf_ingress(batch, clock, programs.tick, "tick")
    tc.set_root(batch, clock, programs.kind, node.clock)
    for interface in node.interfaces:
        port = node.port(interface)
        index = node.index(port)
        tc.add_clsact(batch, index)
        tc.add_bpf_ingress(batch, index, programs.rx, "port_rx")
        tc.add_bpf_egress(batch, index, programs.tx, "port_tx")
        tc.set_root(batch, index, programs.kind, port)
        if qos.ports[interface].drain is not None:
            add_drain(batch, node, interface, programs.kind)


def add_drain(batch: rtnl.NetlinkBatch, node: NodePorts, interface: str, kind: str) -> None:
    """Take what a NIC receives through a queue that is emptied at its drain rate; the NIC has its port already."""
    drain = node.drain(interface)
    index = node.index(drain)
    links.add_ifb(batch, index, drain_name(interface))
    tc.set_root(batch, index, kind, drain)
    links.set_up(batch, index, drain_name(interface))
    tc.add_ingress_redirect(batch, node.index(node.port(interface)), index)


def bypass_drain(batch: rtnl.NetlinkBatch, node: NodePorts, interface: str) -> None:
    """Let a NIC's packets past its drain again; what waits there still goes on."""
    tc.delete_ingress_redirect(batch, node.index(node.port(interface)))


def remove_drain(batch: rtnl.NetlinkBatch, node: NodePorts, interface: str) -> None:
    """Take a drain away that nothing goes through any more."""
    links.delete(batch, node.index(node.drain(interface)), drain_name(interface))
