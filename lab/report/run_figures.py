"""The figures of a run: what each counter says of each port in each phase, and which series says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError
from lab.telemetry.read.series import RecordingPhase
from lab.units import format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import Series

_PRIORITIES: Final = range(8)
WHOLE: Final = "whole run"
"""What stands for the phases of a recording that has none."""


@dataclass(frozen=True, slots=True)
class FigureKind:
    """A kind of figure: what it is called, its unit, how it comes from a series, and of which series."""

    name: str
    unit: str
    meaning: str
    table: str
    reduce: Callable[[Series, RecordingPhase], float]
    column: str

    def series(self, priority: int | None) -> str:
        """The name of the counter that it comes from, for a priority."""
        return self.column.replace("{n}", "" if priority is None else str(priority))


@dataclass(frozen=True, slots=True)
class ReportFigure:
    """A value, with where it comes from: a port or device, the series, the phase."""

    kind: str
    of: str
    priority: int | None
    series: str
    phase: str
    value: float


def _share(series: Series, phase: RecordingPhase) -> float:
    return series.delta() / 1e6 / phase.seconds if phase.seconds else 0.0


KINDS: Final = (
    FigureKind("sent", "bit/s", "bits of frames sent in a second, without FCS", "priorities",
         lambda series, _: series.rate() * 8, "tx_prio{n}_bytes"),
    FigureKind("paused", "share", "share of the time in which it might not send", "priorities",
         _share, "rx_prio{n}_pause_duration"),
    FigureKind("deepest", "B", "most bytes that waited in the queue when a sample was taken", "queues",
         lambda series, _: series.max, "queue{n}_depth_bytes"),
    FigureKind("marked", "packets", "packets marked CE", "queues",
         lambda series, _: series.delta(), "queue{n}_ecn_marked"),
    FigureKind("dropped", "packets", "packets dropped, for any reason", "queues",
         lambda series, _: series.delta(), "queue{n}_drop_*_packets"),
)  # fmt: skip
"""What is told of a lossless port."""
PLAIN: Final = (
    FigureKind("sent", "bit/s", "bits of frames sent in a second", "interfaces",
         lambda series, _: series.rate() * 8, "tx_bytes"),
)  # fmt: skip
"""What is told of a port of a fabric of plain links."""
AGAIN: Final = (
    "out_of_seq_request", "rcvd_seq_err", "duplicate_request", "completer_retry_err", "retry_exceeded_err",
    "rcvd_rnr_err",
)  # fmt: skip
"""Counters of an RDMA device that tell of packets lost, or sent again."""
DEVICE: Final = tuple(
    FigureKind(name, "count", f"{name} of the device", "rdma", lambda series, _: series.delta(), name)
    for name in AGAIN
)


def phases_of(recording: Recording) -> Sequence[RecordingPhase]:
    """The phases; of a recording that has none the whole of it."""
    clock = recording.clock
    return recording.phases or (RecordingPhase(WHOLE, clock.start, clock.start + int(recording.seconds * 1e9)),)


def figures_of(recording: Recording) -> list[ReportFigure]:
    """All figures that are not nothing in every phase."""
    phases = phases_of(recording)
    return [figure for rows in _rows(recording, phases) if any(row.value for row in rows) for figure in rows]


def _rows(recording: Recording, phases: Sequence[RecordingPhase]) -> Iterator[list[ReportFigure]]:
    for name, priority, kind, series in counted(recording):
        yield [
            ReportFigure(kind.name, name, priority, kind.series(priority), phase.name, _value(kind, series, phase))
            for phase in phases
        ]


def _value(kind: FigureKind, series: Series, phase: RecordingPhase) -> float:
    return float(kind.reduce(series.between(phase.start, phase.end), phase))


def counted(recording: Recording) -> Iterator[tuple[str, int | None, FigureKind, Series]]:
    """Everything that figures are told of: of ports by priority, and of RDMA devices."""
    for port, priority in lanes_of(recording):
        for kind in PLAIN if priority is None else KINDS:
            yield port, priority, kind, series_of(recording, port, priority, kind)
    for device in recording.devices:
        known: Mapping[str, bool] = recording.rdma(device).counters
        for kind in DEVICE:
            if kind.column in known:
                yield device, None, kind, recording.rdma(device).counter(kind.column)


def lanes_of(recording: Recording) -> list[tuple[str, int | None]]:
    """Ports with each of their priorities that ever sent, was paused or had a queue; None on a plain link."""
    found: list[tuple[str, int | None]] = []
    for port in recording.ports:
        if _is_plain(recording, port):
            found.append((port, None))
            continue
        found.extend(
            (port, priority)
            for priority in _PRIORITIES
            if any(_moved(series_of(recording, port, priority, kind)) for kind in KINDS)
        )
    return found


def series_of(recording: Recording, port: str, priority: int | None, kind: FigureKind) -> Series:
    """The series that a figure of a port comes from."""
    if kind.name == "dropped":
        return recording.port(port).drops(priority)
    return recording.port(port).counter(kind.series(priority))


def _is_plain(recording: Recording, port: str) -> bool:
    try:
        recording.port(port).counter("tx_prio0_bytes")
    except UsageError:
        return True
    return False


def _moved(series: Series) -> bool:
    return bool(len(series)) and ((series.gauge and series.max > 0) or series.last != series.first)


def value(kind: FigureKind, number: float) -> str:
    """A figure with its unit."""
    if kind.unit == "bit/s":
        return format_rate(round(number))
    if kind.unit == "B":
        return format_size(round(number))
    return f"{number:.1%}" if kind.unit == "share" else f"{number:.0f}"
