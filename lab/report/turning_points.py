"""The moments at which a story can turn: what is injected, healed or set in a run, and where its phases begin."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.report.run_facts import ReportedFault, ReportFacts, Span

_BETWEEN: Final = -1
"""The number of the phase of what happens between two phases, and there prepares the next one or cleans up."""


@dataclass(frozen=True, slots=True)
class TurningPoint:
    """When a run changes, in seconds of the recording, and what changes it."""

    at: float
    what: str
    rank: int = 0
    """What to leave out first, where a story has fewer turns: the lowest, but not how it begins and how it ends."""
    mends: bool = False
    """Whether only faults go."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A fault that comes or goes, or a setting."""

    at: float
    what: str
    kind: str
    """inject, heal or set."""
    phase: int


def turning_points(facts: ReportFacts, wanted: int) -> list[TurningPoint]:
    """So many moments, by time, if there are as many: the changes of the run, then phases that no change explains.

    What was set up before the first phase, and what is cleaned up after the last one, is no change of the run.
    """
    changes = _changes(facts)
    if not changes:
        return [_beginning(phase) for phase in facts.phases[-wanted:]] if wanted else []
    found = list(_grouped(changes))
    ends = (found[0], found[-1])
    order = sorted(found, key=lambda point: (point in ends, point.rank, point.at))
    for point in order[: max(0, len(found) - wanted)]:
        found.remove(point)
    spare = _unexplained(facts.phases, found) if len(found) < wanted else []
    return sorted([*found, *spare[: wanted - len(found)]], key=lambda point: point.at)


def _changes(facts: ReportFacts) -> list[_Change]:
    first, last = facts.phases[0].start, facts.phases[-1].end
    found = []
    for fault in facts.faults:
        if not _is_superseded(fault, facts):
            found.append((fault.start, f"{fault.kind} is injected", "inject"))
            if fault.end is not None:
                found.append((fault.end, f"{fault.kind} is healed", "heal"))
    found += [(setting.at, setting.what, "set") for setting in facts.settings]
    within = sorted(each for each in found if first <= each[0] < last)
    changes = [_Change(at, what, kind, _phase_at(facts.phases, at)) for at, what, kind in within]
    return list(_without_repetitions(changes))


def _phase_at(phases: Sequence[Span], at: float) -> int:
    return next((number for number, phase in enumerate(phases) if phase.start <= at < phase.end), _BETWEEN)


def _is_superseded(fault: ReportedFault, facts: ReportFacts) -> bool:
    """Whether it gives way, in the phase in which it comes, to another of its kind and place: it was tried out."""
    phase = _phase_at(facts.phases, fault.start)
    return (
        phase != _BETWEEN
        and fault.end is not None
        and any(
            other.start >= fault.end
            and (other.kind, other.place) == (fault.kind, fault.place)
            and _phase_at(facts.phases, other.start) == phase
            and (other.end is None or other.end > facts.phases[phase].end)
            for other in facts.faults
        )
    )


def _without_repetitions(changes: list[_Change]) -> Iterator[_Change]:
    """Of what comes and goes again and again in a phase, the first time that it comes and the last that it goes."""
    for number, change in enumerate(changes):
        others = changes[:number] if change.kind == "inject" else changes[number + 1 :]
        repeated = any((each.phase, each.what) == (change.phase, change.what) for each in others)
        if not repeated or change.phase == _BETWEEN or change.kind == "set":
            yield change


def _grouped(changes: list[_Change]) -> Iterator[TurningPoint]:
    """Changes of one phase that go together: a fault that replaces another, or several that come or go at once."""
    for phase, together in groupby(changes, key=lambda change: change.phase):
        group: list[_Change] = []
        for change in together:
            if group and change.kind == "heal" and any(each.kind == "inject" for each in group):
                yield _point(group, phase)
                group = []
            group.append(change)
        yield _point(group, phase)


def _point(group: list[_Change], phase: int) -> TurningPoint:
    change = next((each for each in group if each.kind != "heal"), group[0])
    mends = change.kind == "heal"
    return TurningPoint(change.at, change.what, 2 * (not mends) + (phase != _BETWEEN), mends)


def _unexplained(phases: Sequence[Span], found: Sequence[TurningPoint]) -> list[TurningPoint]:
    """Phases that do not follow from what came just before them; the first, which is how a run begins, comes last."""
    spare = []
    turned = False
    for number, phase in enumerate(phases):
        changes = any(phase.start <= point.at < phase.end for point in found)
        turns = bool(number) and not changes and not turned
        if turns:
            spare.append(_beginning(phase))
        turned = changes or turns
    return [*spare, _beginning(phases[0])]


def _beginning(phase: Span) -> TurningPoint:
    return TurningPoint(phase.start, f"phase {phase.name}")
