"""Facts of a window: the addresses, routes, links and routing sessions of nodes, and how they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.diagnose.facts import LinkEvent, SessionChange, Silence
from lab.telemetry.store.session_states import TITLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.telemetry.read.recorded_events import RecordedEvent
    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase

_MAIN_TABLE: Final = 254
_DAEMONS: Final = frozenset({"bgp", "ospf"})
_LEARNT: Final = 20
"""The metric of routes that zebra installs, which is the same for all protocols."""


def nic_addresses(recording: Recording, state: Mapping[str, Any]) -> dict[str, str]:
    """Return the address from which each host's kernel sends by a NIC: prefsrc of the link's route."""
    found: dict[str, str] = {}
    hosts = {host.name for host in recording.topology.hosts}
    for node, known in state.items():
        for route in known.get("routes", ()) if node in hosts else ():
            if (
                route.get("protocol") == "kernel"
                and route.get("scope") == "link"
                and {"dev", "prefsrc"} <= route.keys()
            ):
                found.setdefault(f"{node}:{route['dev']}", str(route["prefsrc"]))
    return found


def routes_at(
    recording: Recording, state: Mapping[str, Any], window: RecordingPhase, missing: list[str]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the next hops' interfaces by switch and prefix: the initial routes, updated by the kernel's events.

    Of several routes to a prefix, the one with the lowest metric is used. A blackhole or unreachable route has no
    next hops.
    """
    known: dict[str, dict[str, dict[str, tuple[int, tuple[str, ...]]]]] = {}
    for switch in recording.topology.switches:
        mine = known.setdefault(switch.name, {})
        for route in state.get(switch.name, {}).get("routes", ()):
            if prefix := _prefix(route):
                metric, maker = int(route.get("metric", 0)), str(route.get("protocol", ""))
                hops = _outgoing(route) if route.get("type", "unicast") == "unicast" else ()
                others = mine.setdefault(prefix, {})
                others[maker] = min(others.get(maker, (metric, hops)), (metric, hops), key=lambda each: each[0])
    if not state:
        missing.append("routes")
    cabled = {str(end) for link in recording.topology.links for end in link.ends}
    for event in recording.events(source="kernel", kind="route"):
        if event.ns <= window.end and event.node in known and _is_main(event, cabled):
            _change(known[event.node].setdefault(str(event.data["prefix"]), {}), event)
    return {
        switch: {
            prefix: min(routes.values(), key=lambda each: each[0])[1] for prefix, routes in prefixes.items() if routes
        }
        for switch, prefixes in known.items()
    }


def _change(routes: dict[str, tuple[int, tuple[str, ...]]], event: RecordedEvent) -> None:
    """Apply a kernel event to the routes to a prefix, which are keyed by protocol."""
    maker = str(event.data.get("protocol", ""))
    if event.data.get("gone"):
        routes.pop(maker, None)
        return
    hops = tuple(event.data.get("interfaces", ())) if event.data.get("type") == "unicast" else ()
    learnt = routes.get(maker, (_LEARNT if maker in _DAEMONS else 0, ()))[0]
    routes[maker] = (int(event.data.get("metric", learnt)), hops)


def _is_main(event: RecordedEvent, cabled: set[str]) -> bool:
    """Return whether a route is in the main table.

    Old recordings do not contain the table. There, a route counts as main if all of its next hops are cabled ports,
    which those of a VRF are not.
    """
    if "table" in event.data:
        return int(event.data["table"]) == _MAIN_TABLE
    return all(f"{event.node}:{hop}" in cabled for hop in event.data.get("interfaces", ()))


def _prefix(route: Mapping[str, Any]) -> str:
    """Return a route's prefix with its length, which ip omits for single addresses.

    Return "" for a default route and for a route of a VRF.
    """
    prefix = str(route.get("dst", ""))
    if "table" in route or prefix in {"", "default"}:
        return ""
    return prefix if "/" in prefix else f"{prefix}/{128 if ':' in prefix else 32}"


def _outgoing(route: Mapping[str, Any]) -> tuple[str, ...]:
    hops = route.get("nexthops") or [route]
    return tuple(sorted(str(hop["dev"]) for hop in hops if "dev" in hop))


def links_before(recording: Recording, state: Mapping[str, Any]) -> Iterator[LinkEvent]:
    """Yield the state of links at the beginning of the recording; nothing for old recordings."""
    cabled = {str(end) for link in recording.topology.links for end in link.ends}
    for node, known in state.items():
        for link in known.get("links", ()):
            if (port := f"{node}:{link['ifname']}") in cabled:
                yield LinkEvent(seconds=-1.0, port=port, up="LOWER_UP" in link["flags"], mtu=int(link["mtu"]))


def link_changes(recording: Recording, until: int) -> Iterator[LinkEvent]:
    """Yield the changes of links that the kernel reported until a time in ns."""
    for event in recording.events(source="kernel", kind="link"):
        if event.ns <= until and event.interface != "lo":
            port = f"{event.node}:{event.interface}"
            yield LinkEvent(
                seconds=event.seconds, port=port, up=bool(event.data.get("up")), mtu=int(event.data.get("mtu", 0))
            )


def readdressed(recording: Recording, until: int) -> dict[str, float]:
    """Return the NICs whose host lost the route of their link and has it again, with the time."""
    hosts = {host.name for host in recording.topology.hosts}
    lost: dict[tuple[str, str], tuple[str, ...]] = {}
    found: dict[str, float] = {}
    for event in recording.events(source="kernel", kind="route"):
        if event.node in hosts and event.ns <= until and event.data.get("protocol") == "kernel":
            key = (event.node, str(event.data["prefix"]))
            interfaces = tuple(map(str, event.data.get("interfaces", ())))
            if event.data.get("gone"):
                lost[key] = interfaces
            elif key in lost:
                found.update({f"{event.node}:{each}": event.seconds for each in interfaces or lost[key]})
    return found


def smallest_mtus(links: tuple[LinkEvent, ...], begin: float) -> dict[str, int]:
    """Return each port's smallest MTU in the window, from the kernel's link events."""
    found: dict[str, int] = {}
    for each in links:
        earlier = each.seconds < begin
        found[each.port] = each.mtu if earlier else min(each.mtu, found.get(each.port, each.mtu))
    return found


def session_changes(recording: Recording, window: RecordingPhase) -> Iterator[SessionChange]:
    """Yield the changes in the window, and sessions that are down throughout it."""
    missing: dict[tuple[str, str], SessionChange] = {}
    for event in recording.events(source="routing"):
        if event.kind not in TITLES:
            continue
        port = f"{event.node}:{event.interface}"
        change = SessionChange(seconds=event.seconds, port=port, state=str(event.data["state"]), kind=event.kind)
        if event.ns > window.end:
            break
        if event.ns >= window.start and event.data.get("before"):
            missing.pop((port, event.kind), None)
            yield change
        elif change.is_up:
            missing.pop((port, event.kind), None)
        else:
            missing[port, event.kind] = change
    yield from missing.values()


def silences(recording: Recording, window: RecordingPhase) -> Iterator[Silence]:
    """Yield the daemons that did not answer in the window, and those that are gone at its end."""
    gone: dict[tuple[str, str], float] = {}
    for event in recording.events(source="routing"):
        daemon = event.node, str(event.data.get("daemon"))
        if event.kind == "daemon_silent" and window.start <= event.ns <= window.end:
            yield Silence(event.seconds, *daemon, gone=False)
        elif event.kind == "daemon_lost" and event.ns <= window.end:
            gone[daemon] = event.seconds
        elif event.kind == "daemon_back" and event.ns <= window.start:
            gone.pop(daemon, None)
    for (node, name), seconds in gone.items():
        yield Silence(seconds, node, name, gone=True)
