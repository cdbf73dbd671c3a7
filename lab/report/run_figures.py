"""The reported values of a run: each measure of each port in each phase, with its series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.telemetry.read import measures
from lab.telemetry.read.series import RecordingPhase

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import Series
    from lab.telemetry.read.window_measure import Measure

_PRIORITIES: Final = range(8)
WHOLE: Final = "whole run"
"""The name of the only phase of a recording without phases."""


@dataclass(frozen=True, slots=True)
class ReportFigure:
    """A figure and its source: port or device, series and phase."""

    kind: str
    """The measure: tx_bps (bit/s), paused (share of the phase), queue_peak_bytes, marked_packets or dropped_packets.

    For an RDMA device, one of its counters, for example out_of_seq_request.
    """
    of: str
    """A port or an RDMA device."""
    priority: int | None
    """null for plain links and RDMA devices."""
    series: str
    phase: str
    value: float


PORT_FIGURES: Final = (
    measures.TX_RATE, measures.PAUSED, measures.QUEUE_PEAK, measures.ECN_MARKED, measures.DROPPED,
)  # fmt: skip
"""The reported measures of a lossless port, by priority."""
LINK_FIGURES: Final = (measures.TX_RATE,)
"""The reported measures of a port of a plain link."""
DEVICE_FIGURES: Final = measures.LOSS_SIGNS
"""The reported measures of an RDMA device."""


def phases_of(recording: Recording) -> Sequence[RecordingPhase]:
    """Return the phases; for a recording without phases, one phase that covers all of it."""
    clock = recording.clock
    return recording.phases or (RecordingPhase(WHOLE, clock.start, clock.start + int(recording.seconds * 1e9)),)


def figures_of(recording: Recording) -> list[ReportFigure]:
    """Return all values of the measures that are not 0 in every phase."""
    phases = phases_of(recording)
    return [figure for rows in _rows(recording, phases) if any(row.value for row in rows) for figure in rows]


def _rows(recording: Recording, phases: Sequence[RecordingPhase]) -> Iterator[list[ReportFigure]]:
    for name, priority, measure, series in reported(recording):
        yield [
            ReportFigure(
                kind=measure.name,
                of=name,
                priority=priority,
                series=measure.series(priority),
                phase=phase.name,
                value=series.between(phase.start, phase.end).value(measure),
            )
            for phase in phases
        ]


def reported(recording: Recording) -> Iterator[tuple[str, int | None, Measure, Series]]:
    """Yield all reported measures: of ports by priority, and of RDMA devices."""
    for port, priority in lanes_of(recording):
        for measure in LINK_FIGURES if priority is None else PORT_FIGURES:
            yield port, priority, measure, recording.port(port).series(measure, priority)
    for name in recording.devices:
        device = recording.rdma(name)
        for measure in DEVICE_FIGURES:
            if device.counts(measure):
                yield name, None, measure, device.series(measure)


def lanes_of(recording: Recording) -> list[tuple[str, int | None]]:
    """Return each port and priority that ever sent, was paused or had a queue; priority None for a plain link."""
    found: list[tuple[str, int | None]] = []
    for name in recording.ports:
        port = recording.port(name)
        if port.plain:
            found.append((name, None))
            continue
        found.extend(
            (name, priority)
            for priority in _PRIORITIES
            if any(_moved(port.series(measure, priority)) for measure in PORT_FIGURES)
        )
    return found


def _moved(series: Series) -> bool:
    return bool(len(series)) and ((series.gauge and series.max > 0) or series.last != series.first)
