"""The result of a comparison: all changes from recording A to recording B. Computed by ``compare_runs``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.report.compare.changes import ComparedValue, ranked
from lab.report.compare.job_values import job_values, jobs_by_name
from lab.report.compare.paired_values import (
    buffer_values,
    device_values,
    paired_names,
    phase_values,
    port_names,
    port_values,
    transfer_values,
    transfers_by_name,
)
from lab.report.compare.queue_pair_values import queue_pair_values, queue_pairs_by_name
from lab.report.compare.request_values import request_values, requests_by_name
from lab.telemetry.read.window_measure import MeasureScope
from lab.telemetry.store.recording_folder import damage_as_invalid
from lab.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lab.diagnose.diagnosis import Found
    from lab.report.compare.paired_values import PairedNames
    from lab.report.compare.run_window import ComparedRun
    from lab.report.scenario_text import Check

_SAME_LENGTH: Final = 0.05
"""Two windows have the same length if they differ by at most this share of the longer one."""


@dataclass(frozen=True, slots=True)
class ComparedSection:
    """One kind of object: its values, changed ones first, and the names that exist in one recording only."""

    name: str
    """jobs, requests, transfers, queue_pairs, ports, devices, buffers or phases."""
    noun: str
    names: PairedNames
    values: tuple[ComparedValue, ...]

    @property
    def title(self) -> str:
        """The name as a heading."""
        return self.name.replace("_", " ")

    @property
    def changes(self) -> tuple[ComparedValue, ...]:
        """The values that changed, the largest change first."""
        return tuple(each for each in self.values if each.changed)

    @property
    def unchanged(self) -> int:
        """The number of objects in both recordings without a changed value."""
        return len(self.names.both) - len({each.of for each in self.changes})

    @property
    def changed(self) -> bool:
        """Whether a value changed, or an object exists in one recording only."""
        return bool(self.changes or self.names.only_a or self.names.only_b)


@dataclass(frozen=True, slots=True)
class ComparedCheck:
    """A check of a scenario: its outcome and evidence in each run, None if the run has no such check."""

    name: str
    a: str | None
    b: str | None
    evidence_a: str = ""
    evidence_b: str = ""

    @property
    def changed(self) -> bool:
        """Whether the outcome differs."""
        return self.a != self.b


@dataclass(frozen=True, slots=True)
class ComparedCause:
    """A diagnosed cause, with its confidence from 0 to 1 in each run; None if it is not diagnosed there."""

    cause: str
    title: str
    places: tuple[str, ...]
    priority: int | None
    a: float | None
    b: float | None

    @property
    def changed(self) -> bool:
        """Whether the cause is diagnosed in one run only."""
        return (self.a is None) != (self.b is None)


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The comparison of two recordings, A and B."""

    a: ComparedRun
    b: ComparedRun
    notes: tuple[str, ...]
    """Caveats that the reader needs to judge the values, one a line."""
    outcomes: tuple[str, str]
    """The scenario's verdict on each run: pass, fail or unknown; empty without a scenario."""
    checks: tuple[ComparedCheck, ...]
    diagnoses: tuple[str, str]
    causes: tuple[ComparedCause, ...]
    sections: tuple[ComparedSection, ...]

    @property
    def changed(self) -> bool:
        """Whether anything changed: a value, an outcome, a cause, or the set of objects."""
        return (
            self.outcomes[0] != self.outcomes[1]
            or self.diagnoses[0] != self.diagnoses[1]
            or any(each.changed for group in (self.checks, self.causes, self.sections) for each in group)
        )


def compare_runs(a: ComparedRun, b: ComparedRun, threshold: float, *, phases: bool) -> RunComparison:
    """Compare two recordings or windows of them; ``phases`` also compares phases of the same name.

    InvalidInput if a recording is damaged.
    """
    with damage_as_invalid(a.recording.folder.path), damage_as_invalid(b.recording.folder.path):
        sections = tuple(each for each in _sections(a, b, threshold, phases=phases) if any(_all_names(each)))
        return RunComparison(
            a, b,
            notes=tuple(_notes(a, b, sections)),
            outcomes=(a.told.outcome, b.told.outcome),
            checks=tuple(_checks(a, b)),
            diagnoses=(a.diagnosis.outcome.value, b.diagnosis.outcome.value),
            causes=tuple(_causes(a, b)),
            sections=sections,
        )  # fmt: skip


def _all_names(section: ComparedSection) -> tuple[tuple[str, ...], ...]:
    return section.names.both, section.names.only_a, section.names.only_b


_COUNTED: Final = (
    ("devices", "RDMA device", MeasureScope.DEVICE.table, device_values),
    ("buffers", "shared buffer", MeasureScope.NODE.table, buffer_values),
)


def _sections(a: ComparedRun, b: ComparedRun, threshold: float, *, phases: bool) -> Iterator[ComparedSection]:
    def section(name: str, noun: str, names: PairedNames, values: Iterable[ComparedValue]) -> ComparedSection:
        return ComparedSection(name=name, noun=noun, names=names, values=ranked(values, threshold))

    phases = phases and bool(a.recording.phases and b.recording.phases)
    jobs = jobs_by_name(a), jobs_by_name(b)
    names = paired_names(*jobs)
    values = [value for name in names.both for value in job_values(name, jobs[0][name], jobs[1][name])]
    yield section("jobs", "job", names, values)
    asked = requests_by_name(a), requests_by_name(b)
    names = paired_names(*asked)
    values = [value for name in names.both for value in request_values(name, asked[0][name], asked[1][name])]
    yield section("requests", "transfer with requests", names, values)
    moved = transfers_by_name(a, phases=phases), transfers_by_name(b, phases=phases)
    names = paired_names(*moved)
    values = [value for name in names.both for value in transfer_values(name, moved[0][name], moved[1][name])]
    yield section("transfers", "transfer", names, values)
    pairs = queue_pairs_by_name(a.recording, a.window), queue_pairs_by_name(b.recording, b.window)
    names = paired_names(*pairs)
    values = [value for name in names.both for value in queue_pair_values(name, pairs[0][name], pairs[1][name])]
    yield section("queue_pairs", "queue pair", names, values)
    ports = paired_names(port_names(a.counters), port_names(b.counters))
    yield section("ports", "port", ports, port_values(a.counters, b.counters, ports.both))
    for name, noun, table, made in _COUNTED:
        names = paired_names(a.counters.names(table), b.counters.names(table))
        yield section(name, noun, names, made(a.counters, b.counters, names.both))
    if phases:
        names = paired_names(a.recording.clock.phases, b.recording.clock.phases)
        yield section("phases", "phase", names, [value for name in names.both for value in phase_values(name, a, b)])


def _checks(a: ComparedRun, b: ComparedRun) -> Iterator[ComparedCheck]:
    first, second = ({check.name: check for check in run.told.checks} for run in (a, b))
    for name in dict.fromkeys([*first, *second]):
        (one, said), (other, other_said) = (_outcome(checks.get(name)) for checks in (first, second))
        yield ComparedCheck(name=name, a=one, b=other, evidence_a=said, evidence_b=other_said)


def _outcome(check: Check | None) -> tuple[str | None, str]:
    return (None, "") if check is None else (check.outcome, check.evidence)


def _causes(a: ComparedRun, b: ComparedRun) -> Iterator[ComparedCause]:
    first, second = ({_place_of(cause): cause for cause in run.diagnosis.causes} for run in (a, b))
    for key, cause in {**first, **second}.items():
        one, other = (causes[key].confidence if key in causes else None for causes in (first, second))
        yield ComparedCause(
            cause=cause.cause, title=cause.title, places=cause.places, priority=cause.priority, a=one, b=other
        )


def _place_of(cause: Found) -> tuple[object, ...]:
    return cause.cause, cause.places, cause.priority


def _notes(a: ComparedRun, b: ComparedRun, sections: tuple[ComparedSection, ...]) -> Iterator[str]:
    if a.recording.folder.path.resolve() == b.recording.folder.path.resolve():
        yield "A and B are the same recording"
    for letter, run in (("A", a), ("B", b)):
        yield from _of_one(letter, run)
    yield from _of_lengths(a, b)
    if a.recording.hz != b.recording.hz:
        less = "A" if a.recording.hz < b.recording.hz else "B"
        yield (
            f"A was sampled {a.recording.hz:g} times a second and B {b.recording.hz:g} times:"
            f" {less} may miss a short peak of a queue or buffer"
        )
    if a.recording.time and b.recording.time and a.recording.time != b.recording.time:
        yield f"A ran in {a.recording.time} time and B in {b.recording.time} time, which alone changes rates"
    if a.recording.fabric != b.recording.fabric:
        yield f"A and B have different fabrics, {a.recording.fabric} and {b.recording.fabric}: ports match by name"
    yield from _of_topologies(a, b, sections)
    yield from _of_scenarios(a, b)


def _of_one(letter: str, run: ComparedRun) -> Iterator[str]:
    if run.recording.incomplete:
        yield (
            f"{letter} is not finished: {run.recording.why}."
            f" Only its first {run.recording.seconds:.1f} s are compared"
        )
    elif run.recording.why:
        yield f"{letter} ended early: {run.recording.why}"


def _of_lengths(a: ComparedRun, b: ComparedRun) -> Iterator[str]:
    one, other = a.counters.seconds, b.counters.seconds
    for letter, seconds in (("A", one), ("B", other)):
        if not seconds:
            yield f"{letter} has fewer than two samples in this window: its counters are 0"
    if one and other and abs(one - other) > _SAME_LENGTH * max(one, other):
        yield f"A lasts {one:.1f} s and B {other:.1f} s: counters are compared per second"


def _of_topologies(a: ComparedRun, b: ComparedRun, sections: tuple[ComparedSection, ...]) -> Iterator[str]:
    for ports in (each for each in sections if each.name == "ports"):
        only = [(len(ports.names.only_a), "A"), (len(ports.names.only_b), "B")]
        if any(count for count, _ in only):
            where = " and ".join(f"{counted(count, 'port')} only in {letter}" for count, letter in only if count)
            yield f"the topologies differ: {where}"
        mixed = (a.counters.plain_ports ^ b.counters.plain_ports) & set(ports.names.both)
        if mixed:
            yield f"{counted(len(mixed), 'port')} without QoS in one of the runs: only traffic and drops are compared"


def _of_scenarios(a: ComparedRun, b: ComparedRun) -> Iterator[str]:
    if a.scenario != b.scenario:
        said = [f"scenario {run.scenario}" if run.scenario else "no scenario" for run in (a, b)]
        yield f"A was made by {said[0]} and B by {said[1]}: their checks differ"
    if bool(a.recording.phases) != bool(b.recording.phases):
        bare = "B" if a.recording.phases else "A"
        yield f"{bare} has no phases: only whole runs and times are compared"
