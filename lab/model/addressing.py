"""The addressing plan: every address and number of a fabric, computed from the topology alone and deterministic.

==============================  ======================  ===========================
what                            IPv4                    IPv6
==============================  ======================  ===========================
loopback of leaf n              10.253.0.0/16 + n       fdc0:0:0:1::n
loopback of spine n             10.254.0.0/16 + n       fdc0:0:0:2::n
loopback of super-spine n       10.255.0.0/16 + n       fdc0:0:0:3::n
VTEP of leaf n                  10.252.0.0/16 + n       -
host link n, leaf and host end  10.0.0.0/9 + 2n, 2n + 1 fdc0:0:1:n::1/64 and ::2/64
pod of a job on NIC n           100.64.0.0/10 + 2n + 1  fdc0:0:1:n::3/64
switch to switch                unnumbered              link-local (RFC 5549)
with OSPF, IS-IS or PIM         the loopback's address  link-local
==============================  ======================  ===========================

Ranks n count from 1, host links from 0. The pools are the defaults of ``topology.Addressing``; a topology may choose
others.

AS numbers are private four-byte ones (RFC 6996): one for all super-spines, one for the spines of each pod, and one
for each leaf (RFC 7938 section 5.2). An iBGP overlay uses one more for the EVPN sessions of all switches.

MAC addresses are locally administered: 02:1a:<node, 2 bytes>:<interface, 2 bytes>.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface
from typing import TYPE_CHECKING, Final, TypeAlias

from lab.model.overlay.plan import mac_of, plan_overlay
from lab.model.topology import Endpoint, HostFamily, Node, Role, SeedPolicy, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.model.overlay.node_plan import InterfaceAddress
    from lab.model.overlay.plan import OverlayPlan
    from lab.model.topology import Link

Address: TypeAlias = IPv4Address | IPv6Address
Interface: TypeAlias = IPv4Interface | IPv6Interface

POD_LINKS: Final = IPv4Network("100.64.0.0/10")
"""Links between a leaf and pods, which exist for the time of a job: shared address space (RFC 6598)."""
OVERLAY_ASN: Final = 4_200_200_000
"""The AS number of all switches when EVPN runs over iBGP."""
_SUPERSPINE_ASN: Final = 4_200_000_000
_SPINE_ASN: Final = 4_200_001_000
_LEAF_ASN: Final = 4_200_100_000


@dataclass(frozen=True, slots=True)
class InterfacePlan:
    """One interface: its MAC and, on host links, its address. A host's interface also has the leaf's address."""

    name: str
    mac: str
    address: Interface | None = None
    gateway: Address | None = None
    borrowed: IPv4Interface | None = None
    """The loopback's address, used on links between switches by OSPF, IS-IS and PIM."""
    bond: str = ""
    """The host's bond that the interface is a member of."""

    @property
    def link_local(self) -> IPv6Address:
        """The fe80::/64 address that the kernel derives from the MAC (RFC 4291 appendix A)."""
        octets = bytes.fromhex(self.mac.replace(":", ""))
        eui64 = bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:]
        return IPv6Address(b"\xfe\x80" + bytes(6) + eui64)


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node: its interfaces by name and, on switches that route, the AS number and addresses of the router."""

    node: Node
    interfaces: Mapping[str, InterfacePlan]
    asn: int = 0
    loopback4: IPv4Address | None = None
    loopback6: IPv6Address | None = None
    vtep: IPv4Address | None = None
    hash_seed: int = 0
    further: Mapping[str, tuple[Interface, ...]] = field(default_factory=dict)
    """A host's addresses in networks that ``interfaces`` has no place for, by interface: those of ``eth1.20``, which
    is tagged, and all but the first of an untagged one."""

    @property
    def nics(self) -> list[str]:
        """The names of interfaces that carry traffic themselves: bonds, but not their members."""
        return [name for name, each in self.interfaces.items() if not each.bond]

    @property
    def loopbacks(self) -> tuple[Interface, ...]:
        """All addresses of the loopback interface, as /32 and /128."""
        addresses = (self.loopback4, self.vtep, self.loopback6)
        return tuple(_host_route(address) for address in addresses if address is not None)


def _host_route(address: Address) -> Interface:
    return IPv4Interface(address) if isinstance(address, IPv4Address) else IPv6Interface(address)


def plan_addresses(topology: Topology) -> Mapping[str, NodePlan]:
    """Return the plan of every node by its name; the same topology gives the same plan."""
    ranks: dict[Role, int] = dict.fromkeys(Role, 0)
    host_links = {
        link: number for number, link in enumerate(link for link in topology.links if _touches_host(topology, link))
    }
    overlay = plan_overlay(topology)
    plans: dict[str, NodePlan] = {}
    for index, node in enumerate(topology.nodes, start=1):
        ranks[node.role] += 1
        interfaces = _plan_interfaces(topology, node, index, host_links)
        if overlay is not None:
            interfaces |= _in_networks(overlay, node, interfaces)
        plans[node.name] = (
            _plan_switch(topology, node, ranks[node.role], interfaces)
            if node.role.is_switch
            else NodePlan(node, interfaces, further=_further(overlay, node) if overlay is not None else {})
        )
    return plans


def _touches_host(topology: Topology, link: Link) -> bool:
    return any(topology.node(end.node).role is Role.HOST for end in link.ends)


def _plan_interfaces(
    topology: Topology, node: Node, index: int, host_links: Mapping[Link, int]
) -> dict[str, InterfacePlan]:
    interfaces = {}
    for position, link in enumerate(topology.links_of(node.name), start=1):
        name = link.end_at(node.name).interface
        mac = mac_of(index, position)
        address, gateway = None, None
        if link in host_links:
            leaf_end, host_end = _host_link(topology, host_links[link])
            at_host = node.role is Role.HOST
            address, gateway = (host_end, leaf_end.ip) if at_host else (leaf_end, None)
        interfaces[name] = InterfacePlan(name=name, mac=mac, address=address, gateway=gateway)
    return interfaces


def _in_networks(
    overlay: OverlayPlan, node: Node, interfaces: Mapping[str, InterfacePlan]
) -> dict[str, InterfacePlan]:
    """Return the interfaces that are in an overlay network, each with the host's first untagged address there."""
    known_by = {
        each.parent: each.addresses[0]
        for each in overlay.hosts.get(node.name, ())
        if each.addresses and not each.vlan
    }
    found = {}
    for name, plan in interfaces.items():
        if Endpoint(node.name, name) in overlay.attached:
            found[name] = _known(name, plan.mac, known_by.get(name))
    for bond in overlay.bonds.get(node.name, ()) if node.role is Role.HOST else ():
        found |= {name: replace(found[name], bond=bond.name) for name in bond.members}
        found[bond.name] = _known(bond.name, bond.mac, known_by.get(bond.name))
    return found


def _further(overlay: OverlayPlan, node: Node) -> dict[str, tuple[Interface, ...]]:
    """Return the addresses that ``_in_networks`` leaves out, by interface."""
    left = {
        each.name: tuple(known.address for known in each.addresses[0 if each.vlan else 1 :])
        for each in overlay.hosts.get(node.name, ())
    }
    return {name: addresses for name, addresses in left.items() if addresses}


def _known(name: str, mac: str, by: InterfaceAddress | None) -> InterfacePlan:
    return (
        InterfacePlan(name, mac)
        if by is None
        else InterfacePlan(name=name, mac=mac, address=by.address, gateway=by.gateway)
    )


def _host_link(topology: Topology, number: int) -> tuple[Interface, Interface]:
    pools = topology.addressing
    if topology.routing.host_family is HostFamily.IPV4:
        base = pools.host_links.network_address + 2 * number
        return IPv4Interface((base, 31)), IPv4Interface((base + 1, 31))
    subnet = pools.host_links6.network_address + (number << 64)
    return IPv6Interface((subnet + 1, 64)), IPv6Interface((subnet + 2, 64))


def _plan_switch(topology: Topology, node: Node, rank: int, interfaces: Mapping[str, InterfacePlan]) -> NodePlan:
    asn = {
        Role.SUPERSPINE: _SUPERSPINE_ASN,
        Role.SPINE: _SPINE_ASN + node.pod,
        Role.LEAF: _LEAF_ASN + rank,
    }[node.role]
    pools = topology.addressing
    loopbacks = {
        Role.SUPERSPINE: pools.superspine_loopbacks,
        Role.SPINE: pools.spine_loopbacks,
        Role.LEAF: pools.leaf_loopbacks,
    }[node.role]
    loopback4 = loopbacks.network_address + rank
    if topology.overlay is not None and topology.overlay.plain:
        return NodePlan(node, interfaces)
    if topology.borrows:
        interfaces = _lent(topology, node, interfaces, IPv4Interface(loopback4))
    return NodePlan(
        node=node,
        interfaces=interfaces,
        asn=asn if topology.has_bgp else 0,
        loopback4=loopback4,
        loopback6=pools.loopbacks6.network_address + (node.role.tier << 64) + rank,
        vtep=pools.vteps.network_address + rank if node.role is Role.LEAF else None,
        hash_seed=_seed(topology, node),
    )


def _lent(
    topology: Topology, node: Node, interfaces: Mapping[str, InterfacePlan], address: IPv4Interface
) -> dict[str, InterfacePlan]:
    """Return the interfaces; those towards switches borrow the loopback's address."""
    found = dict(interfaces)
    for link in topology.links_of(node.name):
        here = link.end_at(node.name)
        if topology.node(link.other(here).node).role.is_switch:
            found[here.interface] = replace(found[here.interface], borrowed=address)
    return found


def _seed(topology: Topology, node: Node) -> int:
    """Return a non-zero seed for the switch, or 0 for the kernel's own seed, which all namespaces share."""
    if topology.routing.hash_seed is SeedPolicy.SHARED:
        return 0
    return zlib.crc32(node.name.encode()) | 1
