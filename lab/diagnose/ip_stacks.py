"""The IP stack of each node at a moment: addresses, networks, gateways and neighbours.

It is the state at the beginning of the recording, updated by the kernel's events on neighbours, routes and links.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final

from lab.wire.header_fields import is_group_mac

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.telemetry.read.recorded_events import RecordedEvent
    from lab.telemetry.read.recording import Recording

_NO_ARP: Final = "noarp"
_IN_USE: Final = frozenset({"reachable", "permanent", "delay", "probe", _NO_ARP})
"""NUD states in which the kernel uses an entry (<linux/neighbour.h>). A stale entry is verified again."""
_LINK_LOCAL: Final = "fe80:"
_MAIN_TABLE: Final = 254
_OTHER_TABLES: Final = frozenset({"local", "default", "255", "253"})
"""Tables of the kernel that are no VRF's (rtnetlink(7))."""
DEFAULTS: Final = {4: "0.0.0.0/0", 6: "::/0"}
"""The default route's prefix, by IP version."""


@lru_cache(maxsize=16_384)
def parsed_network(prefix: str) -> IPv4Network | IPv6Network:
    """Return a prefix as a network. One diagnosis needs the same few thousands of times."""
    return ip_network(prefix, strict=False)


@lru_cache(maxsize=16_384)
def parsed_address(text: str) -> IPv4Address | IPv6Address:
    """Return an address that was parsed before, or parse it."""
    return ip_address(text)


@dataclass(frozen=True, slots=True)
class StackRoute:
    """A route of a node's main table."""

    prefix: str
    """The prefix with its length; default routes have ``0.0.0.0/0`` or ``::/0``."""
    kind: str = "unicast"
    """The route type of ip-route(8): unicast, blackhole, unreachable, prohibit or throw."""
    interfaces: tuple[str, ...] = ()
    """The interfaces of the next hops."""
    gateway: str = ""
    """The next hop; "" if there are several, if the network is on the link, or if it is unknown."""
    metric: int = 0
    protocol: str = ""
    """The origin: kernel for connected networks, boot or static for manual routes, or a daemon's protocol."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The IP stack of a node."""

    macs: Mapping[str, str]
    """The MAC by interface, without members of a bridge or a bond. Those of a VRF are included."""
    own: frozenset[str]
    """The node's addresses."""
    networks: Mapping[str, frozenset[str]]
    """By interface: the networks on its link."""
    gateways: Mapping[str, str] = field(default_factory=dict)
    """By interface: the next hop of the default route."""
    neighbours: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By interface and address: the MAC to which the kernel sends."""
    routes: tuple[StackRoute, ...] | None = None
    """The main table's routes of both IP versions; None if not known."""
    defaults_elsewhere: frozenset[str] = frozenset()
    """The interfaces with a default route in another table, which a policy rule or a VRF can look up."""

    def route_to(self, address: str) -> StackRoute | None:
        """Return the route to an address, or None: longest prefix, then lowest metric (RFC 1812 section 5.2.4.3)."""
        wanted = parsed_address(address)
        found = [
            (-network.prefixlen, route.metric, number)
            for number, route in enumerate(self.routes or ())
            if (network := parsed_network(route.prefix)).version == wanted.version and wanted in network
        ]
        return (self.routes or ())[min(found)[2]] if found else None


def stacks(state: Mapping[str, Any], recording: Recording, until: int) -> dict[str, Stack]:
    """Return the stack of each node at a time (ns). Nodes that did not answer are left out."""
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
        defaults_elsewhere=_defaults_elsewhere(state, events),
    )


def _gateways(routes: list[StackRoute]) -> dict[str, str]:
    """Return each interface's default gateway: IPv4 before IPv6, then the lowest metric."""
    defaults = [each for each in routes if each.prefix in DEFAULTS.values() and each.gateway]
    chosen = sorted(defaults, key=lambda each: (each.prefix != DEFAULTS[4], each.metric), reverse=True)
    return {interface: each.gateway for each in chosen for interface in each.interfaces}


def _routes(state: Mapping[str, Any], events: list[RecordedEvent]) -> list[StackRoute]:
    """Return the routes at the beginning, updated by the kernel's events."""
    found = [_route(each) for each in state["routes"] if "table" not in each and "dst" in each]
    for event in events:
        if event.kind == "link" and not event.data.get("admin_up", True):
            # Shutting an interface flushes its routes. The kernel reports that only for IPv6.
            found = [each for each in found if event.interface not in each.interfaces]
        elif event.kind == "route" and event.data.get("table", _MAIN_TABLE) == _MAIN_TABLE:
            found = _changed(found, event)
    return found


def _defaults_elsewhere(state: Mapping[str, Any], events: list[RecordedEvent]) -> frozenset[str]:
    """Return the interfaces with a default route in another table than the main one and those of the kernel."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for said in state["routes"]:
        table = str(said.get("table", ""))
        if table and table not in _OTHER_TABLES and said.get("dst") == "default":
            route = _route(said)
            found[route.prefix, table] = route.interfaces
    for event in events:
        table = str(event.data.get("table", _MAIN_TABLE))
        if event.kind == "route" and event.data["prefix"] in DEFAULTS.values() and table != str(_MAIN_TABLE):
            interfaces = () if event.data.get("gone") else tuple(map(str, event.data.get("interfaces", ())))
            found[str(event.data["prefix"]), table] = interfaces
    return frozenset(interface for interfaces in found.values() for interface in interfaces)


def _route(said: Mapping[str, Any]) -> StackRoute:
    prefix, hops = str(said["dst"]), said.get("nexthops") or [said]
    addresses = [str(hop.get("gateway", "")) for hop in hops]
    if prefix == "default":
        # Only IPv6 routes have a preference.
        prefix = DEFAULTS[6 if "pref" in said or any(":" in each for each in addresses) else 4]
    elif "/" not in prefix:
        prefix = f"{prefix}/{128 if ':' in prefix else 32}"
    interfaces = tuple(sorted(str(hop["dev"]) for hop in hops if "dev" in hop))
    kind, gateway = str(said.get("type", "unicast")), addresses[0] if len(addresses) == 1 else ""
    return StackRoute(
        prefix=prefix,
        kind=kind,
        interfaces=interfaces,
        gateway=gateway,
        metric=int(said.get("metric", 0)),
        protocol=str(said.get("protocol", "")),
    )


def _changed(routes: list[StackRoute], event: RecordedEvent) -> list[StackRoute]:
    """Return the routes after an event.

    A deletion that matches several routes to a prefix does not say which one is gone, so that all are kept.
    """
    prefix, metric = str(event.data["prefix"]), event.data.get("metric")
    same = [each for each in routes if each.prefix == prefix and metric in {None, each.metric}]
    others = [each for each in routes if each not in same]
    if event.data.get("gone"):
        return others if len(same) == 1 else routes
    interfaces = tuple(map(str, event.data.get("interfaces", ())))
    gateway, kind = str(event.data.get("gateway", "")), str(event.data.get("type", "unicast"))
    protocol = str(event.data.get("protocol", ""))
    return [
        *others,
        StackRoute(
            prefix=prefix,
            kind=kind,
            interfaces=interfaces,
            gateway=gateway,
            metric=int(metric or 0),
            protocol=protocol,
        ),
    ]


def _macs(state: Mapping[str, Any], events: list[RecordedEvent]) -> dict[str, str]:
    routed = _tables(state)
    found = {
        str(each["ifname"]): str(each.get("address", ""))
        for each in state["links"]
        if "master" not in each or str(each["ifname"]) in routed
    }
    for event in events:
        if event.kind != "link":
            continue
        master = event.data.get("master")  # older recordings do not have it
        if master or event.data.get("gone"):
            found.pop(event.interface, None)
        elif event.interface in found or master is not None:
            found[event.interface] = str(event.data.get("mac", found.get(event.interface, "")))
    return found


def _tables(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the routing table of each interface that is a member of a VRF.

    Its connected networks are in that table, at least the link-local one. Those of members of a bridge are in the
    main one.
    """
    members = {str(each["ifname"]) for each in state["links"] if "master" in each}
    return {str(route["dev"]): str(route["table"]) for route in filter(_is_link, state["routes"])
            if "table" in route and route["dev"] in members}  # fmt: skip


def _is_link(route: Mapping[str, Any]) -> bool:
    """Return whether a route is a connected network: those to a node's own addresses have another type."""
    own = route.get("type", "unicast") != "unicast" or str(route.get("table")) in _OTHER_TABLES
    return route.get("protocol") == "kernel" and {"dev", "dst"} <= route.keys() and not own


def _networks(state: Mapping[str, Any], events: list[RecordedEvent]) -> dict[str, frozenset[str]]:
    """Return the networks by interface. A VRF may have the same network as another one, or as the main table."""
    tables = _tables(state)
    found: dict[tuple[str, str], set[str]] = {}
    for route in filter(_is_link, state["routes"]):
        interface = str(route["dev"])
        if str(route.get("table", "")) == tables.get(interface, ""):
            found.setdefault((tables.get(interface, ""), interface), set()).add(str(route["dst"]))
    for event in events:
        if event.kind == "route" and event.data.get("protocol") == "kernel":
            number = event.data.get("table", _MAIN_TABLE)
            table = "" if number == _MAIN_TABLE else str(number)
            prefix = str(event.data["prefix"])
            for (its, _), networks in found.items():
                if its == table:
                    networks.discard(prefix)
            for interface in map(str, event.data.get("interfaces", ())):
                if tables.get(interface, "") == table:
                    found.setdefault((table, interface), set()).add(prefix)
    return {interface: frozenset(filter(_is_global, networks)) for (_, interface), networks in found.items()}


def _is_global(network: str) -> bool:
    return "/" in network and not network.startswith(_LINK_LOCAL)


def _neighbours(state: Mapping[str, Any], events: list[RecordedEvent]) -> dict[tuple[str, str], str]:
    """Return the MAC by interface and address.

    The kernel adds entries without ARP of groups and broadcast, and with an interface's own MAC after ``arp off``.
    """
    found: dict[tuple[str, str], str] = {}
    own = _macs(state, events)
    for interface, address, mac, state_of_it in _told(state, events):
        of_kernel = state_of_it == _NO_ARP and (is_group_mac(mac) or mac == own.get(interface))
        if mac and state_of_it in _IN_USE and not of_kernel:
            found[interface, address] = mac
        else:
            found.pop((interface, address), None)
    return found


def _told(state: Mapping[str, Any], events: list[RecordedEvent]) -> Iterator[tuple[str, str, str, str]]:
    """Yield interface, address, MAC and state of neighbours: the initial entries, then the changes."""
    for each in state.get("neighbours", ()):
        in_state = str(next(iter(each.get("state", ())), "")).lower()
        yield str(each.get("dev", "")), str(each.get("dst", "")), str(each.get("lladdr", "")), in_state
    for event in events:
        if event.kind == "neighbour":
            yield event.interface, str(event.data["address"]), str(event.data["mac"]), str(event.data["state"])
