"""The facts of a report: gathered once from the recording; Markdown, JSON and the page render the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from lab.diagnose.run import diagnose_run
from lab.report.busiest_moment import busiest_moment
from lab.report.job.request_tables import RequestTransfer, request_transfers
from lab.report.job.step_tables import ReportedJob, reported_jobs
from lab.report.merged_events import queue_pair_moments, route_moments
from lab.report.packet_picks import Packet, packets_of
from lab.report.pause_list import PauseInterval, pauses_of
from lab.report.qp_limits import ReportedQp, limit_moments, reported_qps
from lab.report.ruled_out import RuledOut, alarms, broken_phase, ruled_out
from lab.report.run_figures import ReportFigure, figures_of, phases_of
from lab.report.scenario_text import ScenarioText, Story, story_of
from lab.report.timeline_entry import TimelineEntry
from lab.telemetry.read.recorded_events import COMMAND, event_text
from lab.telemetry.store.recording_folder import damage_as_invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.diagnose.diagnosis import Diagnosis
    from lab.telemetry.read.recorded_events import RecordedEvent
    from lab.telemetry.read.recording import RecordedCommand, Recording

_NS: Final = 10**9
_MANY: Final = {"paused", "resumed", "expired", "xoff_sent", "xon_sent", "pause_ignored", "group_drops"}
"""Kinds of events that ports report by the hundred: the report only has their number."""
_QUIET: Final = {"phase", "qp", "route"}
"""Kinds of events that the timeline shows by other means."""


@dataclass(frozen=True, slots=True)
class Span:
    """A phase, in seconds of the recording."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class ReportedFault:
    """An injected fault, its place and time in seconds of the recording."""

    kind: str
    place: str
    parameters: dict[str, str]
    says: str
    """Description of the kind; empty if the kind is unknown."""
    start: float
    end: float | None = None
    """null if the fault was not healed."""
    story: bool = True
    """Whether it is the fault of the run; false for faults set up before the first phase."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A transfer of a pair, and the phase in which it began; empty before the first phase."""

    pair: str
    verb: str
    phase: str
    start: float
    """Seconds since the start of the recording."""
    seconds: float
    """Duration measured by perftest."""
    bytes: int
    """Payload bytes."""
    messages: int
    goodput_bps: float
    message_median: float | None
    """Seconds; null if messages were not timed individually."""
    message_max: float | None


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """The facts of a report."""

    name: str
    fabric: str
    began: str
    start_ns: int
    """The start, in ns of CLOCK_MONOTONIC."""
    seconds: float
    hz: float
    samples: int
    complete: bool
    why: str
    host: dict[str, str]
    parameters: dict[str, Any]
    told: ScenarioText
    story: Story
    phases: tuple[Span, ...]
    faults: tuple[ReportedFault, ...]
    pauses: tuple[PauseInterval, ...]
    timeline: tuple[TimelineEntry, ...]
    counts: dict[str, int]
    figures: tuple[ReportFigure, ...]
    transfers: tuple[Moved, ...]
    commands: tuple[RecordedCommand, ...]
    diagnosis: Diagnosis | None
    """None for recordings of a scenario, and for those with fewer than two samples."""
    unknowns: tuple[str, ...]
    settings: tuple[TimelineEntry, ...] = ()
    """Settings changed on ports by ``rocelab qos set``, in the phases or between them."""
    busiest: float = 0.0
    """The busiest time, in seconds of the recording."""
    ruled: tuple[RuledOut, ...] = ()
    alarms: tuple[str, ...] = ()
    """Counters that would have raised an alarm, with their values."""
    packets: tuple[Packet, ...] = ()
    """Packets of interest in the captures."""
    limited: tuple[ReportedQp, ...] = ()
    """QPs that congestion control limited, the one that it limited most first."""
    jobs: tuple[ReportedJob, ...] = ()
    """Training jobs of the run, with every step of every rank."""
    requests: tuple[RequestTransfer, ...] = ()
    """Transfers of the run, with every request."""

    @property
    def broken_from(self) -> float:
        """The injection time of the first fault that is the subject of the run, in seconds; 0 if there is none."""
        return next((fault.start for fault in self.faults if fault.story), 0.0)

    @property
    def standstills(self) -> tuple[PauseInterval, ...]:
        """The first lasting pause of each port and priority, by start time."""
        first: dict[tuple[str, int], PauseInterval] = {}
        for pause in self.pauses:
            if pause.lasting:
                first.setdefault((pause.port, pause.priority), pause)
        return tuple(first.values())


def gather(recording: Recording, told: ScenarioText) -> ReportFacts:
    """Read a recording. InvalidInput if a file of it is damaged, or has content that no recorder writes."""
    with damage_as_invalid(recording.folder.path):
        return _gathered(recording, told)


def _gathered(recording: Recording, told: ScenarioText) -> ReportFacts:
    faults = _faults(recording, told)
    pauses = tuple(pauses_of(recording))
    packets, unread = packets_of(recording)
    free = "scenario" not in recording.parameters
    diagnosis = diagnose_run(recording) if free and len(recording.samples["ns"]) > 1 else None
    made = ReportFacts(
        name=recording.name,
        fabric=recording.fabric,
        began=_wall(recording),
        start_ns=recording.clock.start,
        seconds=recording.seconds,
        hz=recording.hz,
        samples=len(recording.samples["ns"]),
        complete=not recording.incomplete,
        why=recording.why,
        host={str(name): str(value) for name, value in recording.host.items()},
        parameters={str(name): value for name, value in (recording.parameters.get("params") or {}).items()},
        told=told,
        story=story_of(told.text),
        phases=tuple(_spans(recording)),
        faults=faults,
        pauses=pauses,
        timeline=(),
        counts=dict(Counter(f"{event.source} {event.kind}" for event in recording.events())),
        figures=tuple(figures_of(recording)),
        transfers=tuple(_moved(recording)),
        commands=recording.commands,
        diagnosis=diagnosis,
        unknowns=(*_unknowns(recording, told, diagnosis), *unread),
        settings=tuple(_settings(recording)),
        busiest=busiest_moment(recording),
        packets=tuple(packets),
        limited=tuple(reported_qps(recording)),
        jobs=reported_jobs(recording),
        requests=request_transfers(recording),
    )
    broken = broken_phase(recording, next((fault.start for fault in faults if fault.story), None))
    return replace(
        made,
        timeline=tuple(sorted(_timeline(recording, made), key=lambda moment: moment.at)),
        ruled=tuple(ruled_out(recording, made.figures, broken)),
        alarms=tuple(alarms(made.figures, phases_of(recording)[0].name, broken.name)),
    )


def _wall(recording: Recording) -> str:
    return recording.began.isoformat(timespec="seconds")


def _spans(recording: Recording) -> Iterator[Span]:
    start = recording.clock.start
    for phase in phases_of(recording):
        yield Span(phase.name, (phase.start - start) / _NS, (phase.end - start) / _NS)


def _moved(recording: Recording) -> Iterator[Moved]:
    phases = phases_of(recording)
    for each in recording.transfers():
        phase = next((phase.name for phase in phases if phase.start <= each.ns <= phase.end), "")
        start = (each.ns - recording.clock.start) / _NS
        yield Moved(
            pair=each.pair,
            verb=each.verb,
            phase=phase,
            start=start,
            seconds=each.seconds,
            bytes=each.bytes,
            messages=each.messages,
            goodput_bps=each.goodput_bps,
            message_median=each.message_median,
            message_max=each.message_max,
        )


def _faults(recording: Recording, told: ScenarioText) -> tuple[ReportedFault, ...]:
    """Read the injected faults; a heal ends the first open fault of the same kind and place."""
    found: list[ReportedFault] = []
    began = recording.phases[0].start if recording.phases else recording.clock.start
    for line in recording.truth():
        at = (line["ns"] - recording.clock.start) / _NS
        kind, place = str(line.get("kind", "")), str(line.get("place", ""))
        if line.get("did") == "heal":
            for number, fault in enumerate(found):
                if (fault.kind, fault.place, fault.end) == (kind, place, None):
                    found[number] = replace(fault, end=at)
                    break
        else:
            given = line.get("parameters")
            parameters = {str(key): str(value) for key, value in given.items()} if isinstance(given, dict) else {}
            found.append(
                ReportedFault(
                    kind=kind,
                    place=place,
                    parameters=parameters,
                    says=(told.kinds or {}).get(kind, ""),
                    start=at,
                    story=line["ns"] >= began,
                )
            )
    return tuple(found)


def _settings(recording: Recording) -> Iterator[TimelineEntry]:
    for event in recording.events(source="caller", kind="note"):
        if event.data.get("text") == COMMAND:
            yield TimelineEntry(event.seconds, event_text(event), "notes.jsonl")


def _timeline(recording: Recording, facts: ReportFacts) -> Iterator[TimelineEntry]:
    for phase in facts.phases:
        yield TimelineEntry(phase.start, f"phase {phase.name} begins", "notes.jsonl")
    for fault in facts.faults:
        what = "injected" if fault.story else "set up before the first phase"
        yield TimelineEntry(fault.start, f"{what}: {named(fault)}", "truth/truth.jsonl")
        if fault.end is not None:
            yield TimelineEntry(fault.end, f"healed: {fault.kind} at {fault.place}", "truth/truth.jsonl")
    for pause in facts.standstills:
        told = f"{pause.port} is stopped: paused in priority {pause.priority} for {pause.seconds:.3g} s"
        yield TimelineEntry(pause.start, told + (", to the end" if pause.open else ""), "events.jsonl: paused")
    for command in facts.commands:
        at = (command.ns - recording.clock.start) / _NS
        yield TimelineEntry(at, command.text, "commands.jsonl")
    yield from queue_pair_moments(recording)
    yield from route_moments(recording)
    yield from limit_moments(recording)
    for event in recording.events():
        if event.kind not in _MANY | _QUIET and not _is_first_look(event):
            yield TimelineEntry(
                event.seconds, _line(event), "notes.jsonl" if event.source == "caller" else "events.jsonl"
            )


def _is_first_look(event: RecordedEvent) -> bool:
    """Whether an event is no change: the initial state of a session, a hold of the scenario, or a neighbour entry."""
    looked = event.source == "routing" and event.data.get("before") == ""
    return looked or event.data.get("text") == "hold" or event.kind == "neighbour"


def _line(event: RecordedEvent) -> str:
    where = ":".join(part for part in (event.node, event.interface) if part)
    return f"{where}: {event_text(event)}" if where else event_text(event)


def named(fault: ReportedFault) -> str:
    """Return a fault in the words of the command line."""
    return " ".join([fault.kind, fault.place, *(f"{name}={value}" for name, value in fault.parameters.items())])


def _unknowns(recording: Recording, told: ScenarioText, diagnosis: Diagnosis | None) -> Iterator[str]:
    if recording.why:
        yield f"The run ended early: {recording.why}. Later events are unknown."
    if diagnosis is not None:
        yield from (f"Unavailable to the diagnosis: {line}." for line in diagnosis.missing)
    elif told.why:
        yield f"No check judges this run: {told.why}."
    yield from (f"{check.name}: {check.evidence}." for check in told.checks if check.outcome == "unknown")
    if recording.truth() and diagnosis is None:
        yield "The cause is known because it was injected. This report contains no diagnosis."
    yield from _not_recorded(recording)


def _not_recorded(recording: Recording) -> Iterator[str]:
    samples: Sequence[Any] = recording.samples["ns"]
    if not len(samples):
        yield "The recording has no samples, and so no figures."
    else:
        yield (f"Counters were read {recording.hz:g} times a second: between two samples only events are known.")
    if recording.skipped:
        yield f"{recording.skipped} samples were missed, because the machine was busy."
    if not recording.captures:
        yield "No packets were captured: individual packets, sequence numbers and NAKs are unknown."
    if not recording.commands:
        yield "No rocelab command was recorded: actions on the fabric during the run are unknown."
