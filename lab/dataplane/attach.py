"""Netlink requests that attach the emulated port's programs and qdiscs to a node's interfaces, or detach them.

Each batch is committed in the namespace of the node.
"""

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
    """Attach the clock and the ports to a node's interfaces.

    On each interface the programs come before the qdisc: its queues need every packet to be classified. Without a
    qdisc the programs pass every packet.
    """
    clock = node.index(node.clock)
    tc.add_clsact(batch, clock)
    tc.add_bpf_ingress(batch, clock, programs.tick, "tick")
    tc.set_root(batch, clock, programs.kind, node.clock)
    for interface in node.interfaces:
        attach_port(batch, node, interface, programs)
        if qos.ports[interface].drain is not None:
            add_drain(batch, node, interface, programs.kind)


def attach_port(batch: rtnl.NetlinkBatch, node: NodePorts, interface: str, programs: Programs) -> None:
    """Attach one port to its interface, without the drain of a NIC."""
    port = node.port(interface)
    index = node.index(port)
    tc.add_clsact(batch, index)
    tc.add_bpf_ingress(batch, index, programs.rx, "port_rx")
    tc.add_bpf_egress(batch, index, programs.tx, "port_tx")
    tc.set_root(batch, index, programs.kind, port)


def add_drain(batch: rtnl.NetlinkBatch, node: NodePorts, interface: str, kind: str) -> None:
    """Redirect the packets that a NIC receives through a queue with its drain rate; the NIC already has its port."""
    drain = node.drain(interface)
    index = node.index(drain)
    links.add_ifb(batch, index, drain_name(interface))
    tc.set_root(batch, index, kind, drain)
    links.set_up(batch, index, drain_name(interface))
    tc.add_ingress_redirect(batch, node.index(node.port(interface)), index)


def bypass_drain(batch: rtnl.NetlinkBatch, node: NodePorts, interface: str) -> None:
    """Remove the redirect to a NIC's drain; packets in the drain are still delivered."""
    tc.delete_ingress_redirect(batch, node.index(node.port(interface)))


def remove_drain(batch: rtnl.NetlinkBatch, node: NodePorts, interface: str) -> None:
    """Remove a drain that no packets are redirected to."""
    links.delete(batch, node.index(node.drain(interface)), drain_name(interface))
