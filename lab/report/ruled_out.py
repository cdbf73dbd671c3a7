"""Causes that were ruled out, and counters that would have raised an alarm, each with its series and phase.

Nothing is ruled out for lack of data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.report.run_figures import DEVICE_FIGURES, phases_of
from lab.telemetry.read import measures
from lab.telemetry.store.session_states import kinds_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.report.run_figures import ReportFigure
    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase
    from lab.telemetry.read.window_measure import Measure

WORST: Final = "observe"
"""The name that scenarios give to the phase in which the fault has its full effect."""
_STOPPED: Final = 0.99
"""Share of a phase from which a port counts as stopped for good."""
_ALARMS: Final = 3


@dataclass(frozen=True, slots=True)
class RuledOut:
    """A cause that was ruled out."""

    what: str
    because: str
    """The figure that rules it out."""
    source: str
    """The series and phase of that figure."""


def broken_phase(recording: Recording, began: float | None) -> RecordingPhase:
    """Return the phase to examine: the one named ``WORST``, else the first that ends after the fault, else the last.

    ``began`` is the injection time of the first fault, in seconds of the recording; None without a fault.
    """
    phases = phases_of(recording)
    named = [phase for phase in phases if phase.name == WORST]
    start = recording.clock.start + int((began or 0.0) * 1e9)
    behind = [phase for phase in phases if began is not None and phase.end > start]
    return (named or behind or [phases[-1]])[0]


def ruled_out(recording: Recording, figures: Sequence[ReportFigure], phase: RecordingPhase) -> Iterator[RuledOut]:
    """Yield the causes for which the phase has no evidence."""
    if not len(recording.samples["ns"]):
        return
    yield from _by_ports(recording, figures, phase)
    if recording.devices and not any(_sum(figures, measure, phase) for measure in DEVICE_FIGURES):
        counters = ", ".join(measure.series() for measure in DEVICE_FIGURES)
        source = f"{counters} of all devices, phase {phase.name}"
        yield RuledOut("lost or retransmitted RDMA packets", "all these counters are 0", source)
    changes = (
        ("a link failure", "kernel", ("link",)),
        ("a lost session", "routing", kinds_of(recording.topology)),
    )
    for what, source, kinds in changes:
        told = [event for kind in kinds for event in recording.events(source=source, kind=kind, during=phase)]
        if kinds and not told:
            yield RuledOut(what, f"0 events {source} {', '.join(kinds)}", f"events.jsonl, phase {phase.name}")


def _by_ports(recording: Recording, figures: Sequence[ReportFigure], phase: RecordingPhase) -> Iterator[RuledOut]:
    """Yield the causes ruled out by counters of lossless ports; plain links do not have these."""
    if recording.topology.qos is None:
        return
    longest = max(_of(figures, measures.PAUSED, phase), key=lambda figure: figure.value, default=None)
    if longest is None or not longest.value:
        yield RuledOut("an effect of PFC", "no port was paused", _source(measures.PAUSED, phase))
    elif longest.value < _STOPPED:
        told = f"{longest.of} was paused longest, for {measures.PAUSED.format(longest.value)}"
        yield RuledOut("a permanently stopped port", told, f"{longest.series} of {longest.of}, phase {phase.name}")
    for measure, what in (
        (measures.ECN_MARKED, "a queue above Kmin with ECT packets"),
        (measures.DROPPED, "a drop counted by a port"),
    ):
        if not _sum(figures, measure, phase):
            yield RuledOut(what, f"0 {measure.meaning}", _source(measure, phase))


def _source(measure: Measure, phase: RecordingPhase) -> str:
    return f"{measure.series('{n}')} of all ports, phase {phase.name}"


def _of(figures: Sequence[ReportFigure], measure: Measure, phase: RecordingPhase) -> list[ReportFigure]:
    return [figure for figure in figures if (figure.kind, figure.phase) == (measure.name, phase.name)]


def _sum(figures: Sequence[ReportFigure], measure: Measure, phase: RecordingPhase) -> float:
    return sum(figure.value for figure in _of(figures, measure, phase))


def alarms(figures: Sequence[ReportFigure], first: str, phase: str) -> Iterator[str]:
    """Yield counters that would have raised an alarm: of each measure, the one that rose most since ``first``."""
    shown = 0
    for measure in (measures.PAUSED, measures.ECN_MARKED, measures.DROPPED, *DEVICE_FIGURES):
        name = measure.name
        before = {
            (each.of, each.priority): each.value for each in figures if (each.kind, each.phase) == (name, first)
        }
        rises = [
            (each.value - before.get((each.of, each.priority), 0.0), each)
            for each in figures
            if (each.kind, each.phase) == (name, phase) and phase != first
        ]
        rise, most = max(rises, key=lambda found: found[0], default=(0.0, None))
        if most is not None and rise > 0 and shown < _ALARMS:
            shown += 1
            was = before.get((most.of, most.priority), 0.0)
            yield (
                f"{most.series} of {most.of} would have raised an alarm: {measure.format(most.value)} in phase"
                f" {phase}, {measure.format(was)} in phase {first}"
            )
