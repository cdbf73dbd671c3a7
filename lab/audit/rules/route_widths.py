"""Learned routes against the paths that the topology has: next hops, weights, missing prefixes, unused switches."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from ipaddress import ip_interface, ip_network
from typing import TYPE_CHECKING, Final

from lab.audit.difference import ABSENT, PRESENCE, PRESENT, Difference, unread_kinds
from lab.audit.objects.kernel_objects import MAIN
from lab.audit.placement import FEWEST, is_of_most
from lab.model.topology import Role
from lab.routing.paths.distance import distances, switch_links

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lab.audit.audited import FabricAudit, NodeAudit
    from lab.audit.objects.kernel_objects import RouteAudit
    from lab.model.topology import Topology

RULE: Final = "rule"
"""``Difference.against`` for what must hold."""
ADVERTISED: Final = "advertised"
"""The setting of a route that other switches should have learned."""
ADVERTISED_BY: Final = "yes, by "
"""The beginning of an expected value, before the line of FRR that advertises a network."""
_ASN: Final = re.compile(r"(?<=^router bgp )\d+")
LEARNED: Final = frozenset({"bgp", "ospf", "isis"})
"""Protocols of routes that a daemon learns (ip-route(8))."""
_WEIGHTS: Final = "weights"
_ROUNDING: Final = 20
"""Weights may differ by one part of so many from the ratio of rates."""


def of_widths(state: FabricAudit, topology: Topology) -> list[Difference]:
    """Return learned routes with another number of next hops than most routes over as many equal paths, or missing.

    Routes compare if their switches have the same tier, distance from the prefix's switch, and links towards it.
    """
    owner_of = _owner_of(state.nodes, topology)
    distance = {name: distances(topology, name) for name in set(owner_of.values())}
    groups: dict[tuple[str, int, int, bool], list[tuple[str, RouteAudit]]] = defaultdict(list)
    having: dict[str, set[str]] = defaultdict(set)
    for node in state.nodes.values():
        if not topology.node(node.name).role.is_switch or any(each.part == "kernel" for each in node.unread):
            continue
        for route in node.routes:
            owner = owner_of.get(route.prefix)
            if route.table != MAIN or owner is None or route.tos:
                continue
            having[route.prefix].add(node.name)
            if owner != node.name and (route.protocol in LEARNED or not route.next_hops):
                away = distance[owner].get(node.name, 0)
                nearer = sum(distance[owner].get(peer) == away - 1 for _, peer in switch_links(topology, node.name))
                groups[topology.node(node.name).role, away, nearer, ":" in route.prefix].append((node.name, route))
    found = [each for (_, _, paths, _), group in groups.items() for each in _of_width(group, paths, topology)]
    return [
        *found, *_of_missing(having, owner_of, state, topology), *_of_unadvertised(having, owner_of, state, topology),
    ]  # fmt: skip


def _owner_of(nodes: Mapping[str, NodeAudit], topology: Topology) -> dict[str, str]:
    """Return the only switch with an address in each prefix, except for link-local ones."""
    owners: dict[str, set[str]] = defaultdict(set)
    for node in nodes.values():
        if topology.node(node.name).role.is_switch:
            for each in node.addresses:
                if each.scope == "global":
                    owners[str(ip_interface(each.address).network)].add(node.name)
    return {prefix: next(iter(names)) for prefix, names in owners.items() if len(names) == 1}


def _of_width(group: list[tuple[str, RouteAudit]], paths: int, topology: Topology) -> Iterator[Difference]:
    """Yield the routes with another number of next hops than most, or than half of them that have all ``paths``."""
    counts = Counter(len(route.next_hops) for _, route in group)
    usual, number = max(counts.items(), key=lambda each: (each[1], each[0]))
    if len(group) < FEWEST or 2 * number < len(group) or (2 * number == len(group) and usual != paths):
        return
    alike = Counter(_weights(route) for _, route in group if len(route.next_hops) == usual)
    weights, most = alike.most_common(1)[0]
    by_prefix = {prefix: _usual_weights(routes) for prefix, routes in _by_prefix(group).items()}
    for node, route in group:
        if len(route.next_hops) != usual:
            value = ", ".join(route.next_hops) or route.type
            yield Difference.of(node, route, "next hops", value, f"{usual} next hops", RULE)
        elif (
            2 * most > len(group)
            and (mine := _weights(route)) not in {weights, by_prefix[route.prefix]}
            and not _are_of_rates(node, route, topology)
        ):
            yield Difference.of(node, route, _WEIGHTS, _shares(mine), _shares(weights), RULE)


def _are_of_rates(node: str, route: RouteAudit, topology: Topology) -> bool:
    """Return whether the weights of a route are in the ratio of the rates of its links, which are not all equal.

    Daemons round weights: those of bandwidth communities of BGP are percentages in FRR.
    """
    rates = {link.end_at(node).interface: link.rate for link in topology.links_of(node)}
    words = [hop.split() for hop in route.next_hops]
    found = [(rates.get(each[each.index("dev") + 1], 0), _weight(each)) for each in words if "dev" in each[:-1]]
    products = [(rate * other, one * weight) for rate, weight in found for one, other in found]
    alike = all(abs(product - other) * _ROUNDING <= max(product, other) for product, other in products)
    return len({rate for rate, _ in found}) > 1 and alike


def _by_prefix(group: Iterable[tuple[str, RouteAudit]]) -> dict[str, list[RouteAudit]]:
    found: dict[str, list[RouteAudit]] = defaultdict(list)
    for _, route in group:
        found[route.prefix].append(route)
    return found


def _usual_weights(routes: Sequence[RouteAudit]) -> tuple[int, ...] | None:
    """Return the weights of most routes of several switches to one network; None if they differ.

    They are intended, for example because the links to its switch have different rates.
    """
    weights, count = Counter(map(_weights, routes)).most_common(1)[0]
    return weights if is_of_most(count, len(routes)) else None


def _shares(weights: tuple[int, ...]) -> str:
    return " : ".join(map(str, weights))


def _weights(route: RouteAudit) -> tuple[int, ...]:
    """Return the weights of a route's next hops in ascending order, by which it shares packets between them."""
    return tuple(sorted(_weight(hop.split()) for hop in route.next_hops))


def _weight(words: Sequence[str]) -> int:
    """Return the weight of a next hop from its words, which have none if it is 1."""
    return int(words[words.index("weight") + 1]) if "weight" in words[:-1] else 1


def _of_missing(
    having: Mapping[str, set[str]], owner_of: Mapping[str, str], state: FabricAudit, topology: Topology
) -> Iterator[Difference]:
    """Yield prefixes of leaves that most other switches of a tier have, and one lacks, or that only one switch lacks.

    That one has most prefixes of the same leaf: else it may have a default route. Those of spines do not reach spines
    with the same AS number (RFC 4271 section 9.1.2).
    """
    tiers: dict[str, list[str]] = defaultdict(list)
    for node in topology.switches:
        if node.name in state.nodes and not any(each.part == "kernel" for each in state.nodes[node.name].unread):
            tiers[node.role].append(node.name)
    leaves = {node.name for node in topology.having(Role.LEAF)}
    switches = {name for members in tiers.values() for name in members}
    for prefix, names in ((prefix, names) for prefix, names in having.items() if owner_of[prefix] in leaves):
        for members in tiers.values():
            others = [name for name in members if name != owner_of[prefix]]
            lacking = [name for name in others if name not in names]
            most = len(others) >= FEWEST and 2 * len(lacking) < len(others)
            only = len(lacking) == 1 and len(switches - names - {owner_of[prefix]}) == 1
            if most or (only and _has_most(lacking[0], prefix, having, owner_of)):
                for name in lacking:
                    yield Difference(
                        node=name,
                        kind="route",
                        object=f"route {prefix}",
                        field=PRESENCE,
                        value=ABSENT,
                        expected=PRESENT,
                        against=RULE,
                    )


def _has_most(name: str, prefix: str, having: Mapping[str, set[str]], owner_of: Mapping[str, str]) -> bool:
    """Return whether a node has routes to most of at least three prefixes of a switch, of one IP version."""
    same = [
        each for each, owner in owner_of.items() if owner == owner_of[prefix] and (":" in each) == (":" in prefix)
    ]
    return is_of_most(sum(name in having.get(each, ()) for each in same), len(same))


def _of_unadvertised(
    having: Mapping[str, set[str]], owner_of: Mapping[str, str], state: FabricAudit, topology: Topology
) -> Iterator[Difference]:
    """Yield networks of hosts that no other switch has a route to, if they are those of few switches.

    Most networks of that IP version have routes elsewhere, or at least as many switches have all of theirs advertised
    as have not. A shorter prefix is a route to them, too, unless it is a default route.
    """
    if any("route" in unread_kinds(state.nodes[each.name]) for each in topology.switches if each.name in state.nodes):
        return
    networks = _networks_of_hosts(state.nodes, topology)
    routed = {
        each: having[each] - {owner_of[each]} for each in networks if owner_of.get(each) in having.get(each, ())
    }
    silent = [each for each, others in routed.items() if not others]
    of_version = Counter(":" in each for each in routed)
    few = {version for version, count in Counter(":" in each for each in silent).items()
           if (of_version[version] >= FEWEST and 2 * count < of_version[version])
           or _is_of_few(version, routed, owner_of)}  # fmt: skip
    routes: dict[str, set[str]] = defaultdict(set)
    for name in (each.name for each in topology.switches if each.name in state.nodes):
        for route in state.nodes[name].routes:
            routes[str(ip_network(route.prefix, strict=False))].add(name)
    for prefix in sorted(each for each in silent if (":" in each) in few):
        network = ip_network(prefix)
        shorter = (str(network.supernet(new_prefix=length)) for length in range(1, network.prefixlen))
        if not any(routes.get(each, set()) - {owner_of[prefix]} for each in shorter):
            line = _network_line(prefix, routed, owner_of, state.nodes)
            yield Difference(
                node=owner_of[prefix], kind="route", object=f"route {prefix}", field=ADVERTISED, value="no",
                expected=f"{ADVERTISED_BY}{line}" if line else "yes", against=RULE,
            )  # fmt: skip


def _network_line(
    prefix: str, routed: Mapping[str, set[str]], owner_of: Mapping[str, str], nodes: Mapping[str, NodeAudit]
) -> str:
    """Return the line of FRR with which most switches advertise such networks, for a prefix of another one.

    Like ``router ospf / network 10.0.0.0/31 area 0.0.0.0``; "" if they advertise these otherwise.
    """
    alike = [each for each, others in routed.items() if others and (":" in each) == (":" in prefix)]
    usual: Counter[tuple[str, str]] = Counter()
    for each in alike:
        for line in (one.line for one in nodes[owner_of[each]].frr):
            context, found, option = line.partition(f" / network {each}")
            if found and (not option or option.startswith(" ")):
                usual[_ASN.sub("", context), option] += 1
    for (context, option), count in usual.most_common(1):
        own = dict.fromkeys(one.line.rpartition(" / ")[0] for one in nodes[owner_of[prefix]].frr)
        mine = next((one for one in own if one and _ASN.sub("", one) == context), "")
        if mine and 2 * count > len(alike):
            return f"{mine} / network {prefix}{option}"
    return ""


def _networks_of_hosts(nodes: Mapping[str, NodeAudit], topology: Topology) -> set[str]:
    """Return the networks of the ports of switches to which hosts are connected."""
    ports = {
        (link.other(end).node, link.other(end).interface)
        for link in topology.links
        for end in link.ends
        if not topology.node(end.node).role.is_switch
    }
    return {
        str(ip_interface(each.address).network)
        for node in nodes.values()
        for each in node.addresses
        if each.scope == "global" and (node.name, each.interface) in ports
    }


def _is_of_few(version: bool, routed: Mapping[str, set[str]], owner_of: Mapping[str, str]) -> bool:
    """Return whether at most half of the switches with hosts have a network that no other switch has a route to."""
    mine = {prefix: others for prefix, others in routed.items() if (":" in prefix) == version}
    silent = {owner_of[prefix] for prefix, others in mine.items() if not others}
    return 2 * len(silent) <= len({owner_of[prefix] for prefix in mine})


def drained_switches(nodes: Mapping[str, NodeAudit], topology: Topology) -> dict[str, frozenset[int]]:
    """Return the switches that no learned route leads over, although shortest paths do, with the IP versions.

    Routes are those to networks of hosts, or to prefixes of leaves for an IP version without such networks.
    Neighbours use other paths of that length, and all ports are up.
    """
    leaves = {node.name for node in topology.having(Role.LEAF)}
    owner_of = {prefix: owner for prefix, owner in _owner_of(nodes, topology).items() if owner in leaves}
    networks = _networks_of_hosts(nodes, topology) & owner_of.keys()
    versions = {":" in each for each in networks}
    owner_of = {prefix: owner for prefix, owner in owner_of.items()
                if prefix in networks or (":" in prefix) not in versions}  # fmt: skip
    distance = {name: distances(topology, name) for name in set(owner_of.values())}
    offered: set[tuple[str, int]] = set()
    used: set[tuple[str, int]] = set()
    for node in (each for each in nodes.values() if topology.node(each.name).role.is_switch):
        links = switch_links(topology, node.name)
        for route in node.routes:
            owner = owner_of.get(route.prefix)
            if route.table != MAIN or route.protocol not in LEARNED or owner in {None, node.name}:
                continue
            away, version = distance[owner or ""], 6 if ":" in route.prefix else 4
            words = {word for hop in route.next_hops for word in hop.split()}
            nearer = {peer for _, peer in links if peer != owner and away.get(peer) == away.get(node.name, 0) - 1}
            by = {peer for port, peer in links if port in words and peer != owner}
            used |= {(peer, version) for peer in by}
            if by & nearer:
                offered |= {(peer, version) for peer in nearer}
    found: dict[str, set[int]] = defaultdict(set)
    for name, version in offered - used:
        if name in nodes and not any(_is_down(nodes[name], port) for port, _ in switch_links(topology, name)):
            found[name].add(version)
    return {name: frozenset(versions) for name, versions in found.items()}


def _is_down(node: NodeAudit, port: str) -> bool:
    return any(each.name == port and not (each.up and each.carrier) for each in node.interfaces)
