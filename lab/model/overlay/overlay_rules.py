"""Rules of an ``overlay`` section: one function for each rule, which yields its findings.

``check_overlay`` checks the section itself, and ``check_attachments`` whether it fits its fabric.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lab.model.overlay.bond_rules import check_bonds
from lab.model.overlay.border_rules import check_border
from lab.model.overlay.ends import end_of
from lab.model.overlay.flooding_rules import check_groups, check_multicast
from lab.model.overlay.intent import VLAN_RANGE, VXLAN_OVERHEAD
from lab.model.overlay.overlay_build import bonds_by_member
from lab.model.overlay.underlay_rules import check_underlay
from lab.model.overlay.vlan_rules import check_design, check_plain
from lab.model.topology import Role
from lab.model.values.suggest import suggest
from lab.model.values.validate import SpecFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.model.overlay.ends import Bonds
    from lab.model.overlay.intent import Network, Subnet
    from lab.model.overlay.overlay_spec import NetworkSpec, OverlaySpec
    from lab.model.topology import Link, Topology, Underlay

_TAKEN: Final = re.compile(r"(lo|ipmr-lo|bridge|default|all|any|(swp|eth|vlan|vni)[0-9]+)$")
"""Names of a leaf's interfaces, and keywords of FRR."""


def check_overlay(spec: OverlaySpec, underlay: Underlay | None = None) -> Iterator[SpecFinding]:
    """Yield the findings of every rule about this section and ``routing.underlay``."""
    yield from check_design(spec)
    yield from _names_are_free(spec)
    yield from _numbers_used_once(spec)
    yield from _vlans_suffice(spec)
    for name, network in spec.networks.items():
        yield from _tenant_exists(spec, name, network)
        yield from _gateways_fit(name, network)
    yield from _routed_tenants_have_l3vnis(spec)
    yield from _subnets_are_disjoint(spec)
    yield from check_underlay(spec, underlay)
    yield from _targets_used_once(spec)
    yield from _leaks_fit(spec)
    yield from check_groups(spec)


def _names_are_free(spec: OverlaySpec) -> Iterator[SpecFinding]:
    for name in spec.tenants:
        if _TAKEN.match(name):
            yield SpecFinding(("overlay", "tenants", name), f"{name} is the name of something else", "choose another")


def _numbers_used_once(spec: OverlaySpec) -> Iterator[SpecFinding]:
    vnis: dict[int, str] = {}
    vlans: dict[int, str] = {}
    wanted = [(vlans, "VLAN", network.vlan, ("networks", name, "vlan")) for name, network in spec.networks.items()]
    wanted += [
        (vnis, "VNI", network.l2vni, ("networks", name, "l2vni"))
        for name, network in spec.networks.items()
        if network.l2vni is not None
    ]
    wanted += [
        (vnis, "VNI", tenant.l3vni, ("tenants", name, "l3vni"))
        for name, tenant in spec.tenants.items()
        if tenant.l3vni is not None
    ]
    for used, what, number, place in wanted:
        if number in used:
            yield SpecFinding(
                ("overlay", *place), f"{what} {number} is {used[number]} already", f"choose another {what}"
            )
        else:
            used[number] = ".".join(place[:2])


def _vlans_suffice(spec: OverlaySpec) -> Iterator[SpecFinding]:
    needed = len(spec.networks) + sum(1 for tenant in spec.tenants.values() if tenant.l3vni is not None)
    if needed > VLAN_RANGE[1]:
        message = f"{len(spec.networks)} networks and {needed - len(spec.networks)} L3VNIs need {needed} VLANs"
        yield SpecFinding(("overlay", "networks"), message, f"there are {VLAN_RANGE[1]} (IEEE 802.1Q); have fewer")


def _tenant_exists(spec: OverlaySpec, name: str, network: NetworkSpec) -> Iterator[SpecFinding]:
    place = ("overlay", "networks", name)
    if network.tenant is not None and network.tenant not in spec.tenants:
        remedy = suggest(network.tenant, spec.tenants, "add it to overlay.tenants")
        yield SpecFinding((*place, "tenant"), f"there is no tenant {network.tenant}", remedy)
    if network.gateways and network.tenant is None:
        remedy = "say whose it is with `tenant:`, or leave gateways out"
        yield SpecFinding((*place, "gateways"), "are in no VRF: the network has no tenant", remedy)


def _gateways_fit(name: str, network: NetworkSpec) -> Iterator[SpecFinding]:
    place = ("overlay", "networks", name)
    for key in ("subnets", "gateways"):
        versions = [each.version for each in getattr(network, key)]
        for number, version in enumerate(versions):
            if version in versions[:number]:
                yield SpecFinding((*place, key, number), f"is the second of IPv{version}", "keep one of each version")
    for number, subnet in enumerate(network.subnets):
        if subnet.is_multicast or subnet.is_loopback or subnet.is_link_local or subnet.is_unspecified:
            yield SpecFinding((*place, "subnets", number), f"{subnet} is not for hosts", "use private addresses")
    for number, gateway in enumerate(network.gateways):
        own = [subnet for subnet in network.subnets if subnet.version == gateway.version]
        if not any(gateway in subnet for subnet in own):
            where = f"in {own[0]}" if own else f"in an IPv{gateway.version} subnet of the network; add one"
            yield SpecFinding((*place, "gateways", number), f"{gateway} is outside its subnet", f"choose one {where}")
        elif any(gateway in {subnet.network_address, subnet.broadcast_address} for subnet in own):
            yield SpecFinding((*place, "gateways", number), f"{gateway} is no host's address", "choose another")


def _routed_tenants_have_l3vnis(spec: OverlaySpec) -> Iterator[SpecFinding]:
    routed = {network.tenant: name for name, network in spec.networks.items() if network.gateways}
    for name, tenant in spec.tenants.items():
        if tenant.l3vni is None and name in routed:
            message = f"tenant {name} has none, and network {routed[name]} has gateways"
            yield SpecFinding(("overlay", "tenants", name, "l3vni"), message, "give the tenant an l3vni")


def _subnets_are_disjoint(spec: OverlaySpec) -> Iterator[SpecFinding]:
    """Yield routed subnets that overlap in a VRF; networks that are only bridged may share subnets.

    Sorted by address, a subnet that overlaps any before it also overlaps the one with the highest last address.
    """
    placed: dict[tuple[str, int], list[tuple[Subnet, int, str]]] = {}
    for name, network in spec.networks.items():
        for number, subnet in enumerate(network.subnets):
            if network.tenant is not None and network.is_routed(subnet):
                placed.setdefault((network.tenant, subnet.version), []).append((subnet, number, name))
    for (tenant, _), subnets in placed.items():
        widest: tuple[Subnet, int, str] | None = None
        for each in sorted(subnets, key=_place):
            subnet, number, name = each
            if widest is not None and _last(widest[0]) >= int(subnet.network_address) and widest[2] != name:
                message = f"{subnet} overlaps {widest[0]} of network {widest[2]}, in the VRF of {tenant}"
                remedy = "choose disjoint subnets, or give the networks to two tenants"
                yield SpecFinding(("overlay", "networks", name, "subnets", number), message, remedy)
            elif widest is None or _last(subnet) > _last(widest[0]):
                widest = each


def _targets_used_once(spec: OverlaySpec) -> Iterator[SpecFinding]:
    """Yield route distinguishers and targets that are used twice: importers could not separate their routes."""
    for key, what in (("rd", "route distinguisher"), ("rt", "route target")):
        used: dict[object, str] = {}
        for section, named in (("networks", spec.networks), ("tenants", spec.tenants)):
            for name, each in named.items():
                value = getattr(each, key)
                if value is not None and value in used:
                    path = ("overlay", section, name, key)
                    yield SpecFinding(path, f"{what} {value} is {used[value]} already", f"choose another {what}")
                elif value is not None:
                    used[value] = f"{section}.{name}"


def _leaks_fit(spec: OverlaySpec) -> Iterator[SpecFinding]:
    for number, (one, other) in enumerate(spec.leaks):
        path = ("overlay", "leaks", number)
        unknown = next((name for name in (one, other) if name not in spec.tenants), None)
        if unknown is not None:
            remedy = suggest(unknown, spec.tenants, "add it to overlay.tenants")
            yield SpecFinding(path, f"there is no tenant {unknown}", remedy)
        elif one == other:
            yield SpecFinding(path, f"{one} reaches itself", "name two tenants")
        elif {one, other} in [set(pair) for pair in spec.leaks[:number]]:
            yield SpecFinding(path, f"{one} and {other} leak already", "name them once")
        else:
            yield from _leaked_apart(spec, path, one, other)


def _leaked_apart(spec: OverlaySpec, path: tuple[str | int, ...], one: str, other: str) -> Iterator[SpecFinding]:
    """Yield overlapping subnets of tenants that leak, and tenants without routing: leaked subnets share a table."""
    for name in (one, other):
        if spec.tenants[name].l3vni is None:
            yield SpecFinding(path, f"{name} is not routed", "give the tenant an l3vni")
    owned = {name: list(_routed_subnets(spec, name)) for name in (one, other)}
    for mine in owned[one]:
        for theirs in owned[other]:
            if mine.version == theirs.version and mine.overlaps(theirs):
                message = f"{mine} of {one} and {theirs} of {other} overlap"
                yield SpecFinding(path, message, "choose disjoint subnets for tenants that reach each other")


def _routed_subnets(spec: OverlaySpec, tenant: str) -> Iterator[Subnet]:
    for network in (each for each in spec.networks.values() if each.tenant == tenant):
        yield from filter(network.is_routed, network.subnets)


def _place(placed: tuple[Subnet, int, str]) -> tuple[int, int]:
    return int(placed[0].network_address), placed[0].prefixlen


def _last(subnet: Subnet) -> int:
    return int(subnet.broadcast_address)


def check_attachments(topology: Topology, spec: OverlaySpec) -> Iterator[SpecFinding]:
    """Yield the findings of every rule about attached hosts and the links between them."""
    untagged: dict[str, str] = {}
    yield from check_bonds(topology, spec)
    bonds = bonds_by_member(topology.overlay.bonds if topology.overlay is not None else ())
    for name, network in spec.networks.items():
        yield from _ends_are_hosts(topology, name, network, untagged, bonds)
    if topology.overlay is not None:
        yield from _hosts_tell_networks_apart(topology.overlay.networks)
        for built in topology.overlay.networks:
            yield from _subnets_have_room(built)
            yield from _mtu_fits(topology, built)
    yield from check_border(topology, spec)
    yield from check_plain(topology)
    yield from check_multicast(topology, spec)


def _ends_are_hosts(
    topology: Topology, name: str, network: NetworkSpec, untagged: dict[str, str], bonds: Bonds
) -> Iterator[SpecFinding]:
    seen: set[str] = set()
    for key, ends in (("untagged", network.untagged), ("tagged", network.tagged)):
        for number, text in enumerate(ends):
            path = ("overlay", "networks", name, key, number)
            found = end_of(topology, text, bonds)
            if isinstance(found, SpecFinding):
                yield found._replace(path=path)
                continue
            end = str(found)
            if end in seen:
                yield SpecFinding(path, f"{end} is in {name} already", "name it once")
            elif key == "untagged" and end in untagged:
                yield SpecFinding(path, f"{end} is untagged in {untagged[end]} already", "tag one of the two")
            seen.add(end)
            if key == "untagged":
                untagged.setdefault(end, name)


def _hosts_tell_networks_apart(networks: Sequence[Network]) -> Iterator[SpecFinding]:
    """Yield subnets that a host has in two networks: with one routing table it would only use the first."""
    homes: dict[str, list[Network]] = {}
    for network in networks:
        for host in dict.fromkeys(attachment.end.node for attachment in network.attachments):
            for other in homes.setdefault(host, []):
                for number, subnet in enumerate(network.subnets):
                    if any(subnet.version == theirs.version and subnet.overlaps(theirs) for theirs in other.subnets):
                        path = ("overlay", "networks", network.name, "subnets", number)
                        message = f"{subnet} is on {host} already: it is in network {other.name} too"
                        yield SpecFinding(path, message, "choose disjoint subnets, or take another host")
            homes[host].append(network)


def _subnets_have_room(network: Network) -> Iterator[SpecFinding]:
    for number, subnet in enumerate(network.subnets):
        free = subnet.num_addresses - 2 - (network.gateway_of(subnet) is not None)
        if free < len(network.attachments):
            path = ("overlay", "networks", network.name, "subnets", number)
            message = f"{subnet} has no room for {len(network.attachments)} hosts"
            yield SpecFinding(path, message, "choose a shorter prefix")


def _mtu_fits(topology: Topology, network: Network) -> Iterator[SpecFinding]:
    path = ("overlay", "networks", network.name)
    own = {attachment.end for attachment in network.attachments}
    bonds = topology.overlay.bonds if topology.overlay is not None else ()
    ends = own.union(member for bond in bonds if bond.end in own for member in bond.members)
    links = [link for link in topology.links if ends.intersection(link.ends)]
    if not links:
        return
    smallest, largest = min(links, key=_mtu), max(links, key=_mtu)
    if _mtu(smallest) != _mtu(largest):
        message = f"link {smallest} has an MTU of {smallest.mtu} bytes and {largest} of {largest.mtu}"
        yield SpecFinding(
            path, message, "give all hosts of a network the same mtu: packets are not fragmented within it"
        )
    between = [
        link for link in topology.links if all(topology.node(end.node).role is not Role.HOST for end in link.ends)
    ]
    narrowest = min(between, key=_mtu, default=None)
    overhead = 0 if topology.overlay is not None and topology.overlay.plain else VXLAN_OVERHEAD
    if narrowest is not None and largest.mtu + overhead > narrowest.mtu:
        needs, room = largest.mtu + overhead, narrowest.mtu - overhead
        inside = " in VXLAN" if overhead else ""
        message = f"{largest.mtu} bytes on {largest} are {needs}{inside}, and {narrowest} takes {narrowest.mtu}"
        yield SpecFinding(
            path, message, f"mtu: {room} or less for hosts, or {needs} or more between switches (fabric_mtu)"
        )


def _mtu(link: Link) -> int:
    return link.mtu
