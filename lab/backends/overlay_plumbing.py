"""The overlay's part of the plumbing: bridges, VXLAN tunnels, VRFs and bonds, created before any router runs.

All of them disappear with their namespace, which is in the journal. So they have no journal entries of their own.
"""

from __future__ import annotations

import socket
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks
from lab.kernel.bpf import probe
from lab.kernel.netlink import links, logical_links, multicast, rtnl
from lab.kernel.netlink.logical_links import LogicalLink
from lab.kernel.process import process, tuning
from lab.model.overlay.intent import SEGMENT_MAC, Flooding
from lab.model.overlay.plan import BRIDGE, TERMINATION
from lab.model.overlay.spanning_tree_plan import AGEING, FORWARD_DELAY, HELLO, MAX_AGE
from lab.routing import daemons
from lab.routing.frr_config.render_segments import filters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from ipaddress import IPv4Address

    from lab.dataplane.numbering import Numbering
    from lab.kernel.netlink.rtnl import NetlinkBatch
    from lab.model.addressing import NodePlan
    from lab.model.overlay.node_plan import (
        BridgeMember,
        GatewayInterface,
        HostInterface,
        InterfaceAddress,
        LeafOverlay,
        VxlanTunnel,
    )
    from lab.model.overlay.plan import OverlayPlan
    from lab.model.overlay.spanning_tree_plan import Bridged
    from lab.model.topology import Topology

_FIRST_TABLE: Final = 300
"""Routing table of a host's first overlay address, if it has several; the others follow."""
_MEMBERSHIPS: Final = "net/ipv4/igmp_max_memberships"
_USUAL_MEMBERSHIPS: Final = 20
"""The kernel's default for the multicast groups of a socket (ip(7))."""
_UNTRACKED: Final = "accept_untracked_na"
"""Sysctl that exists since Linux 5.19."""


class OverlayPlumber:
    """Creates the overlay's devices in the namespace that the calling thread has entered."""

    def __init__(self, overlay: OverlayPlan, numbering: Numbering, plan: Mapping[str, NodePlan]) -> None:
        self._overlay = overlay
        self._numbering = numbering
        self._vteps = {leaf: str(plan[leaf].vtep) for leaf in overlay.leaves}

    def prepare(self, node: str) -> None:
        """Create bonds, and turn IPv6 off on bridge ports, before the links come up.

        A bond accepts only members that are down, and a bridge port must have no address.
        """
        leaf = self._overlay.leaves.get(node)
        self._add_bonds(node, SEGMENT_MAC if leaf is not None else "")
        ports = [port.interface for port in leaf.ports] if leaf is not None else []
        if (bridged := self._overlay.bridges.get(node)) is not None:
            ports = [*(port.interface for port in bridged.ports), *(trunk.interface for trunk in bridged.trunks)]
        tuning.write_sysctls({f"net/ipv6/conf/{port}/disable_ipv6": 1 for port in ports})

    def lay(self, plan: NodePlan) -> None:
        """Create the overlay devices of a node whose links exist."""
        node = plan.node.name
        if (leaf := self._overlay.leaves.get(node)) is not None and plan.vtep is not None:
            self._lay_leaf(node, plan.vtep, leaf)
        elif (bridged := self._overlay.bridges.get(node)) is not None:
            self._lay_bridge(node, bridged)
        elif own := self._overlay.hosts.get(node):
            self._lay_host(plan, own)
            self._lay_router(node)

    def _bonds(self, node: str) -> dict[str, int]:
        """Return the ifindex of each bond of a node by name; they follow those of all ports."""
        first = self._numbering.free_index
        return {bond.name: first + place for place, bond in enumerate(self._overlay.bonds.get(node, ()))}

    def _indexes(self, node: str) -> Iterator[int]:
        """Yield free ifindexes of a node, which follow those of all ports and bonds."""
        return count(self._numbering.free_index + len(self._bonds(node)))

    def _index(self, node: str, interface: str) -> int:
        """Return the ifindex of a link's end or of a bond."""
        bond = self._bonds(node).get(interface)
        return self._numbering.index(node, interface) if bond is None else bond

    def _add_bonds(self, node: str, partner: str) -> None:
        batch = rtnl.NetlinkBatch()
        for bond in self._overlay.bonds.get(node, ()):
            index = self._bonds(node)[bond.name]
            logical_links.add_bond(
                batch, LogicalLink(name=bond.name, index=index, mtu=bond.mtu, mac=bond.mac), partner
            )
            for member in bond.members:
                logical_links.enslave(batch, self._numbering.index(node, member), index, member)
            links.set_up(batch, index, bond.name)
        batch.commit()

    def _lay_leaf(self, node: str, vtep: IPv4Address, leaf: LeafOverlay) -> None:
        free = self._indexes(node)
        bridge = LogicalLink(name=BRIDGE, index=next(free), mtu=leaf.mtu, mac=leaf.mac)
        vrfs = {vrf.name: LogicalLink(vrf.name, next(free), leaf.mtu) for vrf in leaf.vrfs}
        tunnels = {
            tunnel: LogicalLink(name=tunnel.name, index=next(free), mtu=leaf.mtu, mac=leaf.mac, master=bridge.index)
            for tunnel in leaf.tunnels
        }
        gateways = {
            gateway: LogicalLink(
                name=gateway.name, index=next(free), mtu=gateway.mtu, mac=gateway.mac, master=vrfs[gateway.vrf].index
            )
            for gateway in leaf.gateways
        }
        batch = rtnl.NetlinkBatch()
        logical_links.add_bridge(batch, bridge)
        _add_vrfs(batch, leaf, vrfs)
        for tunnel, device in tunnels.items():
            add_tunnel(batch, tunnel, device, vtep)
        _add_gateways(batch, leaf, bridge, gateways)
        self._add_ports(batch, node, leaf.ports, bridge.index)
        batch.commit()
        _tune(leaf)
        devices = [bridge, *vrfs.values(), *tunnels.values(), *gateways.values()]
        tuning.disable_offloads([device.name for device in devices])
        for device in devices:
            links.set_up(batch, device.index, device.name)
        for gateway, device in gateways.items():
            for address in gateway.addresses:
                links.add_address(batch, device.index, address)
        _end_groups(batch, leaf, next(free))
        batch.commit()
        self._filter(leaf)

    def _filter(self, leaf: LeafOverlay) -> None:
        """Install tc filters that drop flooded packets to bonds until zebra elects designated forwarders."""
        lines = list(filters(leaf, self._vteps, self._overlay.numbers))
        if lines:
            tuning.disable_offloads([bond.name for bond in leaf.bonds])
            process.run([process.find_tool("tc", "iproute2"), "-batch", "-"], stdin="\n".join(lines))

    def _lay_bridge(self, node: str, bridged: Bridged) -> None:
        """Create the bridge of plain VLANs; it is set up last, so its spanning tree starts with all ports."""
        bridge = LogicalLink(name=BRIDGE, index=next(self._indexes(node)), mtu=bridged.mtu, mac=bridged.mac)
        tree = logical_links.SpanningTreeSettings(
            priority=bridged.priority, hello=HELLO, max_age=MAX_AGE, forward_delay=FORWARD_DELAY, ageing=AGEING
        )
        batch = rtnl.NetlinkBatch()
        logical_links.add_bridge(batch, bridge, tree)
        self._add_ports(batch, node, bridged.ports, bridge.index)
        for trunk in bridged.trunks:
            index = self._index(node, trunk.interface)
            logical_links.enslave(batch, index, bridge.index, trunk.interface)
            logical_links.set_cost(batch, index, trunk.cost, trunk.interface)
            for vlan in bridged.vlans:
                logical_links.join_vlan(batch, index, vlan)
        batch.commit()
        tuning.write_sysctls({f"net/ipv6/conf/{BRIDGE}/disable_ipv6": 1})
        tuning.disable_offloads([BRIDGE])
        links.set_up(batch, bridge.index, BRIDGE)
        batch.commit()

    def _add_ports(self, batch: rtnl.NetlinkBatch, node: str, ports: Sequence[BridgeMember], bridge: int) -> None:
        for port in ports:
            index = self._index(node, port.interface)
            logical_links.enslave(batch, index, bridge, port.interface)
            if port.untagged:
                logical_links.join_vlan(batch, index, port.untagged, untagged=True)
            for vlan in port.tagged:
                logical_links.join_vlan(batch, index, vlan)

    def _lay_router(self, node: str) -> None:
        """Add the loopback addresses of an external router."""
        if (external := self._overlay.externals.get(node)) is not None:
            batch = rtnl.NetlinkBatch()
            for address in external.addresses:
                links.add_address(batch, links.LOOPBACK_INDEX, address)
            batch.commit()

    def _lay_host(self, plan: NodePlan, own: tuple[HostInterface, ...]) -> None:
        """Add a host's VLAN interfaces, and the addresses and routes that are not in the plan of its interfaces."""
        free = self._indexes(plan.node.name)
        bonds = self._bonds(plan.node.name)
        batch = rtnl.NetlinkBatch()
        tables = count(_FIRST_TABLE)
        several = sum(len(each.addresses) for each in own) > 1
        for each in own:
            index = parent = self._index(plan.node.name, each.parent)
            if each.vlan:
                index = next(free)
                logical_links.add_vlan(batch, LogicalLink(each.name, index, each.mtu), parent=parent, vlan=each.vlan)
                links.set_up(batch, index, each.name)
            for addressed, table in zip(each.addresses, tables, strict=False):
                planned = plan.interfaces[each.parent].address
                if each.vlan or each.parent in bonds or addressed.address != planned:
                    _add_address(batch, addressed, index, table, several=several)
        batch.commit()


def _add_address(
    batch: rtnl.NetlinkBatch, addressed: InterfaceAddress, index: int, table: int, *, several: bool
) -> None:
    """Add an address and its default route; with several addresses, a source rule selects the address's gateway."""
    links.add_address(batch, index, addressed.address)
    if addressed.gateway is not None:
        links.add_default_route(batch, addressed.gateway, index, metric=table)
        if several:
            links.add_default_route(batch, addressed.gateway, index, table=table)
            links.add_source_rule(batch, addressed.address.ip, table)


def add_tunnel(batch: NetlinkBatch, tunnel: VxlanTunnel, device: LogicalLink, vtep: IPv4Address) -> None:
    """Add a tunnel with the local address ``vtep`` to its VLAN of the bridge; the tunnel stays down."""
    flooding = multicast.flooding_to(tunnel.group) if tunnel.group is not None else None
    logical_links.add_vxlan(batch, device, vni=tunnel.vni, local=vtep, flooding=flooding)
    logical_links.join_vlan(batch, device.index, tunnel.vlan, untagged=True)


def _end_groups(batch: NetlinkBatch, leaf: LeafOverlay, index: int) -> None:
    """Add the dummy interface to which pimd routes the tunnels' multicast groups, and join the groups on it."""
    groups = [tunnel.group for tunnel in leaf.tunnels if tunnel.group is not None]
    if not groups:
        return
    logical_links.add_dummy(batch, LogicalLink(TERMINATION, index, leaf.mtu))
    links.set_up(batch, index, TERMINATION)
    for group in groups:
        multicast.take_in(batch, index, group)


def change_vni(plan: NodePlan, leaf: LeafOverlay, name: str, vni: int) -> None:
    """Change the VNI of the tunnel called ``name``, or create the tunnel if it is missing.

    The kernel cannot change a VNI, so the tunnel is created again with the same ifindex. The calling thread is in the
    leaf's namespace.
    """
    tunnel = next(each for each in leaf.tunnels if each.name == name)
    there = {named: index for index, named in socket.if_nameindex()}
    device = LogicalLink(
        name=name, index=there.get(name, max(there.values()) + 1), mtu=leaf.mtu, mac=leaf.mac, master=there[BRIDGE]
    )
    batch = rtnl.NetlinkBatch()
    if name in there:
        links.delete(batch, device.index, name)
    if plan.vtep is not None:
        add_tunnel(batch, replace(tunnel, vni=vni), device, plan.vtep)
    batch.commit()
    tuning.write_sysctls({f"net/ipv6/conf/{name}/disable_ipv6": 1})
    tuning.disable_offloads([name])
    links.set_up(batch, device.index, name)
    batch.commit()


def change_gateways(leaf: LeafOverlay, now: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Change the MACs of gateways, by name; the bridge then delivers frames to the new MACs locally.

    The calling thread is in the leaf's namespace.
    """
    bridge = socket.if_nametoindex(BRIDGE)
    batch = rtnl.NetlinkBatch()
    for gateway in leaf.gateways:
        name, vlan = gateway.name, gateway.vlan
        if name in wanted and wanted[name] != now[name]:
            logical_links.disown_mac(batch, bridge, vlan, now[name])
            logical_links.set_mac(batch, socket.if_nametoindex(name), wanted[name], name)
            logical_links.own_mac(batch, bridge, vlan, wanted[name])
    batch.commit()


def _add_vrfs(batch: rtnl.NetlinkBatch, leaf: LeafOverlay, devices: Mapping[str, LogicalLink]) -> None:
    for vrf in leaf.vrfs:
        logical_links.add_vrf(batch, devices[vrf.name], vrf.table)
    if devices:
        logical_links.ask_vrfs_first(batch)


def _add_gateways(
    batch: rtnl.NetlinkBatch, leaf: LeafOverlay, bridge: LogicalLink, devices: Mapping[GatewayInterface, LogicalLink]
) -> None:
    for gateway, device in devices.items():
        logical_links.join_vlan(batch, bridge.index, gateway.vlan, of_bridge=True)
        if gateway.mac != leaf.mac:
            logical_links.own_mac(batch, bridge.index, gateway.vlan, gateway.mac)
        logical_links.add_vlan(batch, device, parent=bridge.index, vlan=gateway.vlan)


def _tune(leaf: LeafOverlay) -> None:
    """Set the sysctls of a leaf: only gateways have IPv6 addresses, and they accept unsolicited ARP and NA replies.

    All leaves of a network share the gateway's MAC. So a host's reply to one leaf may arrive at another.
    """
    silent = (BRIDGE, *(tunnel.name for tunnel in leaf.tunnels))
    tuning.write_sysctls({f"net/ipv6/conf/{name}/disable_ipv6": 1 for name in silent})
    groups = [tunnel for tunnel in leaf.tunnels if tunnel.group is not None]
    if groups:  # one socket joins the groups of all tunnels, and one those of the dummy interface
        tuning.write_sysctls({_MEMBERSHIPS: max(_USUAL_MEMBERSHIPS, len(groups))})
    for gateway in leaf.gateways:
        tuning.write_sysctls({f"net/ipv4/conf/{gateway.name}/arp_accept": 1})
        if tuning.has_sysctl(untracked := f"net/ipv6/conf/{gateway.name}/{_UNTRACKED}"):
            tuning.write_sysctls({untracked: 1})


def check_kernel(topology: Topology) -> None:
    """Raise EnvironmentLacks if this kernel lacks a feature that the overlay needs."""
    if topology.overlay is None:
        return
    wanted = {"bridges that know VLANs": probe.vlan_bridge()}
    if not topology.overlay.plain:
        wanted["VXLAN"] = probe.device("vxlan")
    if topology.overlay.flooding is Flooding.MULTICAST:
        wanted["VXLAN by multicast routes"] = probe.routed_tunnel()
    if topology.overlay.tenants:
        wanted["VRF"] = probe.device("vrf")
    if topology.overlay.bonds:
        daemons.check_scripting()
        probe.load_bonding()
        wanted["bonds"] = probe.device("bond")
    for what, found in wanted.items():
        if not found.present:
            raise EnvironmentLacks(f"overlay: this kernel has no {what} ({found.detail})", "use --vm")
