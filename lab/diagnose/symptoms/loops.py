"""Symptoms of routing loops: switches that forward packets for an address to each other."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, TypeAlias

from lab.diagnose.symptom import Evidence, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.diagnose.facts import WindowFacts

_Table: TypeAlias = "list[tuple[_Network, tuple[str, ...]]]"
"""Networks and their next hops' interfaces, in descending order of prefix length."""
_Network: TypeAlias = IPv4Network | IPv6Network
_Edges = dict[str, list[tuple[str, str]]]
"""By switch: the switches that it sends to, and by which interfaces."""


def packets_go_in_a_circle(facts: WindowFacts) -> Iterator[Sign]:
    """The next hops of several switches for an address form a loop, in which packets circulate until the TTL ends.

    Signs name the switches whose next hop is no nearer to the address's NIC; if the NIC is not known, the whole loop.
    """
    tables = {switch: _table(facts.routes.get(switch, {})) for switch in facts.switches}
    homes = {address: nic for nic, address in facts.addresses.items()}
    told: dict[tuple[str, ...], list[str]] = {}
    circles: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for address in dict.fromkeys([*homes, *_firsts(facts)]):
        circle = _circle(_edges(facts, tables, address))
        if circle:
            key = tuple(sorted(switch for switch, _ in circle))
            told.setdefault(key, []).append(address)
            circles.setdefault(key, circle)
    for key, addresses in told.items():
        yield from _signs(facts, circles[key], addresses, homes)


def _signs(
    facts: WindowFacts, circle: list[tuple[str, str]], addresses: list[str], homes: Mapping[str, str]
) -> Iterator[Sign]:
    """Yield a sign for each switch at fault, with the loop as evidence."""
    what = addresses[0] if len(addresses) == 1 else f"{addresses[0]} and {len(addresses) - 1} more"
    seen = tuple(
        Evidence(
            says=f"forwards packets for {what} to {facts.peer(f'{switch}:{interface}').partition(':')[0]}, by"
            f" {interface}",
            of=switch,
            source="ip route",
            value=len(addresses),
            at=facts.end,
        )
        for switch, interface in circle
    )
    distances = _distances(facts, homes[addresses[0]]) if addresses[0] in homes else {}
    astray = [
        switch
        for number, (switch, _) in enumerate(circle)
        if distances and distances.get(circle[(number + 1) % len(circle)][0], 0) >= distances.get(switch, 0)
    ]
    for switch in astray or [switch for switch, _ in circle]:
        yield Sign(switch, seen, 0.95)


def _table(routes: Mapping[str, tuple[str, ...]]) -> _Table:
    networks = ((ip_network(prefix, strict=False), hops) for prefix, hops in routes.items())
    return sorted(networks, key=lambda each: -each[0].prefixlen)


def _firsts(facts: WindowFacts) -> Iterator[str]:
    """Yield the first address of each prefix that a switch has a route to."""
    for prefix in dict.fromkeys(prefix for routes in facts.routes.values() for prefix in routes):
        first = ip_address(prefix.partition("/")[0])
        if not first.is_link_local and not first.is_multicast:
            yield str(first)


def _edges(facts: WindowFacts, tables: Mapping[str, _Table], address: str) -> _Edges:
    """Return the switches to which each switch forwards an address; none if it is its own, or on the link."""
    wanted, found = ip_address(address), _Edges()
    version, number = wanted.version, int(wanted)
    for switch, table in tables.items():
        network, hops = next(
            (
                (network, hops)
                for network, hops in table
                if network.version == version and not (number ^ int(network.network_address)) & int(network.netmask)
            ),
            (None, ()),
        )
        stack = facts.stacks.get(switch)
        if stack is not None and address in stack.own:  # the table of local routes comes first (ip-rule(8))
            continue
        for interface in hops:
            peer = facts.peer(f"{switch}:{interface}")
            connected = stack is not None and str(network) in stack.networks.get(interface, ())
            if peer and not facts.is_host(peer) and not connected:
                found.setdefault(switch, []).append((peer.partition(":")[0], interface))
    return found


def _circle(edges: _Edges) -> list[tuple[str, str]]:
    """Return the switches of a loop in order, each with its outgoing interface; empty if there is none."""
    done: set[str] = set()
    for start in edges:
        way: list[tuple[str, str]] = []
        if found := _walk(start, edges, way, done):
            return found
    return []


def _walk(at: str, edges: _Edges, way: list[tuple[str, str]], done: set[str]) -> list[tuple[str, str]]:
    for number, (switch, _) in enumerate(way):
        if switch == at:
            return way[number:]
    if at in done:
        return []
    for towards, interface in edges.get(at, ()):
        if found := _walk(towards, edges, [*way, (at, interface)], done):
            return found
    done.add(at)
    return []


def _distances(facts: WindowFacts, nic: str) -> dict[str, int]:
    """Return each switch's distance, in links, to the nearest switch of a NIC."""
    found = {port.peer.partition(":")[0]: 0 for port in facts.links_of(nic)}
    fresh = list(found)
    for switch in fresh:
        for port in facts.ports_of(switch):
            peer = port.peer.partition(":")[0]
            if peer and not facts.is_host(port.peer) and peer not in found:
                found[peer] = found[switch] + 1
                fresh.append(peer)
    return found
