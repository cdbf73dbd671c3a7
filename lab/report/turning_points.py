"""The turning points of a run: faults injected or healed, settings changed, and phases begun."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.report.run_facts import ReportedFault, ReportFacts, Span

_BETWEEN: Final = -1
"""The phase number of changes between two phases, which prepare the next phase or clean up."""


@dataclass(frozen=True, slots=True)
class TurningPoint:
    """A time, in seconds of the recording, at which a run changes, and the change."""

    at: float
    what: str
    rank: int = 0
    """If a story has fewer turns, points of the lowest rank are left out first; the first and last point go last."""
    mends: bool = False
    """Whether the change only heals faults."""


@dataclass(frozen=True, slots=True)
class _Change:
    """An injected or healed fault, or a setting."""

    at: float
    what: str
    kind: str
    """inject, heal or set."""
    phase: int


def turning_points(facts: ReportFacts, wanted: int) -> list[TurningPoint]:
    """Return up to ``wanted`` turning points by time: changes of the run, then phases without a change.

    Setup before the first phase and cleanup after the last one do not count.
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
    changes = [_Change(at=at, what=what, kind=kind, phase=_phase_at(facts.phases, at)) for at, what, kind in within]
    return list(_without_repetitions(changes))


def _phase_at(phases: Sequence[Span], at: float) -> int:
    return next((number for number, phase in enumerate(phases) if phase.start <= at < phase.end), _BETWEEN)


def _is_superseded(fault: ReportedFault, facts: ReportFacts) -> bool:
    """Whether another fault of the same kind and place replaces it within its phase: a trial."""
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
    """Yield changes without repetitions in a phase: the first injection and the last heal of each fault."""
    for number, change in enumerate(changes):
        others = changes[:number] if change.kind == "inject" else changes[number + 1 :]
        repeated = any((each.phase, each.what) == (change.phase, change.what) for each in others)
        if not repeated or change.phase == _BETWEEN or change.kind == "set":
            yield change


def _grouped(changes: list[_Change]) -> Iterator[TurningPoint]:
    """Group the changes of a phase that belong together: a replaced fault, or several faults injected or healed."""
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
    return TurningPoint(at=change.at, what=change.what, rank=2 * (not mends) + (phase != _BETWEEN), mends=mends)


def _unexplained(phases: Sequence[Span], found: Sequence[TurningPoint]) -> list[TurningPoint]:
    """Return the phases not explained by the point before them; the first phase, the start of the run, comes last."""
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
