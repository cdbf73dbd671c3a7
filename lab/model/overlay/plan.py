"""The overlay plan of each node, computed from the topology alone and deterministic.

=========================  =============================================================
what                       how
=========================  =============================================================
bridge of a leaf           ``bridge``, VLAN-aware, with the leaf's ports to hosts
tunnel of a VNI            ``vni10010``, in its VLAN, from the leaf's VTEP address
end of multicast           ``ipmr-lo``, a member of the tunnels' groups
VLAN of an L3VNI           the highest unused one: 4094, 4093, ...
VRF of tenant n            its name, table 1000 + n
gateway of a network       ``vlan10``: the gateways' addresses, one MAC on all leaves
router of a tenant         ``vlan4094``: no address, the leaf's own MAC
hosts of a network         the first free addresses of its subnets, in its order
tagged host                ``eth1.10``
router outside             ``lo``: the first address of each prefix it advertises
bond n                     ``bondn``, at its host and at each of its leaves
switch of plain VLANs      ``bridge``, with all its ports (``spanning_tree_plan``)
=========================  =============================================================

A leaf's own MAC is 02:1a:<node, 2 bytes>:00:00, with the unused interface number 0 (``addressing``).
"""

from __future__ import annotations

from functools import cached_property
from ipaddress import ip_interface
from itertools import islice
from typing import TYPE_CHECKING, Final

from lab.model.overlay.intent import VLAN_RANGE, VXLAN_OVERHEAD, Attachment
from lab.model.overlay.node_plan import (
    Bonded,
    BridgeMember,
    External,
    GatewayInterface,
    HostInterface,
    InterfaceAddress,
    LeafOverlay,
    Vrf,
    VxlanTunnel,
)
from lab.model.overlay.spanning_tree_plan import Bridged, Trunk, cost_of, priority_of
from lab.model.topology import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.model.overlay.intent import Address, Bond, Network, Overlay, Subnet
    from lab.model.overlay.node_plan import Interface
    from lab.model.topology import Link, Topology

BRIDGE: Final = "bridge"
TERMINATION: Final = "ipmr-lo"
"""The interface on which FRR's pimd terminates the groups of tunnels."""
_PREFERRED: Final = 32767
"""FRR's default preference in the election of designated forwarders."""
_MOST_PREFERRED: Final = 40000
"""The preference of the leaf that ``forwarder`` names."""
_FIRST_TABLE: Final = 1001
_LARGEST_MTU: Final = 9216


class OverlayPlan:
    """The overlay of all nodes."""

    def __init__(self, topology: Topology, overlay: Overlay) -> None:
        self._topology = topology
        self._overlay = overlay
        self.numbers: Mapping[str, int] = {node.name: number for number, node in enumerate(topology.nodes, start=1)}
        """The number of each node, from 1."""

    @cached_property
    def l3_vlans(self) -> Mapping[str, int]:
        """The VLAN of each tenant's L3VNI, for tenants with one."""
        used = {network.vlan for network in self._overlay.networks}
        free = (vlan for vlan in range(VLAN_RANGE[1], 0, -1) if vlan not in used)
        return {tenant.name: next(free) for tenant in self._overlay.tenants if tenant.l3vni}

    @cached_property
    def members(self) -> Mapping[str, tuple[Network, ...]]:
        """The networks of each leaf with hosts in any, in the order of the text."""
        found: dict[str, list[Network]] = {}
        for network in self._overlay.networks:
            for attachment in network.attachments:
                for port in self._ports_of(attachment.end):
                    own = found.setdefault(port.node, [])
                    if network not in own:
                        own.append(network)
        return {leaf: tuple(networks) for leaf, networks in found.items()}

    @cached_property
    def leaves(self) -> Mapping[str, LeafOverlay]:
        """The EVPN plan of each leaf with a network; empty for plain VLANs."""
        return (
            {}
            if self._overlay.plain
            else {leaf: self._leaf(leaf, networks) for leaf, networks in self.members.items()}
        )

    @cached_property
    def bridges(self) -> Mapping[str, Bridged]:
        """The bridge of each switch with plain VLANs, the top tier first; empty with EVPN."""
        if not self._overlay.plain:
            return {}
        switches = enumerate(self._topology.switches)
        return {switch.name: self._bridge(switch.name, rank) for rank, switch in switches}

    def _bridge(self, name: str, rank: int) -> Bridged:
        links = self._topology.links_of(name)
        rates = {link.end_at(name).interface: link.rate for link in links}
        return Bridged(
            mac=mac_of(self.numbers[name], 0),
            mtu=min(link.mtu for link in links),
            priority=priority_of(rank),
            vlans=tuple(network.vlan for network in self.networks),
            ports=tuple(self._ports(name)),
            trunks=tuple(Trunk(uplink, cost_of(rates[uplink])) for uplink in self._uplinks(name)),
        )

    @cached_property
    def hosts(self) -> Mapping[str, tuple[HostInterface, ...]]:
        """The interfaces of each host in networks, untagged ones first."""
        found: dict[str, list[HostInterface]] = {}
        for network in self._overlay.networks:
            addresses = _addresses(network)
            for number, attachment in enumerate(network.attachments):
                interface = HostInterface(
                    parent=attachment.end.interface,
                    network=network.name,
                    vlan=network.vlan if attachment.tagged else 0,
                    mtu=self._mtu_of(attachment.end),
                    addresses=addresses[number],
                )
                found.setdefault(attachment.end.node, []).append(interface)
        return {host: tuple(sorted(own, key=lambda each: bool(each.vlan))) for host, own in found.items()}

    @cached_property
    def externals(self) -> Mapping[str, External]:
        """The external routers, by host."""
        found = {}
        for border in self._overlay.border:
            place = Attachment(border.router)
            network = next((each for each in self.networks if place in each.attachments and each.gateways), None)
            if network is not None:
                addresses = _addresses(network)[network.attachments.index(place)]
                found[place.end.node] = External(
                    host=place.end.node,
                    interface=place.end.interface,
                    asn=border.asn,
                    leaf=self._ports_of(place.end)[0].node,
                    tenant=network.tenant,
                    sessions=tuple(each for each in addresses if each.gateway is not None),
                    prefixes=border.prefixes,
                )
        return found

    @cached_property
    def attached(self) -> frozenset[Endpoint]:
        """Both ends of every link in a network; they have no address in the underlay."""
        ends = {
            end
            for network in self._overlay.networks
            for attachment in network.attachments
            for end in self._members_of(attachment.end)
        }
        return frozenset(end for link in self._topology.links if ends.intersection(link.ends) for end in link.ends)

    @property
    def networks(self) -> tuple[Network, ...]:
        """All networks, in the order of the text."""
        return self._overlay.networks

    @cached_property
    def bonds(self) -> Mapping[str, tuple[Bonded, ...]]:
        """The bonds of each node that has any, hosts and leaves, in the order of the text."""
        found: dict[str, list[Bonded]] = {}
        for bond in self._overlay.bonds:
            for node, own in self._bonded(bond):
                found.setdefault(node, []).append(own)
        return {node: tuple(own) for node, own in found.items()}

    def _bonded(self, bond: Bond) -> Iterator[tuple[str, Bonded]]:
        """Yield a bond at its host, and then at each of its leaves."""
        members = self._members_of(bond.end)
        links = [(self._link_at(end), end) for end in members]
        ports = [link.other(end) for link, end in links]
        leaves = tuple(dict.fromkeys(port.node for port in ports))
        for node in (bond.end.node, *leaves):
            own = tuple(end.interface for end in (*members, *ports) if end.node == node)
            others = tuple(leaf for leaf in leaves if leaf != node) if node != bond.end.node else ()
            preference = (_MOST_PREFERRED if node == bond.forwarder else _PREFERRED) if others else 0
            mac = mac_of(self.numbers[node], self._position(node, own[0]))
            yield (
                node,
                Bonded(
                    name=bond.name,
                    number=bond.number,
                    members=own,
                    mac=mac,
                    mtu=links[0][0].mtu,
                    esi=bond.esi,
                    preference=preference,
                    others=others,
                ),
            )

    def _position(self, node: str, interface: str) -> int:
        names = [link.end_at(node).interface for link in self._topology.links_of(node)]
        return names.index(interface) + 1

    def _members_of(self, end: Endpoint) -> tuple[Endpoint, ...]:
        """Return the members of a bond's end; other ends are returned alone."""
        return next((bond.members for bond in self._overlay.bonds if bond.end == end), (end,))

    def _ports_of(self, end: Endpoint) -> list[Endpoint]:
        """Return the interfaces of leaves that a host's end is connected to; for a bond, the bonds there."""
        ports = (self._link_at(member).other(member) for member in self._members_of(end))
        bonded = end not in self._members_of(end)
        return list(dict.fromkeys(Endpoint(port.node, end.interface) if bonded else port for port in ports))

    def _link_at(self, end: Endpoint) -> Link:
        return next(link for link in self._topology.links_of(end.node) if end in link.ends)

    def _mtu_of(self, end: Endpoint) -> int:
        return self._link_at(self._members_of(end)[0]).mtu

    def _leaf(self, leaf: str, networks: tuple[Network, ...]) -> LeafOverlay:
        number = self.numbers[leaf]
        mac = mac_of(number, 0)
        mtu = self._room()
        own = {network.tenant for network in networks}
        vrfs = tuple(self._vrfs(own.union(*map(self._overlay.partners, own))))
        routed = [vrf for vrf in vrfs if vrf.l3vni]
        return LeafOverlay(
            mac=mac,
            mtu=mtu,
            networks=networks,
            ports=tuple(self._ports(leaf)),
            tunnels=(
                *(VxlanTunnel(network.l2vni, network.vlan, network.group) for network in networks),
                *(VxlanTunnel(vrf.l3vni, vrf.vlan) for vrf in routed),
            ),
            vrfs=vrfs,
            externals=tuple(each for each in self.externals.values() if each.leaf == leaf),
            bonds=self.bonds.get(leaf, ()),
            uplinks=tuple(self._uplinks(leaf)),
            gateways=(
                *(self._gateway(network) for network in networks if network.gateways),
                *(GatewayInterface(vlan=vrf.vlan, vrf=vrf.name, mac=mac, mtu=mtu) for vrf in routed),
            ),
        )

    def _uplinks(self, leaf: str) -> Iterator[str]:
        for link in self._topology.links_of(leaf):
            here = link.end_at(leaf)
            if self._topology.node(link.other(here).node).role.is_switch:
                yield here.interface

    def _room(self) -> int:
        """Return the largest IP packet in bytes that fits a tunnel over every link between switches."""
        between = [
            link.mtu
            for link in self._topology.links
            if all(self._topology.node(end.node).role.is_switch for end in link.ends)
        ]
        return min(between, default=_LARGEST_MTU) - VXLAN_OVERHEAD

    def _vrfs(self, wanted: set[str]) -> Iterator[Vrf]:
        for table, tenant in enumerate(self._overlay.tenants, start=_FIRST_TABLE):
            if tenant.name in wanted:
                subnets = [
                    subnet
                    for network in self._overlay.networks
                    if network.tenant == tenant.name
                    for subnet in network.subnets
                    if network.gateway_of(subnet)
                ]
                yield Vrf(
                    name=tenant.name,
                    table=table,
                    l3vni=tenant.l3vni,
                    vlan=self.l3_vlans.get(tenant.name, 0),
                    rd=tenant.rd,
                    rt=tenant.rt,
                    leaks=tuple(each for each in self._overlay.partners(tenant.name) if each in wanted),
                    subnets=tuple(subnets),
                )

    def _gateway(self, network: Network) -> GatewayInterface:
        addresses = [
            _in(subnet, gateway) for subnet in network.subnets for gateway in [network.gateway_of(subnet)] if gateway
        ]
        mtu = self._mtu_of(network.attachments[0].end)
        return GatewayInterface(
            vlan=network.vlan, vrf=network.tenant, mac=self._overlay.gateway_mac, mtu=mtu, addresses=tuple(addresses)
        )

    def _ports(self, leaf: str) -> Iterator[BridgeMember]:
        untagged: dict[str, int] = {}
        tagged: dict[str, list[int]] = {}
        for network in self._overlay.networks:
            for attachment in network.attachments:
                for port in (each for each in self._ports_of(attachment.end) if each.node == leaf):
                    if attachment.tagged:
                        tagged.setdefault(port.interface, []).append(network.vlan)
                    else:
                        untagged[port.interface] = network.vlan
        links = [link.end_at(leaf).interface for link in self._topology.links_of(leaf)]
        for name in (*links, *(bond.name for bond in self.bonds.get(leaf, ()))):
            if name in untagged or name in tagged:
                yield BridgeMember(name, untagged.get(name, 0), tuple(tagged.get(name, ())))


def plan_overlay(topology: Topology) -> OverlayPlan | None:
    """Return the overlay of ``topology`` by node; None without an overlay."""
    return None if topology.overlay is None else OverlayPlan(topology, topology.overlay)


def mac_of(number: int, position: int) -> str:
    """Return the MAC of a node's interface, both counted from 1 (``addressing``)."""
    return f"02:1a:{number >> 8:02x}:{number & 255:02x}:{position >> 8:02x}:{position & 255:02x}"


def _in(subnet: Subnet, address: Address) -> Interface:
    return ip_interface(f"{address}/{subnet.prefixlen}")


def _addresses(network: Network) -> list[tuple[InterfaceAddress, ...]]:
    """Return the addresses of each attachment: the first free ones of every subnet."""
    count = len(network.attachments)
    columns = []
    for subnet in network.subnets:
        gateway = network.gateway_of(subnet)
        free = (address for address in subnet.hosts() if address not in {gateway, subnet.network_address})
        columns.append([InterfaceAddress(_in(subnet, address), gateway) for address in islice(free, count)])
    return list(zip(*columns, strict=True)) if columns else [()] * count
