"""What a symptom says: where it is seen, by which figures, and how sure that alone makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from lab.diagnose.facts import Lane, WindowFacts
from lab.telemetry.read import measures
from lab.units import format_size

if TYPE_CHECKING:
    from lab.telemetry.read.measures import Measure

_KILO: Final = 1000


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line of evidence: what is seen, its figure, and the counter or source that has it, of which port or node."""

    says: str
    of: str
    source: str
    value: float
    at: float
    """Seconds of the recording: of an event when it happened, of a count the end of the window."""

    @property
    def figure(self) -> str:
        """The value as people write it: sizes with a unit, counts in full, shares and times with three digits."""
        if self.source.endswith("_bytes") and self.value >= _KILO:
            return format_size(self.value)
        if self.value == int(self.value):
            return str(int(self.value))
        return f"{self.value:.3g}" if abs(self.value) < _KILO else f"{self.value:.1f}"


@dataclass(frozen=True, slots=True)
class Sign:
    """A symptom, seen at a place: ``leaf2:swp6``, a node, a link ``A--B``, or "" where it is of the whole fabric.

    ``weight`` is how likely it is that the cause is there that needs it, 0 to 1.
    """

    place: str
    evidence: tuple[Evidence, ...]
    weight: float = 0.9
    priority: int | None = None

    @property
    def node(self) -> str:
        """Whose place it is; of a link, of its first end."""
        return self.place.partition(":")[0]


def counted(facts: WindowFacts, lane: Lane, says: str, measure: Measure, value: float) -> Evidence:
    """A line about a lane in the window, from the counters of a measure."""
    return Evidence(says, lane.port, measure.series(lane.priority), value, facts.end)


def not_sending(facts: WindowFacts, lane: Lane) -> Evidence:
    """How long a lane was paused."""
    return counted(facts, lane, measures.PAUSED.meaning, measures.PAUSED, round(lane.paused, 3))


Symptom: TypeAlias = Callable[[WindowFacts], Iterable[Sign]]


def matches(one: str, other: str) -> bool:
    """Whether two places are the same, one is within the other, or one is everywhere."""
    if not one or not other or one == other:
        return True
    ends, others = one.split("--"), other.split("--")
    return any(
        a == b or (":" not in a and b.partition(":")[0] == a) or (":" not in b and a.partition(":")[0] == b)
        for a in ends
        for b in others
    )
