"""The values of two recordings, paired by name: ports, devices, shared buffers, transfers and phases."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.report.compare.changes import ComparedValue
from lab.report.compare.compared_measures import (
    BUFFER_COMPARED,
    COMPLETION,
    DEVICE_COMPARED,
    DURATION,
    GOODPUT,
    LINK_COMPARED,
    LOSS_COMPARED,
    MEDIAN_MESSAGE,
    PAYLOAD,
    PORT_COMPARED,
    SLOWEST_MESSAGE,
)
from lab.report.compare.figures_in_window import WindowCounters, WindowFigure
from lab.telemetry.read.window_measure import LINK_TABLE, MeasureScope

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from lab.report.compare.figures_in_window import FigureLine
    from lab.report.compare.run_window import ComparedRun
    from lab.telemetry.read.transfers import Transfer
    from lab.telemetry.read.window_measure import Measure

_NOTHING: Final = WindowFigure()


@dataclass(frozen=True, slots=True)
class PairedNames:
    """Names of one kind of object: those in both recordings, and those in one only."""

    both: tuple[str, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


def paired_names(a: Iterable[str], b: Iterable[str]) -> PairedNames:
    """Divide names by the recordings that have them, keeping their order."""
    first, second = dict.fromkeys(a), dict.fromkeys(b)
    return PairedNames(
        tuple(name for name in first if name in second),
        tuple(name for name in first if name not in second),
        tuple(name for name in second if name not in first),
    )


def port_names(counters: WindowCounters) -> list[str]:
    """Return all ports of a recording."""
    return counters.names(MeasureScope.PORT.table, LINK_TABLE)


def port_values(a: WindowCounters, b: WindowCounters, names: Sequence[str]) -> Iterator[ComparedValue]:
    """Yield the measures of the ports in both runs; for a plain link in either run, only those of plain links."""
    plain = (a.plain_ports | b.plain_ports) & set(names)
    yield from counted_values(PORT_COMPARED, a, b, set(names) - plain)
    for measure in LINK_COMPARED if plain else ():
        yield from _values(measure, _without_priority(a, measure), _without_priority(b, measure), plain)


def counted_values(
    compared: Iterable[Measure], a: WindowCounters, b: WindowCounters, names: Collection[str]
) -> Iterator[ComparedValue]:
    """Yield the measures that both recordings count, for ports, devices or nodes that exist in both."""
    for measure in compared:
        if names and a.counts(measure) and b.counts(measure):
            yield from _values(measure, a.figures(measure), b.figures(measure), names)


def device_values(a: WindowCounters, b: WindowCounters, names: Sequence[str]) -> Iterator[ComparedValue]:
    """Yield the measures of the RDMA devices in both runs."""
    yield from counted_values(DEVICE_COMPARED, a, b, names)


def buffer_values(a: WindowCounters, b: WindowCounters, names: Sequence[str]) -> Iterator[ComparedValue]:
    """Yield the measures of the nodes' shared buffers."""
    yield from counted_values(BUFFER_COMPARED, a, b, names)


def transfers_by_name(run: ComparedRun, *, phases: bool) -> dict[str, Transfer]:
    """Return the transfers begun in the window by pair, verb and, with ``phases``, phase; a second one is ``#2``."""
    count: Counter[str] = Counter()
    found: dict[str, Transfer] = {}
    for each in run.recording.transfers(run.window):
        within = (phase.name for phase in run.recording.phases if phase.start <= each.ns <= phase.end)
        phase = next(within, "") if phases else ""
        name = f"{each.pair} {each.verb}{f' in {phase}' if phase else ''}"
        count[name] += 1
        found[name if count[name] == 1 else f"{name} #{count[name]}"] = each
    return found


def transfer_values(name: str, a: Transfer, b: Transfer) -> Iterator[ComparedValue]:
    """Yield the measures of a transfer; times only if both runs moved the same size."""
    figures: list[tuple[Measure, float | None, float | None]] = [
        (GOODPUT, a.goodput_bps, b.goodput_bps),
        (PAYLOAD, a.bytes, b.bytes),
    ]
    if a.bytes == b.bytes:
        figures.append((COMPLETION, a.seconds, b.seconds))
    if a.size == b.size:
        figures.append((MEDIAN_MESSAGE, a.message_median, b.message_median))
        figures.append((SLOWEST_MESSAGE, a.message_max, b.message_max))
    for measure, one, other in figures:
        if one is not None and other is not None:
            yield ComparedValue(
                of=name, priority=None, measure=measure, a=WindowFigure(one, one), b=WindowFigure(other, other)
            )


def phase_values(name: str, a: ComparedRun, b: ComparedRun) -> Iterator[ComparedValue]:
    """Yield totals of a phase over the ports and devices in both runs: sums, and maxima of peaks and shares."""
    lasted, other = a.recording.phase(name).seconds, b.recording.phase(name).seconds
    yield ComparedValue(
        of=name, priority=None, measure=DURATION, a=WindowFigure(lasted, lasted), b=WindowFigure(other, other)
    )
    one, two = (WindowCounters(each.recording, each.recording.phase(name)) for each in (a, b))
    ports = paired_names(port_names(one), port_names(two)).both
    yield from _altogether(name, port_values(one, two, ports))
    devices = paired_names(*(each.names(MeasureScope.DEVICE.table) for each in (one, two))).both
    yield from _altogether(name, counted_values(LOSS_COMPARED, one, two, devices))


def _altogether(name: str, values: Iterable[ComparedValue]) -> Iterator[ComparedValue]:
    by_measure: dict[str, list[ComparedValue]] = {}
    for value in values:
        by_measure.setdefault(value.measure.name, []).append(value)
    for group in by_measure.values():
        measure = group[0].measure
        a, b = (_combined(measure, side) for side in ([each.a for each in group], [each.b for each in group]))
        yield ComparedValue(of=name, priority=None, measure=measure, a=a, b=b)


def _combined(measure: Measure, figures: list[WindowFigure]) -> WindowFigure:
    values, totals = (np.array(each) for each in zip(*((each.value, each.total) for each in figures), strict=True))
    return WindowFigure(measure.combine(values), measure.combine(totals))


def _values(
    measure: Measure,
    a: dict[FigureLine, WindowFigure],
    b: dict[FigureLine, WindowFigure],
    names: Collection[str],
) -> Iterator[ComparedValue]:
    for line in dict.fromkeys([*a, *b]):
        if line[0] in names:
            of, priority = line
            yield ComparedValue(
                of=of, priority=priority, measure=measure, a=a.get(line, _NOTHING), b=b.get(line, _NOTHING)
            )


def _without_priority(counters: WindowCounters, measure: Measure) -> dict[FigureLine, WindowFigure]:
    """Return the values of each port, summed over its priorities."""
    found: dict[FigureLine, WindowFigure] = {}
    for (name, _), figure in counters.figures(measure).items():
        before = found.get((name, None), _NOTHING)
        found[name, None] = WindowFigure(before.value + figure.value, before.total + figure.total)
    return found
