"""Rules about routes: gateways, MTUs, source addresses, manual routes before learned ones, and default routes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from ipaddress import collapse_addresses, ip_interface, ip_network
from typing import TYPE_CHECKING, Any, Final

from lab.audit.difference import ABSENT, PRESENCE, PRESENT, Difference
from lab.audit.objects.kernel_objects import DROPPING, MAIN, RuleAudit
from lab.audit.objects.routing_objects import MAPPED
from lab.audit.placement import FEWEST, is_of_most
from lab.audit.rules.route_widths import RULE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface

    from lab.audit.audited import FabricAudit, NodeAudit
    from lab.audit.objects.kernel_objects import InterfaceAudit, RouteAudit
    from lab.audit.placement import FabricRoles
    from lab.model.topology import Endpoint

_MANUAL: Final = frozenset({"boot", "static"})
"""Protocols of manual routes (ip-route(8)). Others are those of the kernel and of daemons, like BIRD's and DHCP's."""
_ZEROCONF: Final = ip_network("169.254.0.0/16")
"""The network that network managers have a manual route to on any port (RFC 3927 section 2.6.2)."""
_OWN_MTU: Final = re.compile(r'"mtu": (\d+)')
"""The MTU in the metrics of a route."""
_OWN_HOP_LIMIT: Final = re.compile(r'"hoplimit": (\d+)')
_OF_VRFS: Final = "l3mdev"
"""The selector of the rule that looks up the tables of VRFs (ip-rule(8))."""
_VRF_PRIORITY: Final = 1000
"""FIB_RULE_PREF of that rule in the kernel's ``drivers/net/vrf.c``."""
NO_LIMIT: Final = "none"
"""The hop limit of a route that has none of its own."""


def of_gateways(
    node: NodeAudit, state: FabricAudit, placement: FabricRoles, proxied: Collection[str]
) -> Iterator[Difference]:
    """Yield routes by a port whose gateway is no address of the other end. ``proxied`` are those of its tier."""
    for route in node.routes:
        for hop in route.next_hops:
            match hop.split():
                case ["via", gateway, "dev", device, *_] if (node.name, device) in placement.peers:
                    peer = placement.peers[node.name, device]
                    there = state.nodes.get(peer.node)
                    if there is None or (
                        gateway in {MAPPED, *proxied, *_reachable(peer.interface, there, state)}
                        and not (_is_manual(route) and _is_of_another_port(gateway, peer, there, placement))
                    ):
                        continue
                    if not _lost_its_own(gateway, peer, there):
                        expected = _right_gateway(route, peer, there)
                        wrong = Difference.of(node.name, route, "gateway", gateway, expected, RULE)
                        yield replace(wrong, interface=device)


def proxied_gateways(state: FabricAudit, placement: FabricRoles) -> dict[str, frozenset[str]]:
    """Return for each node the gateways that no node has, and that most nodes of its tier use.

    They are intended: a switch answers ARP requests for them in place of an owner (RFC 1027), or entries of the
    neighbour table have their MAC. If most entries are without one, nobody answers: the gateway has lost its owner.
    """
    answered: Counter[str] = Counter()
    for node in state.nodes.values():
        for entry in node.neighbours:
            if not entry.proxy:
                answered[entry.address] += 1 if entry.mac else -1
    owned = {address for node in state.nodes.values() for address in node.bare_addresses()}
    tiers: dict[str, list[set[str]]] = defaultdict(list)
    for name, node in state.nodes.items():
        tiers[placement.roles(name, "")[0]].append(_manual_gateways(node) - owned)
    usual = {
        role: frozenset(each for each, having in Counter(each for one in every for each in one).items()
                        if is_of_most(having, len(every)) and answered[each] >= 0)
        for role, every in tiers.items()
    }  # fmt: skip
    return {name: usual[placement.roles(name, "")[0]] for name in state.nodes}


def _manual_gateways(node: NodeAudit) -> set[str]:
    hops = (hop.split() for route in node.routes if _is_manual(route) for hop in route.next_hops)
    return {words[1] for words in hops if words[:1] == ["via"] and len(words) > 1}


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
    own = {peer.interface}
    if _is_bridged(peer.interface, there):
        own = {each.name for each in gateways_of(there) if each.options["id"] in _tags(peer.interface, there)}
        if not own:
            return False
    found = [ip_interface(each.address) for each in there.addresses if each.interface in own]
    return not any((each.version, each.is_link_local) == (wanted.version, wanted.is_link_local) for each in found)


def gateways_of(node: NodeAudit) -> list[InterfaceAudit]:
    """Return the interfaces of a switch's VLANs, which are gateways if they have addresses."""
    return [each for each in node.interfaces if each.kind == "vlan" and each.options.get("id", "").isdigit()]


def _tags(interface: str, node: NodeAudit) -> set[str]:
    return {str(each.vlan) for each in node.vlans if each.interface == interface}


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
    return {each for one in every for each in one.bare_addresses()}


def _is_bridged(interface: str, node: NodeAudit) -> bool:
    return any(each.master for each in node.interfaces if each.name == interface)


def of_route_mtus(node: NodeAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield routes by a port whose MTU is below that of the port (``mtu`` of ip-route(8))."""
    mtus = {each.name: each.mtu for each in node.interfaces if (node.name, each.name) in placement.peers}
    for route in node.routes:
        found = _OWN_MTU.search(route.options.get("metrics", ""))
        usual = min((mtus[word] for hop in route.next_hops for word in hop.split() if word in mtus), default=0)
        if found and int(found[1]) < usual:
            yield Difference.of(node.name, route, "mtu", found[1], str(usual), RULE)


def of_hop_limits(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield routes with a hop limit that no route of the same origin has at most nodes of their tier (ip-route(8)).

    Packets of a node end on their way if it is too small. Other metrics, apart from the MTU, are those of TCP.
    """
    groups: dict[tuple[str, str], list[tuple[str, RouteAudit]]] = defaultdict(list)
    for name, node in state.nodes.items():
        for route in node.routes:
            if route.type == "unicast" and any((name, port) in placement.peers for port in ports_of(route)):
                groups[placement.roles(name, "")[0], route.protocol].append((name, route))
    for group in groups.values():
        limits = Counter(limit for _, limit in dict.fromkeys((name, _hop_limit(route)) for name, route in group))
        nodes = len({name for name, _ in group})
        usual = [limit for limit, number in limits.most_common() if is_of_most(number, nodes)]
        for name, route in group if usual and len(limits) > len(usual) else ():
            if (limit := _hop_limit(route)) not in usual:
                yield Difference.of(name, route, "hop limit", limit, usual[0], RULE)


def _hop_limit(route: RouteAudit) -> str:
    found = _OWN_HOP_LIMIT.search(route.options.get("metrics", ""))
    return found[1] if found else NO_LIMIT


def of_sources(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield routes by a port that use a source address to which no other node has a route (``src`` of ip-route(8)).

    Answers to packets of such routes do not come back. A default route is none to the address. An address of the port
    is right if the other end is in its network.
    """
    having: dict[str, set[str]] = defaultdict(set)
    for name, node in state.nodes.items():
        for route in node.routes:
            having[route.prefix].add(name)
    networks = [(ip_network(prefix, strict=False), names) for prefix, names in having.items()]

    @cache
    def is_routed(address: IPv4Address | IPv6Address, owner: str) -> bool:
        return any(network.prefixlen and address in network and names - {owner} for network, names in networks)

    for node in state.nodes.values():
        for route in node.routes:
            said = route.options.get("prefsrc", "")
            ports = [word for hop in route.next_hops for word in hop.split() if (node.name, word) in placement.peers]
            if not said or route.protocol == "kernel" or not ports or (source := ip_interface(said)).is_link_local:
                continue
            own = [ip_interface(each.address) for each in node.addresses if each.interface in ports]
            own = [each for each in own if _is_on_link(each, node, ports, placement, state)]
            if not any(each.ip == source.ip for each in own) and not is_routed(source.ip, node.name):
                same = [str(each.ip) for each in own if each.version == source.version]
                expected = same[0] if len(same) == 1 else "an address that others have a route to"
                yield Difference.of(node.name, route, "prefsrc", said, expected, RULE)


def _is_on_link(
    address: IPv4Interface | IPv6Interface,
    node: NodeAudit,
    ports: Sequence[str],
    placement: FabricRoles,
    state: FabricAudit,
) -> bool:
    """Return whether the other end of one of some ports is in an address's network, or has no such network at all.

    Ports of bridges have none.
    """
    ends = [placement.peers[node.name, port] for port in ports]
    there = [
        ip_interface(each.address).network
        for end in ends if end.node in state.nodes
        for each in state.nodes[end.node].addresses if each.interface == end.interface and each.scope == "global"
    ]  # fmt: skip
    same = [each for each in there if each.version == address.version]
    return not same or any(address.ip in each for each in same)


def of_overrides(state: FabricAudit, placement: FabricRoles) -> list[Difference]:
    """Return manual routes to a part of the fabric that most nodes of the same tier lack.

    A route to fewer addresses takes precedence over those that are learned (RFC 1812 section 5.2.4.3), as a blackhole
    or over one path of several. A default route does if its node has that of most nodes, too, with a larger metric in
    the same table, and with another next hop. Routes that drop packets are returned even if they lead to no node.
    Routes that together are the default route of siblings are not, nor are those that drop packets to an aggregate of
    networks to which the node has longer routes: it has to discard packets to other addresses in the aggregate (RFC
    4632 section 5.1). A default route of the main table that drops packets is returned, unless the node has another
    one with a smaller metric.
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
    defaults: dict[str, dict[object, RouteAudit]] = defaultdict(dict)
    for name, node in state.nodes.items():
        for route in node.routes:
            if route.prefix.endswith("/0") and 2 * having[role_of[name], _target(route)] > siblings[role_of[name]]:
                defaults[role_of[name]].setdefault((route.prefix, route.table, route.type, ports_of(route)), route)
    found: list[Difference] = []
    for name, node in state.nodes.items():
        role = role_of[name]
        most = max(FEWEST, siblings[role])
        own = {ip_interface(each.address).ip for each in node.addresses}
        usual = [each for each in node.routes if _is_manual(each) and 2 * having[role, _target(each)] > most]
        for route in filter(_is_manual, node.routes):
            is_default = route.prefix.endswith("/0")
            overridden = [each for each in usual if _precedes(route, each) and not _is_alike(route, each)]
            first = not is_default or bool(overridden) or _is_first_drop(route, node)
            if 2 * having[role, _target(route)] >= most or not first:
                continue
            network = ip_network(route.prefix, strict=False)
            inside = [each for each in targets if each in network and each not in own]
            if inside and any(_is_part_of(route, each, node) for each in defaults[role].values()):
                continue
            if is_default or _takes_precedence(route, inside, node):
                dropping = route.type in DROPPING  # those of IPv6 have a next hop: the loopback
                value = f"{PRESENT}: {route.type if dropping else ', '.join(route.next_hops) or route.type}"
                found.append(Difference.of(name, route, PRESENCE, value, ABSENT, RULE))
    return found


def _is_first_drop(route: RouteAudit, node: NodeAudit) -> bool:
    """Return whether a default route of the main table drops packets, and no other one precedes it."""
    same = [each for each in node.routes if each.prefix == route.prefix]
    return route.type in DROPPING and route.table == MAIN and not any(_precedes(each, route) for each in same)


def _takes_precedence(route: RouteAudit, targets: Collection[IPv4Address | IPv6Address], node: NodeAudit) -> bool:
    """Return whether a route is used for some addresses of others, or drops packets to no node."""
    network = ip_network(route.prefix, strict=False)
    if network == _ZEROCONF:
        return False
    if route.type not in DROPPING:
        return bool(targets)
    routed = [ip_network(each.prefix, strict=False) for each in node.routes if each.table == route.table]
    attached = [ip_interface(each.address).network for each in node.addresses]
    longer = [each for each in (*routed, *attached) if each.prefixlen > network.prefixlen]
    return not targets or not all(any(target in each for each in longer) for target in targets)


def of_defaults(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
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
        ports, most = Counter(map(ports_of, routes.values())).most_common(1)[0]
        if most < FEWEST or 2 * most <= len(members[role]):
            continue
        expected = f"dev {', dev '.join(ports)}"
        known = next(iter(routes.values()))
        for node in (each for each in members[role] if _has_address(each, ports, known.prefix)):
            mine = routes.get(node.name)
            same = [each for each in node.routes if (each.prefix, each.table) == (known.prefix, known.table)]
            other = mine or next((each for each in same if each.identity == known.identity), None)
            if other is not None and (other.type != known.type or ports_of(other) != ports):
                value = ", ".join(other.next_hops) if other.type == known.type else other.type
                yield Difference.of(node.name, other, "next hops", value, expected, RULE)
            elif (
                other is None
                and not any(each.type == known.type for each in same)
                and not _has_like(node, known, ports)
            ):
                hop = _next_hop(node, ports, known, placement, state)
                wanted = f"type unicast, protocol {known.protocol}, next hops {hop}"
                absent = f"{PRESENT}: {wanted if hop else f'protocol {known.protocol}, {expected}'}"
                yield Difference.of(node.name, known, PRESENCE, ABSENT, absent, RULE)


def _next_hop(
    node: NodeAudit, ports: Sequence[str], default: RouteAudit, placement: FabricRoles, state: FabricAudit
) -> str:
    """Return the next hop of a default route like another node's by one port; "" if it is not known.

    Its gateway is the only address of the other end with that IP version.
    """
    peer = placement.peers.get((node.name, ports[0])) if len(ports) == 1 else None
    there = state.nodes.get(peer.node) if peer is not None else None
    if peer is None or there is None:
        return ""
    found = [
        each.address.partition("/")[0]
        for each in there.addresses
        if each.interface == peer.interface and each.scope == "global" and _is_like(each.address, default.prefix)
    ]
    return f"via {found[0]} dev {ports[0]}" if len(found) == 1 else ""


def _is_like(address: str, prefix: str) -> bool:
    return (":" in address) == (":" in prefix)


def _is_part_of(route: RouteAudit, default: RouteAudit, node: NodeAudit) -> bool:
    """Return whether a route and others of its node are together a default route, by the same ports in one table.

    Like 0.0.0.0/1 and 128.0.0.0/1, by which a VPN takes precedence over a default route without removing it.
    """
    parts: list[Any] = [
        ip_network(each.prefix, strict=False)
        for each in node.routes
        if each.type == default.type and each.table == default.table and ports_of(each) == ports_of(default)
        and (":" in each.prefix) == (":" in default.prefix) and _is_manual(each) and not each.prefix.endswith("/0")
    ]  # fmt: skip
    covered = ip_network(default.prefix) in collapse_addresses(parts)
    return covered and ip_network(route.prefix, strict=False) in parts


def _has_like(node: NodeAudit, default: RouteAudit, ports: tuple[str, ...]) -> bool:
    """Return whether a node has routes like a default route by some ports: to all addresses, or in another table.

    That is one that a rule looks up for packets of the node, or of the VRF of the ports.
    """
    if any(_is_part_of(each, default, node) for each in node.routes if ports_of(each) == ports):
        return True
    looked_up = {
        each.action.removeprefix("lookup ")
        for each in node.rules
        if each.family == ("inet6" if ":" in default.prefix else "inet")
        and each.action.startswith("lookup ") and _is_of_own_packets(each.selector, node, ports)
    }  # fmt: skip
    masters = {each.master for each in node.interfaces if each.name in ports and each.master}
    in_vrf = any(each.kind == "vrf" and each.name in masters for each in node.interfaces)
    return any(
        route.prefix == default.prefix and route.type == default.type and ports_of(route) == ports
        for route in node.routes
        if route.table in looked_up or (in_vrf and route.table != default.table)
    )


def _is_of_own_packets(selector: str, node: NodeAudit, ports: Sequence[str]) -> bool:
    """Return whether a policy rule is for all packets of a node, those from its addresses, or those by some ports.

    Other rules are for packets with a mark, of one service, to some addresses, or of other nodes.
    """
    words = selector.split()
    if words[:1] == ["not"]:  # as of a VPN, whose own packets have a mark
        return True
    said = dict(zip(words[::2], words[1::2], strict=False))
    if not said.keys() <= {"from", "iif", "oif"} or said.get("iif", "lo") != "lo":
        return False
    if "oif" in said and said["oif"] not in ports:
        return False
    source = ip_network(said.get("from", "::/0"), strict=False)
    return "from" not in said or any(ip_interface(each.address).ip in source for each in node.addresses)


def _has_address(node: NodeAudit, ports: Sequence[str], prefix: str) -> bool:
    """Return whether a node has an address of the version of ``prefix`` at one of some ports, or of its loopback."""
    found = [each for each in node.addresses if each.scope == "global" and each.interface in {"lo", *ports}]
    return any((":" in each.address) == (":" in prefix) for each in found)


def ports_of(route: RouteAudit) -> tuple[str, ...]:
    """Return the interfaces of a route's next hops."""
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


def _is_alike(route: RouteAudit, other: RouteAudit) -> bool:
    """Return whether two routes do the same with their packets."""
    return (route.type, route.next_hops, route.options) == (other.type, other.next_hops, other.options)


def _is_manual(route: RouteAudit) -> bool:
    """Return whether an administrator made a route, of whatever type: local ones take packets for others, too."""
    return route.protocol in _MANUAL


def of_vrf_rules(node: NodeAudit) -> Iterator[Difference]:
    """Yield the rule that looks up the tables of VRFs, for a node with VRFs that lacks it: no packet is routed there.

    The kernel adds it for both IP versions with the first VRF.
    """
    if not any(each.kind == "vrf" for each in node.interfaces):
        return
    for family in ("inet", "inet6"):
        mine = [each for each in node.rules if each.family == family]
        if mine and not any(each.selector == _OF_VRFS for each in mine):
            lost = RuleAudit(family=family, priority=_VRF_PRIORITY, selector=_OF_VRFS, action="")
            yield Difference.of(node.name, lost, PRESENCE, ABSENT, PRESENT, RULE)
