"""A recording as Prometheus would have scraped it: the values of metric families at regular times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.errors import UsageError
from lab.model.addressing import plan_addresses
from lab.telemetry.alerts.recorded_states import recorded_states
from lab.telemetry.metrics.counter_metrics import CounterMetrics, scaled
from lab.telemetry.metrics.metric_families import (
    BFD_STATE,
    BGP_STATE,
    COLLECTOR_UP,
    INSTANCE,
    VIRTUAL_SECONDS,
    MetricType,
)
from lab.telemetry.read.window_measure import MeasureScope
from lab.telemetry.store.session_states import UP

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lab.model.qos.port import NodeQos
    from lab.telemetry.metrics.metric_families import MetricFamily
    from lab.telemetry.read.recorded_events import RecordedEvent
    from lab.telemetry.read.recording import Recording

_NS: Final = 10**9
_GONE: Final = "gone"
_COLLECTED: Final = frozenset({"bgpd", "bfdd", "zebra"})
"""The daemons that frr_exporter asks."""
_SILENCE: Final = 3 * _NS // 2
"""How long a daemon counts as silent, in ns: the recorder repeats the event each second."""


@dataclass(frozen=True, slots=True)
class RecordedSeries:
    """One series: a value at each scrape, None where it did not exist."""

    name: str
    labels: Mapping[str, str]
    values: Sequence[float | None]


def scrape_times(recording: Recording, every: float) -> NDArray[np.int64]:
    """Return the times of scrapes in ns: ``every`` so many seconds from the first phase or sample to the last sample.

    Before its first phase, a scenario prepares the fabric: it changes rates and thresholds.
    """
    ns = recording.samples["ns"]
    if not len(ns):
        return np.zeros(0, np.int64)
    began = min((phase.start for phase in recording.clock.phases.values()), default=int(ns[0]))
    return np.arange(max(began, int(ns[0])), int(ns[-1]) + 1, round(every * _NS), dtype=np.int64)


def recorded_series(
    recording: Recording, times: NDArray[np.int64], wanted: Collection[str]
) -> Iterator[RecordedSeries]:
    """Yield all series of the ``wanted`` families, at ``times``."""
    seconds = (times / _NS).tolist()
    yield RecordedSeries(VIRTUAL_SECONDS.name, {"fabric": recording.fabric}, seconds)
    yield from _counters(recording, times, wanted)
    yield from _sessions(recording, times)
    for family, labels, values in recorded_states(recording, times):
        if family.name in wanted:
            yield RecordedSeries(family.name, dict(zip(family.label_names, labels, strict=True)), values)


def _counters(recording: Recording, times: NDArray[np.int64], wanted: Collection[str]) -> Iterator[RecordedSeries]:
    counted = recording.counted
    at = np.maximum(np.searchsorted(recording.samples["ns"], times, "right") - 1, 0)
    metrics = CounterMetrics(
        {table: counted.keys(table) for table in counted.tables},
        {table: set(counted.columns(table)) for table in counted.tables},
        recording.topology,
        _qos(recording),
    )
    for family, part in metrics.parts:
        if family.name not in wanted or not part.labels:
            continue
        column = counted.samples_of(part.part.table, part.part.column, slice(None))[at]
        values = np.stack([part.values(row) for row in column])
        if part.part.table != MeasureScope.DEVICE.table and family.kind is MetricType.COUNTER:
            values = np.maximum.accumulate(values)  # a pause in progress may have been read as too long
        for number in np.flatnonzero(part.lasting | values.any(axis=0)).tolist():
            labels = dict(zip(family.label_names, part.labels[number], strict=True))
            yield RecordedSeries(family.name, labels, scaled(values[:, number], part.part.scale))


def _qos(recording: Recording) -> Mapping[str, NodeQos]:
    try:
        return recording.qos()
    except UsageError:  # without the state at its beginning, only what counted is known
        return {}


def _sessions(recording: Recording, times: NDArray[np.int64]) -> Iterator[RecordedSeries]:
    """Yield the sessions of BGP and BFD, and whether daemons answered, from events."""
    peers = {str(end): link.other(end) for link in recording.topology.links for end in link.ends}
    plans = plan_addresses(recording.topology)
    daemons = _answering(recording, times)
    for kind, family, label in (("bgp", BGP_STATE, "peer"), ("bfd", BFD_STATE, "interface")):
        changes: dict[tuple[str, str], list[RecordedEvent]] = {}
        for event in recording.events(kind=kind, source="routing"):
            changes.setdefault((event.node, event.interface), []).append(event)
        for (node, interface), events in changes.items():
            labels = {INSTANCE: node, label: interface}
            if family is BGP_STATE:
                peer = peers.get(f"{node}:{interface}")
                labels |= {"vrf": "default", "peer_desc": str(peer or interface)}
                labels |= {} if peer is None else {"peer_as": str(plans[peer.node].asn)}
            states = _at(times, [(event.ns, _state(kind, event.data)) for event in events])
            up = daemons.get((node, kind), [1.0] * len(times))
            shown = [state if answers else None for state, answers in zip(states, up, strict=True)]
            yield _of(family, labels, shown)
    for (node, kind), values in daemons.items():
        yield _of(COLLECTOR_UP, {INSTANCE: node, "collector": kind}, values)


def _of(family: MetricFamily, labels: Mapping[str, str], values: Sequence[float | None]) -> RecordedSeries:
    return RecordedSeries(family.name, labels, values)


def _state(kind: str, data: Mapping[str, Any]) -> float | None:
    state = data.get("state")
    return None if state == _GONE else float(state == UP[kind])


def _at(times: NDArray[np.int64], changes: Sequence[tuple[int, float | None]]) -> list[float | None]:
    """Return the value at each time: None before the first change."""
    places = np.searchsorted([ns for ns, _ in changes], times, "right").tolist()
    return [changes[place - 1][1] if place else None for place in places]


def _answering(recording: Recording, times: NDArray[np.int64]) -> dict[tuple[str, str], list[float]]:
    """Return whether daemons answered, by node and protocol; without events bgpd and bfdd did."""
    found: dict[tuple[str, str], list[float]] = {}
    for event in recording.events(source="routing"):
        daemon = str(event.data.get("daemon", ""))
        if daemon not in _COLLECTED:
            if event.kind in {"bgp", "bfd"}:
                found.setdefault((event.node, event.kind), [1.0] * len(times))
            continue
        values = found.setdefault((event.node, daemon.removesuffix("d")), [1.0] * len(times))
        begin, end = np.searchsorted(times, [event.ns, event.ns + _SILENCE]).tolist()
        if event.kind == "daemon_silent":
            values[begin:end] = [0.0] * (end - begin)
        elif event.kind in {"daemon_lost", "daemon_back"}:
            values[begin:] = [float(event.kind == "daemon_back")] * (len(times) - begin)
    return found
