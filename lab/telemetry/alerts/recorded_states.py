"""Gauges of a recording that no counter has: links, settings of ports, remote VTEPs, and steps of training jobs.

Each source is a list of moments. A moment has all values of the source from then on. Each link and each job is a
source of its own, because their moments are many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.errors import UsageError
from lab.kernel.netlink.link_stats import LinkState
from lab.kernel.netlink.routes import FibRoute, is_of_link
from lab.model.overlay.intent import FLOOD_MAC
from lab.model.sysctls import HASH_POLICY
from lab.telemetry.metrics import metric_families as families
from lab.telemetry.metrics.job_metrics import step_values
from lab.telemetry.metrics.routing_metrics import duplicate_samples, segment_samples
from lab.telemetry.metrics.setting_metrics import is_gateway, link_values, route_values, setting_values
from lab.telemetry.read.dashboard import step_ranks
from lab.telemetry.read.recorded_jobs import recorded_jobs
from lab.telemetry.store.recording_folder import damage_as_invalid, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from lab.telemetry.metrics.counter_metrics import Labels
    from lab.telemetry.metrics.metric_families import MetricFamily
    from lab.telemetry.read.recorded_events import RecordedEvent
    from lab.telemetry.read.recording import Recording

    Values = Iterable[tuple[MetricFamily, Labels, float]]
    Moments = Iterable[tuple[int, Values]]

"""The MAC address of an FDB entry for floods."""
_L2: Final = "L2"
_MAIN_TABLE: Final = 254


def recorded_states(
    recording: Recording, times: NDArray[np.int64]
) -> Iterator[tuple[MetricFamily, Labels, list[float | None]]]:
    """Yield each series of these gauges: a value at each of ``times`` in ns, None where it did not exist.

    InvalidInput if the recording is damaged.
    """
    with damage_as_invalid(recording.folder.path):
        for moments in (
            *_links(recording),
            *_routes(recording),
            _hashes(recording),
            _settings(recording),
            _overlay(recording),
            *_steps(recording),
        ):
            yield from _at(times, moments)


def _at(times: NDArray[np.int64], moments: Moments) -> Iterator[tuple[MetricFamily, Labels, list[float | None]]]:
    known: dict[str, MetricFamily] = {}
    begins: list[int] = []
    values: list[Mapping[tuple[str, Labels], float]] = []
    for ns, found in moments:
        listed = list(found)
        known.update((family.name, family) for family, _, _ in listed)
        begins.append(ns)
        values.append({(family.name, labels): value for family, labels, value in listed})
    places = (np.searchsorted(begins, times, "right") - 1).tolist()
    for name, labels in dict.fromkeys(key for each in values for key in each):
        shown = [values[place].get((name, labels)) if place >= 0 else None for place in places]
        yield known[name], labels, shown


def _links(recording: Recording) -> Iterator[Moments]:
    """Yield each link's end of the topology, and each VLAN interface: as it was before, and after each event."""
    ends = {(end.node, end.interface) for link in recording.topology.links for end in link.ends}
    links = {
        (node, str(link["ifname"])): [(0, LinkState(link.get("operstate") == "UP", int(link["mtu"]), _mac(link)))]
        for node, state in _before(recording).items()
        for link in state.get("links") or ()
        if (node, link["ifname"]) in ends or is_gateway(str(link["ifname"]))
    }
    for event in recording.events(kind="link", source="kernel"):
        if (event.node, event.interface) in links:
            state = LinkState(bool(event.data["up"]), int(event.data["mtu"]), str(event.data.get("mac", "")))
            links[event.node, event.interface].append((event.ns, state))
    for place, states in links.items():
        yield [(ns, link_values({place: state})) for ns, state in states]


def _mac(link: Mapping[str, Any]) -> str:
    return str(link.get("address", ""))


def _routes(recording: Recording) -> Iterator[Moments]:
    """Yield each switch's routes of the main table: as they were before, and after each event."""
    switches = {node.name for node in recording.topology.switches}
    events: dict[str, list[RecordedEvent]] = {}
    for event in recording.events(kind="route", source="kernel"):
        if event.data["table"] == _MAIN_TABLE:
            events.setdefault(event.node, []).append(event)
    for node, state in _before(recording).items():
        if node in switches and state.get("routes"):
            yield _of_routes(node, dict(_first_routes(state["routes"])), events.get(node, ()))


def _first_routes(shown: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, FibRoute]]:
    for route in shown:
        prefix = str(route["dst"])
        if "table" in route or prefix == "default" or is_of_link(prefix):
            continue
        if "/" not in prefix:
            prefix += "/128" if ":" in prefix else "/32"
        yield (
            prefix,
            FibRoute(prefix, frozenset(str(hop["dev"]) for hop in route.get("nexthops", [route]) if "dev" in hop)),
        )


def _of_routes(node: str, routes: dict[str, FibRoute], events: Iterable[RecordedEvent]) -> Moments:
    yield 0, list(route_values(node, routes.values()))
    for event in events:
        prefix = str(event.data["prefix"])
        if event.data["gone"]:
            routes.pop(prefix, None)
        else:
            routes[prefix] = FibRoute(prefix, frozenset(map(str, event.data["interfaces"])))
        yield event.ns, list(route_values(node, routes.values()))


def _before(recording: Recording) -> Mapping[str, Any]:
    try:
        return recording.state("before")
    except UsageError:  # the recorder was killed
        return {}


def _settings(recording: Recording) -> Moments:
    try:
        qos = dict(recording.qos())
    except UsageError:
        return
    yield 0, setting_values(qos, recording.topology)
    for ns, changed in recording.qos_changes():
        if changed:
            qos |= changed
            yield ns, setting_values(qos, recording.topology)


def _hashes(recording: Recording) -> Moments:
    """Yield how switches choose among equal-cost paths."""
    nodes: dict[str, Mapping[str, str]] = {}
    for line in read_lines(recording.folder.sysctls):
        nodes |= line["nodes"]
        policies = {node: float(values[HASH_POLICY]) for node, values in nodes.items()}
        yield line["ns"], [(families.HASH_POLICY, (node,), policy) for node, policy in policies.items()]


def _overlay(recording: Recording) -> Moments:
    """Yield what zebra says, and the flood entries of VNIs that flood: it writes one for each remote VTEP."""
    overlay = recording.topology.overlay
    flooding = set() if overlay is None or overlay.multicast else {network.l2vni for network in overlay.networks}
    nodes: dict[str, Mapping[str, Any]] = {}
    for ns, changed in recording.forwarding_changes():
        if changed:
            nodes |= changed
            yield ns, [value for node, state in nodes.items() for value in _of_leaf(node, state, flooding)]


def _of_leaf(node: str, state: Mapping[str, Any], flooding: set[int]) -> Values:
    floods = [str(entry["ifname"]) for entry in state.get("fdb") or () if entry["mac"] == FLOOD_MAC]
    for interface in state.get("interfaces") or ():
        if (vni := interface.get("vni")) in flooding:
            labels = (node, str(vni), _L2, str(interface["name"]), "")
            yield families.REMOTE_VTEPS, labels, float(floods.count(interface["name"]))
    yield from duplicate_samples(node, state.get("duplicates") or {})
    yield from segment_samples(node, state.get("segments") or ())


def _steps(recording: Recording) -> Iterator[Moments]:
    """Yield each job: its ranks at the end of each step."""
    for job in recorded_jobs(recording):
        steps = sorted(job.steps, key=lambda step: step.end)
        yield [(step.end, step_values(step_ranks(job.name, step))) for step in steps]
