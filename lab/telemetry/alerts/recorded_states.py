"""Gauges of a recording that no counter has: links, settings of ports, remote VTEPs, and steps of training jobs.

Each source is a list of moments. A moment has all values of the source from then on. Each link and each job is a
source of its own, because their moments are many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.errors import UsageError
from lab.kernel.netlink.link_stats import LinkState
from lab.model.overlay.intent import FLOOD_MAC
from lab.telemetry.metrics import metric_families as families
from lab.telemetry.metrics.job_metrics import step_values
from lab.telemetry.metrics.setting_metrics import link_values, setting_values
from lab.telemetry.read.dashboard import step_ranks
from lab.telemetry.read.recorded_jobs import recorded_jobs
from lab.telemetry.store.recording_folder import damage_as_invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from lab.telemetry.metrics.counter_metrics import Labels
    from lab.telemetry.metrics.metric_families import MetricFamily
    from lab.telemetry.read.recording import Recording

    Values = Iterable[tuple[MetricFamily, Labels, float]]
    Moments = Iterable[tuple[int, Values]]

"""The MAC address of an FDB entry for floods."""
_L2: Final = "L2"


def recorded_states(
    recording: Recording, times: NDArray[np.int64]
) -> Iterator[tuple[MetricFamily, Labels, list[float | None]]]:
    """Yield each series of these gauges: a value at each of ``times`` in ns, None where it did not exist.

    InvalidInput if the recording is damaged.
    """
    with damage_as_invalid(recording.folder.path):
        for moments in (*_links(recording), _settings(recording), _vteps(recording), *_steps(recording)):
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
    """Yield each link's end of the topology: as it was before, and after each event."""
    ends = {(end.node, end.interface) for link in recording.topology.links for end in link.ends}
    links = {
        (node, str(link["ifname"])): [(0, LinkState(link.get("operstate") == "UP", int(link["mtu"])))]
        for node, state in _before(recording).items()
        for link in state.get("links") or ()
        if (node, link["ifname"]) in ends
    }
    for event in recording.events(kind="link", source="kernel"):
        if (event.node, event.interface) in links:
            state = LinkState(bool(event.data["up"]), int(event.data["mtu"]))
            links[event.node, event.interface].append((event.ns, state))
    for place, states in links.items():
        yield [(ns, link_values({place: state})) for ns, state in states]


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


def _vteps(recording: Recording) -> Moments:
    """Yield the number of flood entries of each VNI that floods: zebra writes one for each remote VTEP."""
    overlay = recording.topology.overlay
    flooding = set() if overlay is None or overlay.multicast else {network.l2vni for network in overlay.networks}
    nodes: dict[str, Mapping[str, Any]] = {}
    for ns, changed in recording.forwarding_changes():
        if changed:
            nodes |= changed
            yield ns, list(_flooded(nodes, flooding))


def _flooded(nodes: Mapping[str, Mapping[str, Any]], flooding: set[int]) -> Values:
    for node, state in nodes.items():
        floods = [str(entry["ifname"]) for entry in state.get("fdb") or () if entry["mac"] == FLOOD_MAC]
        for interface in state.get("interfaces") or ():
            if (vni := interface.get("vni")) in flooding:
                labels = (node, str(vni), _L2, str(interface["name"]), "")
                yield families.REMOTE_VTEPS, labels, float(floods.count(interface["name"]))


def _steps(recording: Recording) -> Iterator[Moments]:
    """Yield each job: its ranks at the end of each step."""
    for job in recorded_jobs(recording):
        steps = sorted(job.steps, key=lambda step: step.end)
        yield [(step.end, step_values(step_ranks(job.name, step))) for step in steps]
