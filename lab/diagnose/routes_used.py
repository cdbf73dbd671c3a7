"""The ports that a transfer may take, by the routes of the switches on its path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.diagnose.ip_stacks import parsed_address, parsed_network

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.diagnose.facts import WindowFacts


def way(facts: WindowFacts, src: str, dst: str) -> list[tuple[str, int]]:
    """Return the egress ports that packets between two NICs may take, each with the number of switches before it.

    Empty if addresses or routes are not known.
    """
    address = facts.addresses.get(dst)
    found: dict[str, int] = {}
    if address is None:
        return []
    fresh = [(port.peer, 0) for port in facts.links_of(src)]
    while fresh:
        entered, hops = fresh.pop()
        switch = facts.ports[entered].node if entered in facts.ports else ""
        for interface in next_hops(facts.routes.get(switch, {}), address):
            port = f"{switch}:{interface}"
            if port in facts.ports and port not in found:
                found[port] = hops
                if not facts.is_host(facts.peer(port)):
                    fresh.append((facts.peer(port), hops + 1))
    return list(found.items())


def next_hops(routes: Mapping[str, tuple[str, ...]], address: str) -> tuple[str, ...]:
    """Return the next hops' interfaces of the longest prefix that contains an address; empty without a route."""
    wanted = parsed_address(address)
    having = [
        (network.prefixlen, hops)
        for prefix, hops in routes.items()
        if hops and wanted in (network := parsed_network(prefix))
    ]
    return max(having)[1] if having else ()


def remote_prefixes(facts: WindowFacts, switch: str) -> dict[str, tuple[str, ...]]:
    """Return a switch's IPv4 routes, by prefix, to hosts that are not attached to it."""
    own = {port.interface for port in facts.ports_of(switch) if facts.is_host(port.peer)}
    addresses = [parsed_address(address) for address in facts.addresses.values()]
    return {
        prefix: hops
        for prefix, hops in facts.routes.get(switch, {}).items()
        if hops
        and not own & set(hops)
        and (network := parsed_network(prefix)).version == 4
        and any(address in network for address in addresses)
    }
