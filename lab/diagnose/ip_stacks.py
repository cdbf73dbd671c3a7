"""What each node's IP stack has at a moment, as its kernel says: addresses, networks, gateways and neighbours.

Read is the state that the recording began with, and what the kernel told since of neighbours, routes and links.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.telemetry.read.recording import RecordedEvent, Recording

_IN_USE: Final = frozenset({"reachable", "permanent", "delay", "probe"})
"""States of an entry that the kernel sends by; one that is stale it asks for again (NUD, <linux/neighbour.h>)."""
_LINK_LOCAL: Final = "fe80:"
_MAIN_TABLE: Final = 254
DEFAULTS: Final = {4: "0.0.0.0/0", 6: "::/0"}
"""The prefix of the default route of an IP version."""


@dataclass(frozen=True, slots=True)
class StackRoute:
    """A route of a node's main table."""

    prefix: str
    """With its length; ``0.0.0.0/0`` and ``::/0`` of default routes."""
    kind: str = "unicast"
    """As ip-route(8) has it: unicast, blackhole, unreachable, prohibit."""
    interfaces: tuple[str, ...] = ()
    """Of its next hops."""
    gateway: str = ""
    """The single next hop; "" where there are several, where the network is on the link, or where it is unknown."""
    metric: int = 0
    protocol: str = ""
    """Who made it: kernel of a network on the link, boot or static of a person, bgp and others of a daemon."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The IP stack of a node."""

    macs: Mapping[str, str]
    """By interface that is a member of nothing, neither of a bridge nor of a bond."""
    own: frozenset[str]
    """The node's addresses."""
    networks: Mapping[str, frozenset[str]]
    """By interface, those that are on its link."""
    gateways: Mapping[str, str] = field(default_factory=dict)
    """By interface, the next hop of the default route."""
    neighbours: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By interface and address, the MAC to which the kernel sends."""
    routes: tuple[StackRoute, ...] | None = None
    """Of the main table, both IP versions; None where they are not known."""

    def route_to(self, address: str) -> StackRoute | None:
        """The route by which the node sends to an address: longest prefix, then lowest metric (RFC 1812 5.2.4.3)."""
        wanted = ip_address(address)
        found = [
            (-network.prefixlen, route.metric, number)
            for number, route in enumerate(self.routes or ())
            if (network := ip_network(route.prefix)).version == wanted.version and wanted in network
        ]
        return (self.routes or ())[min(found)[2]] if found else None


def stacks(state: Mapping[str, Any], recording: Recording, until: int) -> dict[str, Stack]:
    """By node; a node that did not answer is left out."""
    events: dict[str, list[RecordedEvent]] = {}
    for event in recording.events(source="kernel"):
        if event.ns <= until:
            events.setdefault(event.node, []).append(event)
    known = {node: found for node, found in state.items() if {"links", "routes"} <= found.keys()}
    return {node: _stack(found, events.get(node, [])) for node, found in known.items()}


def _stack(state: Mapping[str, Any], events: list[RecordedEvent]) -> Stack:
    return Stack(
        macs=_macs(state, events),
        own=frozenset(str(each["dst"]) for each in state["routes"] if each.get("type") == "local"),
        networks=_networks(state, events),
        gateways=_gateways(routes := _routes(state, events)),
        neighbours=_neighbours(state, events),
        routes=tuple(routes),
    )


def _gateways(routes: list[StackRoute]) -> dict[str, str]:
    """By interface the next hop of its default route: that of IPv4 where there are two, and of the lowest metric."""
    defaults = [each for each in routes if each.prefix in DEFAULTS.values() and each.gateway]
    chosen = sorted(defaults, key=lambda each: (each.prefix != DEFAULTS[4], each.metric), reverse=True)
    return {interface: each.gateway for each in chosen for interface in each.interfaces}


def _routes(state: Mapping[str, Any], events: list[RecordedEvent]) -> list[StackRoute]:
    """Those of the beginning, and what the kernel has changed since."""
    found = [_route(each) for each in state["routes"] if "table" not in each and "dst" in each]
    for event in events:
        if event.kind == "link" and not event.data.get("admin_up", True):
            # The kernel flushes what goes by an interface that is shut, and reports it of IPv6 alone.
            found = [each for each in found if event.interface not in each.interfaces]
        elif event.kind == "route" and event.data.get("table", _MAIN_TABLE) == _MAIN_TABLE:
            found = _changed(found, event)
    return found


def _route(said: Mapping[str, Any]) -> StackRoute:
    prefix, hops = str(said["dst"]), said.get("nexthops") or [said]
    addresses = [str(hop.get("gateway", "")) for hop in hops]
    if prefix == "default":
        # Only a route of IPv6 has a preference.
        prefix = DEFAULTS[6 if "pref" in said or any(":" in each for each in addresses) else 4]
    elif "/" not in prefix:
        prefix = f"{prefix}/{128 if ':' in prefix else 32}"
    interfaces = tuple(sorted(str(hop["dev"]) for hop in hops if "dev" in hop))
    kind, gateway = str(said.get("type", "unicast")), addresses[0] if len(addresses) == 1 else ""
    return StackRoute(prefix, kind, interfaces, gateway, int(said.get("metric", 0)), str(said.get("protocol", "")))


def _changed(routes: list[StackRoute], event: RecordedEvent) -> list[StackRoute]:
    """Routes after an event; of several to one prefix nobody reports which one has gone, so that they stay."""
    prefix, metric = str(event.data["prefix"]), event.data.get("metric")
    same = [each for each in routes if each.prefix == prefix and metric in {None, each.metric}]
    others = [each for each in routes if each not in same]
    if event.data.get("gone"):
        return others if len(same) == 1 else routes
    interfaces = tuple(map(str, event.data.get("interfaces", ())))
    gateway, kind = str(event.data.get("gateway", "")), str(event.data.get("type", "unicast"))
    protocol = str(event.data.get("protocol", ""))
    return [*others, StackRoute(prefix, kind, interfaces, gateway, int(metric or 0), protocol)]


def _macs(state: Mapping[str, Any], events: list[RecordedEvent]) -> dict[str, str]:
    found = {str(each["ifname"]): str(each.get("address", "")) for each in state["links"] if "master" not in each}
    for event in events:
        if event.kind == "link" and event.interface in found:
            found[event.interface] = str(event.data.get("mac", found[event.interface]))
    return found


def _networks(state: Mapping[str, Any], events: list[RecordedEvent]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for route in state["routes"]:
        if route.get("protocol") == "kernel" and {"dev", "dst"} <= route.keys() and "table" not in route:
            found.setdefault(str(route["dev"]), set()).add(str(route["dst"]))
    for event in events:
        if event.kind == "route" and _is_connected(event):
            prefix = str(event.data["prefix"])
            for networks in found.values():
                networks.discard(prefix)
            for interface in event.data.get("interfaces", ()):
                found.setdefault(str(interface), set()).add(prefix)
    return {interface: frozenset(filter(_is_global, networks)) for interface, networks in found.items()}


def _is_connected(event: RecordedEvent) -> bool:
    """Whether a route is of a network on a link, and of no VRF, whose prefixes may be the same."""
    return event.data.get("protocol") == "kernel" and event.data.get("table", _MAIN_TABLE) == _MAIN_TABLE


def _is_global(network: str) -> bool:
    return "/" in network and not network.startswith(_LINK_LOCAL)


def _neighbours(state: Mapping[str, Any], events: list[RecordedEvent]) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for interface, address, mac, state_of_it in _told(state, events):
        if mac and state_of_it in _IN_USE:
            found[interface, address] = mac
        else:
            found.pop((interface, address), None)
    return found


def _told(state: Mapping[str, Any], events: list[RecordedEvent]) -> Iterator[tuple[str, str, str, str]]:
    """Interface, address, MAC and state of neighbours: those of the beginning, and what became of them."""
    for each in state.get("neighbours", ()):
        in_state = str(next(iter(each.get("state", ())), "")).lower()
        yield str(each.get("dev", "")), str(each.get("dst", "")), str(each.get("lladdr", "")), in_state
    for event in events:
        if event.kind == "neighbour":
            yield event.interface, str(event.data["address"]), str(event.data["mac"]), str(event.data["state"])
