"""Symptoms, and the signs and evidence that they yield."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from lab.diagnose.facts import ARROW, Lane, WindowFacts
from lab.telemetry.read import measures
from lab.units import format_size

if TYPE_CHECKING:
    from lab.telemetry.read.window_measure import Measure

_KILO: Final = 1000


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line of evidence: a statement, its figure, and the counter or source of a port or node that provides it."""

    says: str
    of: str
    source: str
    value: float
    at: float
    """Seconds of the recording: the time of an event, or the end of the window for a count."""

    @property
    def figure(self) -> str:
        """The value for display: sizes with a unit, integers in full, shares and times with three digits."""
        if self.source.endswith("_bytes") and self.value >= _KILO:
            return format_size(self.value)
        if self.value == int(self.value):
            return str(int(self.value))
        return f"{self.value:.3g}" if abs(self.value) < _KILO else f"{self.value:.1f}"


@dataclass(frozen=True, slots=True)
class Sign:
    """A symptom at a place: a port ``leaf2:swp6``, a node, a link ``A--B``, or "" for the whole fabric.

    ``weight`` is the probability, 0 to 1, of the cause that needs this symptom.
    """

    place: str
    evidence: tuple[Evidence, ...]
    weight: float = 0.9
    priority: int | None = None

    @property
    def node(self) -> str:
        """The node of the place; for a link, the node of its first end."""
        return self.place.partition(":")[0]


def counted(facts: WindowFacts, lane: Lane, says: str, measure: Measure, value: float) -> Evidence:
    """Return evidence about a lane in the window, with a measure's counter as its source."""
    return Evidence(says=says, of=lane.port, source=measure.series(lane.priority), value=value, at=facts.end)


def not_sending(facts: WindowFacts, lane: Lane) -> Evidence:
    """Return evidence of the share of time that a lane was paused."""
    return counted(facts, lane, measures.PAUSED.meaning, measures.PAUSED, round(lane.paused, 3))


Symptom: TypeAlias = Callable[[WindowFacts], Iterable[Sign]]


def matches(one: str, other: str) -> bool:
    """Return whether two places are equal, share an end, one contains the other, or one is the whole fabric ("").

    A transfer has two ends, like a link.
    """
    if not one or not other or one == other:
        return True
    ends, others = (place.replace(ARROW, "--").split("--") for place in (one, other))
    return any(
        a == b or (":" not in a and b.partition(":")[0] == a) or (":" not in b and a.partition(":")[0] == b)
        for a in ends
        for b in others
    )
