"""What each node's IP stack has at a moment, as its kernel says: addresses, networks, gateways and neighbours.

Read is the state that the recording began with, and what the kernel told since of neighbours, routes and links.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.telemetry.recording import Event, Recording

_IN_USE: Final = frozenset({"reachable", "permanent", "delay", "probe"})
"""States of an entry that the kernel sends by; one that is stale it asks for again (NUD, <linux/neighbour.h>)."""
_LINK_LOCAL: Final = "fe80:"
_MAIN_TABLE: Final = 254


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


def stacks(state: Mapping[str, Any], recording: Recording, until: int) -> dict[str, Stack]:
    """By node; a node that did not answer is left out."""
    events: dict[str, list[Event]] = {}
    for event in recording.events(source="kernel"):
        if event.ns <= until:
            events.setdefault(event.node, []).append(event)
    known = {node: found for node, found in state.items() if {"links", "routes"} <= found.keys()}
    return {node: _stack(found, events.get(node, [])) for node, found in known.items()}


def _stack(state: Mapping[str, Any], events: list[Event]) -> Stack:
    return Stack(
        macs=_macs(state, events),
        own=frozenset(str(each["dst"]) for each in state["routes"] if each.get("type") == "local"),
        networks=_networks(state, events),
        gateways={
            str(each["dev"]): str(each["gateway"])
            for each in state["routes"]
            if each.get("dst") == "default" and {"dev", "gateway"} <= each.keys()
        },
        neighbours=_neighbours(state, events),
    )


def _macs(state: Mapping[str, Any], events: list[Event]) -> dict[str, str]:
    found = {str(each["ifname"]): str(each.get("address", "")) for each in state["links"] if "master" not in each}
    for event in events:
        if event.kind == "link" and event.interface in found:
            found[event.interface] = str(event.data.get("mac", found[event.interface]))
    return found


def _networks(state: Mapping[str, Any], events: list[Event]) -> dict[str, frozenset[str]]:
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


def _is_connected(event: Event) -> bool:
    """Whether a route is of a network on a link, and of no VRF, whose prefixes may be the same."""
    return event.data.get("protocol") == "kernel" and event.data.get("table", _MAIN_TABLE) == _MAIN_TABLE


def _is_global(network: str) -> bool:
    return "/" in network and not network.startswith(_LINK_LOCAL)


def _neighbours(state: Mapping[str, Any], events: list[Event]) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for interface, address, mac, state_of_it in _told(state, events):
        if mac and state_of_it in _IN_USE:
            found[interface, address] = mac
        else:
            found.pop((interface, address), None)
    return found


def _told(state: Mapping[str, Any], events: list[Event]) -> Iterator[tuple[str, str, str, str]]:
    """Interface, address, MAC and state of neighbours: those of the beginning, and what became of them."""
    for each in state.get("neighbours", ()):
        in_state = str(next(iter(each.get("state", ())), "")).lower()
        yield str(each.get("dev", "")), str(each.get("dst", "")), str(each.get("lladdr", "")), in_state
    for event in events:
        if event.kind == "neighbour":
            yield event.interface, str(event.data["address"]), str(event.data["mac"]), str(event.data["state"])
