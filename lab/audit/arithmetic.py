"""Differences from what must hold in any fabric, whatever its plan: addresses, next hops, sessions and thresholds."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from ipaddress import ip_interface, ip_network
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from lab.audit.audited import BFD_STARTING, BFD_UP, ESTABLISHED, MAIN, NeighbourAudit
from lab.audit.difference import ABSENT, PRESENCE, PRESENT, UNLIKE, Difference, unread_kinds
from lab.audit.placement import FEWEST
from lab.audit.route_widths import RULE, of_widths

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lab.audit.audited import (
        AddressAudit,
        FabricAudit,
        FrrLineAudit,
        InterfaceAudit,
        NodeAudit,
        PortAudit,
        RouteAudit,
    )
    from lab.audit.placement import FabricRoles
    from lab.model.topology import Endpoint

_MANUAL: Final = frozenset({"boot", "static"})
"""Protocols of manual routes (ip-route(8)). Others are those of the kernel and of daemons, like BIRD's and DHCP's."""
MAPPED: Final = "169.254.0.1"
"""FRR's gateway for next hops of the other family (RFC 8950)."""
_ZEROCONF: Final = ip_network("169.254.0.0/16")
"""The network that network managers have a manual route to on any port (RFC 3927 section 2.6.2)."""
_OWN_MTU: Final = re.compile(r'"mtu": (\d+)')
"""The MTU in the metrics of a route."""
_ROUTER_ID: Final = re.compile(
    r"^(?:.* / )?(?:((?:bgp|ospf|ospf6|ip) router-id|router-id) (?=(\S+)$)"
    r"|(net) \S+?\.(?=(\w{4}\.\w{4}\.\w{4})\.00$))"
)
"""A line of FRR's configuration with a router ID, or with a NET, which contains the system ID of IS-IS."""
_ROCE_DSCP: Final = 26
_CLASSES: Final = range(8)


def of_arithmetic(state: FabricAudit, placement: FabricRoles) -> list[Difference]:
    """Return the settings that contradict each other, or the other nodes: those whose kernel answered."""
    roce = any(host.rdma for host in placement.topology.hosts)
    found: list[Difference] = []
    every = state.nodes.values()
    state = replace(state, nodes={each.name: each for each in every if "address" not in unread_kinds(each)})
    for node in every:
        found += _of_links(node, state, placement)
        found += _of_sessions(node)
        found += _of_bfd(node, state, placement)
        found += _of_advertisements(node, state, placement)
        found += _of_gateways(node, state, placement)
        found += _of_route_mtus(node, placement)
        found += _of_sources(node, state, placement)
        found += _of_neighbours(node, state, placement)
        found += _of_mapped_gateways(node, state, placement)
        found += _of_unused_addresses(node, placement)
        for port in node.ports:
            found += of_port(node.name, port, roce=roce)
    return [
        *found, *_of_owners(state, placement), *of_overrides(state, placement), *of_widths(state, placement.topology),
        *_of_defaults(state, placement),
        *_of_router_ids(state, placement), *_of_macs(state, placement),
    ]  # fmt: skip


def _of_links(node: NodeAudit, state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield ports that are shut, or without carrier although the other end is not shut: a link is up."""
    for each in node.interfaces:
        peer = placement.peers.get((node.name, each.name))
        if peer is None or (each.up and each.carrier):
            continue
        there = state.nodes.get(peer.node)
        shut = there is not None and any(port.name == peer.interface and not port.up for port in there.interfaces)
        if not (each.up and shut):
            setting = "carrier" if each.up else "up"
            yield Difference.of(node.name, each, setting, "no", "yes", RULE)


def _of_sessions(node: NodeAudit) -> Iterator[Difference]:
    """Yield daemons and sessions that are down."""
    for daemon in node.daemons:
        if not daemon.running:
            yield Difference.of(node.name, daemon, "running", "no", "yes", RULE)
    for bgp in node.bgp:
        if bgp.state != ESTABLISHED:
            down = Difference.of(node.name, bgp, "state", bgp.state, ESTABLISHED, RULE)
            yield replace(down, interface=bgp.peer)


def _of_bfd(node: NodeAudit, state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield BFD sessions that are down; if the other end has no such session, that end and not this one."""
    for bfd in node.bfd:
        if bfd.status in {BFD_UP, BFD_STARTING}:
            continue
        peer = placement.peers.get((node.name, bfd.interface))
        there = state.nodes.get(peer.node) if peer is not None else None
        known = there is not None and not {"bfd session", "daemon"} & unread_kinds(there)
        if peer is None or there is None or not known or _has_bfd_with(there, peer.interface, node):
            yield Difference.of(node.name, bfd, "status", bfd.status, BFD_UP, RULE)
        else:
            yield Difference(
                node=there.name, kind="bfd session", object=f"bfd session {peer.interface}", field=PRESENCE,
                value=ABSENT, expected=PRESENT, against=RULE, interface=peer.interface,
            )  # fmt: skip


def _has_bfd_with(node: NodeAudit, interface: str, other: NodeAudit) -> bool:
    """Return whether a node has a BFD session with another one. Without a next hop FRR names no interface of it."""
    return any(each.interface == interface or each.peer in _addresses(other) for each in node.bfd)


def _of_advertisements(node: NodeAudit, state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield sessions that are up and bring no prefix, although the peer has some to advertise."""
    for bgp in node.bgp:
        peer = placement.peers.get((node.name, bgp.peer))
        there = state.nodes.get(peer.node) if peer is not None and not bgp.vrf else None
        if peer is None or there is None or bgp.state != ESTABLISHED:
            continue
        for family, mark in (("ipv4Unicast", "."), ("ipv6Unicast", ":")):
            if bgp.prefixes.get(family) == 0 and any(mark in each for each in _advertised(there, peer, placement)):
                silent = Difference.of(node.name, bgp, f"{family} prefixes", "0", f"those of {there.name}", RULE)
                yield replace(silent, interface=bgp.peer)


def _advertised(node: NodeAudit, port: Endpoint, placement: FabricRoles) -> Iterator[str]:
    """Yield the prefixes that a node has for the other end of a port: of its hosts, and learned by other ports.

    Routes learned from the other end's own AS are left out: it rejects its AS number in a path (RFC 4271 section
    9.1.2), and routes of the same AS are not passed on in it (section 9.2).
    """
    receiving = {each.remote_as for each in node.bgp if each.peer == port.interface and not each.vrf}
    looping = {each.peer for each in node.bgp if each.remote_as in receiving and not each.vrf}
    for each in node.addresses:
        peer = placement.peers.get((node.name, each.interface))
        if peer is not None and each.scope == "global" and not placement.topology.node(peer.node).role.is_switch:
            yield each.address
    for route in node.routes:
        others = any(not {port.interface, *looping} & {*hop.split()} for hop in route.next_hops)
        if route.table == MAIN and route.protocol == "bgp" and others:
            yield route.prefix


def _of_gateways(node: NodeAudit, state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield routes by a port whose gateway is no address of the other end."""
    for route in node.routes:
        for hop in route.next_hops:
            match hop.split():
                case ["via", gateway, "dev", device, *_] if (node.name, device) in placement.peers:
                    peer = placement.peers[node.name, device]
                    there = state.nodes.get(peer.node)
                    if there is None or (
                        gateway in {MAPPED, *_reachable(peer.interface, there, state)}
                        and not (_is_manual(route) and _is_of_another_port(gateway, peer, there, placement))
                    ):
                        continue
                    if _is_bridged(peer.interface, there) or not _lost_its_own(gateway, peer, there):
                        expected = _right_gateway(route, peer, there)
                        wrong = Difference.of(node.name, route, "gateway", gateway, expected, RULE)
                        yield replace(wrong, interface=device)


def _is_of_another_port(gateway: str, peer: Endpoint, there: NodeAudit, placement: FabricRoles) -> bool:
    """Return whether a gateway is an address of another cabled port of the other end, or of its loopback.

    A port of the same IP version has addresses of its own, and need not answer ARP requests for others (RFC 1027).
    """
    wanted = ip_interface(gateway)
    owners = {each.interface for each in there.addresses if ip_interface(each.address).ip == wanted.ip}
    own = [each for each in there.addresses if each.interface == peer.interface and each.scope == "global"]
    elsewhere = all(each == "lo" or (there.name, each) in placement.peers for each in owners - {peer.interface})
    numbered = any(ip_interface(each.address).version == wanted.version for each in own)
    bridged = _is_bridged(peer.interface, there)
    return bool(owners) and peer.interface not in owners and elsewhere and numbered and not bridged


def _lost_its_own(gateway: str, peer: Endpoint, there: NodeAudit) -> bool:
    """Return whether the other end has no address like a gateway at all: the fault is there, and not in the route."""
    wanted = ip_interface(gateway)
    found = [ip_interface(each.address) for each in there.addresses if each.interface == peer.interface]
    return not any((each.version, each.is_link_local) == (wanted.version, wanted.is_link_local) for each in found)


def _right_gateway(route: RouteAudit, peer: Endpoint, there: NodeAudit) -> str:
    """Return the only address of the other end's port of the route's family, if the route has one next hop."""
    version = ip_interface(route.prefix).version
    found = [
        each.address.partition("/")[0]
        for each in there.addresses
        if each.interface == peer.interface
        and each.scope == "global"
        and ip_interface(each.address).version == version
    ]
    if len(found) != 1 or len(route.next_hops) != 1:
        return f"an address of {there.name}"
    return f"{found[0]} of {there.name}, protocol {route.protocol}"


def _reachable(interface: str, node: NodeAudit, state: FabricAudit) -> set[str]:
    """Return the addresses behind a port: those of its node, or of all nodes if the port is bridged."""
    every = state.nodes.values() if _is_bridged(interface, node) else [node]
    return {each for one in every for each in _addresses(one)}


def _is_bridged(interface: str, node: NodeAudit) -> bool:
    return any(each.master for each in node.interfaces if each.name == interface)


def _addresses(node: NodeAudit) -> set[str]:
    return {each.address.partition("/")[0] for each in node.addresses}


def _of_route_mtus(node: NodeAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield routes by a port whose MTU is below that of the port (``mtu`` of ip-route(8))."""
    mtus = {each.name: each.mtu for each in node.interfaces if (node.name, each.name) in placement.peers}
    for route in node.routes:
        found = _OWN_MTU.search(route.options.get("metrics", ""))
        usual = min((mtus[word] for hop in route.next_hops for word in hop.split() if word in mtus), default=0)
        if found and int(found[1]) < usual:
            yield Difference.of(node.name, route, "mtu", found[1], str(usual), RULE)


def _of_sources(node: NodeAudit, state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield routes by a port that use a source address to which no other node has a route (``src`` of ip-route(8)).

    Answers to packets of such routes do not come back. A default route is none to the address.
    """
    for route in node.routes:
        source = route.options.get("prefsrc", "")
        ports = [word for hop in route.next_hops for word in hop.split() if (node.name, word) in placement.peers]
        if not source or route.protocol == "kernel" or not ports or ip_interface(source).is_link_local:
            continue
        own = [ip_interface(each.address) for each in node.addresses if each.interface in ports]
        if not any(each.ip == ip_interface(source).ip for each in own) and not _is_routed(source, node, state):
            same = [str(each.ip) for each in own if each.version == ip_interface(source).version]
            expected = same[0] if len(same) == 1 else "an address that others have a route to"
            yield Difference.of(node.name, route, "prefsrc", source, expected, RULE)


def _is_routed(address: str, owner: NodeAudit, state: FabricAudit) -> bool:
    """Return whether another node has a route to an address, which is no default route."""
    wanted = ip_interface(address)
    networks = (
        ip_network(route.prefix, strict=False)
        for node in state.nodes.values()
        if node.name != owner.name
        for route in node.routes
    )
    return any(each.version == wanted.version and each.prefixlen and wanted.ip in each for each in networks)


def _of_neighbours(node: NodeAudit, state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield neighbours on a port whose MAC no interface of the other end has, and addresses answered for."""
    for each in node.neighbours:
        if each.proxy and any(each.address in _addresses(other) for other in state.nodes.values()):
            yield Difference.of(node.name, each, PRESENCE, PRESENT, ABSENT, RULE)
        peer = placement.peers.get((node.name, each.interface))
        there = state.nodes.get(peer.node) if peer is not None else None
        known = each.address == MAPPED or (there is not None and each.address in _addresses(there))
        if each.mac and there is not None and known and each.mac not in {port.mac for port in there.interfaces}:
            expected = next((port.mac for port in there.interfaces if peer and port.name == peer.interface), "")
            yield Difference.of(node.name, each, "mac", each.mac, expected or ABSENT, RULE)


def _of_mapped_gateways(node: NodeAudit, state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield ports at which FRR's gateway of routes has no MAC: no node has that address to answer ARP requests."""
    hops = [hop.split() for route in node.routes for hop in route.next_hops]
    used = {each[3] for each in hops if each[:3] == ["via", MAPPED, "dev"] and not {"dead", "linkdown"} & {*each}}
    known = {each.interface for each in node.neighbours if each.address == MAPPED and each.mac}
    for interface in sorted(used - known):
        peer = placement.peers.get((node.name, interface))
        there = state.nodes.get(peer.node) if peer is not None else None
        ports = there.interfaces if there is not None and MAPPED not in _addresses(there) else ()
        mac = next((port.mac for port in ports if peer is not None and port.name == peer.interface), "")
        if mac:
            entry = NeighbourAudit(interface, MAPPED, "", permanent=True, state="")
            yield Difference.of(node.name, entry, PRESENCE, ABSENT, f"{PRESENT}: mac {mac}", RULE)


def _of_unused_addresses(node: NodeAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield addresses of ports that the kernel does not use: duplicates, and deprecated ones of IPv4 (ip-address(8)).

    IPv6 hosts have deprecated addresses whenever their network is renumbered (RFC 4862 section 5.5.4).
    """
    for each in node.addresses:
        unused = "dadfailed" in each.flags or ("deprecated" in each.flags and ":" not in each.address)
        if unused and (each.interface == "lo" or (node.name, each.interface) in placement.peers):
            yield Difference.of(node.name, each, "flags", ", ".join(each.flags), "none", RULE)


def _of_macs(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield MACs that cabled ports of several nodes have: a bridge between them moves the MAC to and fro.

    Most nodes of a tier have one by intent, like that of an anycast gateway (RFC 9135 section 4.1).
    """
    having: dict[str, list[tuple[str, InterfaceAudit]]] = defaultdict(list)
    for node in state.nodes.values():
        for each in node.interfaces:
            if each.mac and (node.name, each.name) in placement.peers:
                having[each.mac].append((node.name, each))
    for mac, ports in having.items():
        names = dict.fromkeys(name for name, _ in ports)
        for name, port in ports if len(names) > 1 and not _is_usual(names, state, placement) else ():
            others = ", ".join(other for other in names if other != name)
            yield Difference.of(name, port, "mac", mac, f"{UNLIKE}{others}", RULE)


def _is_usual(names: Collection[str], state: FabricAudit, placement: FabricRoles) -> bool:
    """Return whether some nodes are most nodes of one tier: what these have in common is intended."""
    tiers = Counter(placement.roles(name, "")[0] for name in state.nodes)
    found = {placement.roles(name, "")[0] for name in names}
    return len(found) == 1 and len(names) >= FEWEST and 2 * len(names) > tiers[found.pop()]


def _of_router_ids(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield router IDs that several nodes have in the same protocol and VRF.

    By RFC 2328 section 1.2, RFC 6286, and ISO 10589 section 7.1 for system IDs. VRFs of one name need not be
    connected: there most nodes of a tier have one by intent.
    """
    having: dict[tuple[str, str], list[tuple[str, FrrLineAudit]]] = defaultdict(list)
    for node in state.nodes.values():
        for each in node.frr:
            if found := _ROUTER_ID.search(each.line):
                started = each.line.split()
                vrf = next((name for kind, name in pairwise(started) if kind in {"vrf", "view"}), "")
                protocol, number = found[1] or found[3], found[2] or found[4]
                having[f"{protocol} {vrf}", number].append((node.name, each))
    for (protocol, _), lines in having.items():
        names = dict.fromkeys(name for name, _ in lines)
        intended = not protocol.endswith(" ") and _is_usual(names, state, placement)
        for name, each in lines if len(names) > 1 and not intended else ():
            start, _, value = each.line.rpartition(" ")
            others = ", ".join(other for other in names if other != name)
            yield Difference.of(name, replace(each, line=start), "value", value, f"{UNLIKE}{others}", RULE)


def _of_owners(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield addresses of several nodes. A gateway that several switches share is on an interface without a cable.

    Hosts in different VLANs may have the same address: tenants can use the same subnets. If only one of the owners
    has it in the network of its link, the others are wrong.
    """
    owners: dict[str, list[tuple[str, AddressAudit]]] = defaultdict(list)
    for node in state.nodes.values():
        for each in node.addresses:
            shared = each.interface != "lo" and (node.name, each.interface) not in placement.peers
            if each.scope == "global" and not (shared and placement.topology.node(node.name).role.is_switch):
                owners[each.address.partition("/")[0]].append((node.name, each))
    for found in (each for every in owners.values() for each in _of_one_vlan(every, state, placement)):
        names = dict.fromkeys(name for name, _ in found)
        if len(names) > 1:
            linked = [each for each in found if _is_in_a_link_s_network(*each, state, placement)]
            owner = linked[0][0] if len(linked) == 1 else "one node"
            for name, address in [each for each in found if each not in linked] if len(linked) == 1 else found:
                yield Difference.of(name, address, "owner", ", ".join(names), owner, RULE)


def _of_one_vlan(
    found: list[tuple[str, AddressAudit]], state: FabricAudit, placement: FabricRoles
) -> Iterator[list[tuple[str, AddressAudit]]]:
    """Yield the owners in each VLAN, with those that are in none."""
    if len(found) < 2:
        return
    vlans = [_vlan_of(name, each.interface, state, placement) for name, each in found]
    for vlan in dict.fromkeys(filter(None, vlans)) or [0]:
        yield [each for each, its in zip(found, vlans, strict=True) if its in {vlan, 0}]


def _vlan_of(node: str, interface: str, state: FabricAudit, placement: FabricRoles) -> int:
    """Return the VLAN of a host's interface: of its name, like ``eth1.30``, or of the switch port; 0 for none."""
    port, _, tag = interface.partition(".")
    peer = placement.peers.get((node, port))
    there = state.nodes.get(peer.node) if peer is not None else None
    if peer is None or there is None:
        return 0
    if tag.isdigit():
        return int(tag)
    return next((each.vlan for each in there.vlans if each.interface == peer.interface and "PVID" in each.flags), 0)


def _is_in_a_link_s_network(name: str, address: AddressAudit, state: FabricAudit, placement: FabricRoles) -> bool:
    """Return whether the other end of an address's link has an address in the same network."""
    peer = placement.peers.get((name, address.interface))
    there = state.nodes.get(peer.node) if peer is not None else None
    if peer is None or there is None:
        return False
    network = ip_interface(address.address).network
    return any(
        ip_interface(each.address).network == network
        for each in there.addresses
        if each.interface == peer.interface and each.scope == "global"
    )


def of_overrides(state: FabricAudit, placement: FabricRoles) -> list[Difference]:
    """Return manual routes to a part of the fabric that most nodes of the same tier lack.

    A route to fewer addresses takes precedence over those that are learned (RFC 1812 section 5.2.4.3), as a blackhole
    or over one path of several. A default route does if its node has that of most nodes, too, with a larger metric in
    the same table.
    """
    targets = {
        ip_interface(each.address).ip
        for node in state.nodes.values()
        for each in node.addresses
        if each.scope in {"global", "link"}
    }
    role_of = {name: placement.roles(name, "")[0] for name in state.nodes}
    siblings = Counter(role_of.values())
    having: Counter[tuple[str, str]] = Counter()
    for name, node in state.nodes.items():
        having.update({(role_of[name], _target(route)) for route in node.routes if _is_manual(route)})
    found: list[Difference] = []
    for name, node in state.nodes.items():
        role = role_of[name]
        most = max(FEWEST, siblings[role])
        own = {ip_interface(each.address).ip for each in node.addresses}
        usual = [each for each in node.routes if _is_manual(each) and 2 * having[role, _target(each)] > most]
        for route in filter(_is_manual, node.routes):
            is_default = route.prefix.endswith("/0")
            first = not is_default or any(_precedes(route, each) for each in usual)
            if 2 * having[role, _target(route)] >= most or not first:
                continue
            network = ip_network(route.prefix, strict=False)
            if is_default or (network != _ZEROCONF and any(each in network and each not in own for each in targets)):
                value = f"{PRESENT}: {', '.join(route.next_hops) or route.type}"
                found.append(Difference.of(name, route, PRESENCE, value, ABSENT, RULE))
    return found


def _of_defaults(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield manual default routes by another port than those of most nodes of the same tier, and missing ones.

    Those of one table and metric compare: hosts with several NICs have a table for each. Nodes without an address of
    the IP version at the port, or in the loopback, need no such route: their NICs are others, like those of a bond.
    """
    usual: dict[tuple[str, str], dict[str, RouteAudit]] = defaultdict(dict)
    members: dict[str, list[NodeAudit]] = defaultdict(list)
    for name, node in state.nodes.items():
        role = placement.roles(name, "")[0]
        members[role].append(node)
        for route in node.routes:
            if _is_manual(route) and route.prefix.endswith("/0") and route.type == "unicast":
                usual[role, route.identity][name] = route
    for (role, _), routes in usual.items():
        ports, most = Counter(map(_ports_of, routes.values())).most_common(1)[0]
        if most < FEWEST or 2 * most <= len(members[role]):
            continue
        expected = f"dev {', dev '.join(ports)}"
        known = next(iter(routes.values()))
        for node in (each for each in members[role] if _has_address(each, ports, known.prefix)):
            mine = routes.get(node.name)
            same = [each for each in node.routes if (each.prefix, each.table) == (known.prefix, known.table)]
            other = mine or next((each for each in same if each.identity == known.identity), None)
            if other is not None and (other.type != known.type or _ports_of(other) != ports):
                value = ", ".join(other.next_hops) if other.type == known.type else other.type
                yield Difference.of(node.name, other, "next hops", value, expected, RULE)
            elif other is None and not any(each.type == known.type for each in same):
                absent = f"{PRESENT}: protocol {known.protocol}, {expected}"
                yield Difference.of(node.name, known, PRESENCE, ABSENT, absent, RULE)


def _has_address(node: NodeAudit, ports: Sequence[str], prefix: str) -> bool:
    """Return whether a node has an address of the version of ``prefix`` at one of some ports, or of its loopback."""
    found = [each for each in node.addresses if each.scope == "global" and each.interface in {"lo", *ports}]
    return any((":" in each.address) == (":" in prefix) for each in found)


def _ports_of(route: RouteAudit) -> tuple[str, ...]:
    words = [hop.split() for hop in route.next_hops]
    return tuple(each[each.index("dev") + 1] for each in words if "dev" in each[:-1])


def _target(route: RouteAudit) -> str:
    """Return what siblings have in common of a route: its prefix, for default routes with table and metric."""
    return route.identity if route.prefix.endswith("/0") else route.prefix


def _precedes(route: RouteAudit, other: RouteAudit) -> bool:
    """Return whether a route is used in place of another one with the same prefix and table.

    One for packets of a TOS comes first, whatever its metric.
    """
    same = (route.prefix, route.table) == (other.prefix, other.table)
    if route.tos != other.tos:
        return same and not other.tos
    return same and int(route.metric or 0) < int(other.metric or 0)


def _is_manual(route: RouteAudit) -> bool:
    """Return whether an administrator made a route, of whatever type: local ones take packets for others, too."""
    return route.protocol in _MANUAL


def of_port(node: str, port: PortAudit, *, roce: bool) -> Iterator[Difference]:
    """Yield thresholds of an emulated port in the wrong order, and a class of RoCE that is not lossless."""

    def number(name: str) -> int:
        text = port.settings_in_full.get(name, "")
        return int(text) if text.isdigit() else 0

    def differs(name: str, value: object, expected: str) -> Difference:
        return Difference.of(node, port, name, str(value), expected, RULE)

    if not port.in_kernel:
        yield differs("in kernel", "no", "yes")
    lossless = number("pfc.priorities")
    for priority in (each for each in _CLASSES if lossless >> each & 1):
        group = f"groups.{number(f'priority_to_group.{priority}')}"
        queue = f"queues.{number(f'priority_to_queue.{priority}')}.ecn"
        xoff, xon = number(f"{group}.xoff"), number(f"{group}.xon")
        if xoff and xon >= xoff:
            yield differs(f"{group}.xon", xon, f"below XOFF, {xoff}")
        kmax = number(f"{queue}.kmax")
        if xoff and port.settings_in_full.get(f"{queue}.enabled") == "yes" and kmax > xoff:
            yield differs(f"{queue}.kmax", kmax, f"at most XOFF, {xoff}")
    if roce and lossless and port.settings_in_full.get("trust") == "dscp":
        priority = number(f"dscp_to_priority.{_ROCE_DSCP}")
        if not lossless >> priority & 1:
            yield differs(f"dscp_to_priority.{_ROCE_DSCP}", priority, "a lossless priority")
