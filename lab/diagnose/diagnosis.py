"""The result of a diagnosis: its outcome and the root causes found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.diagnose.conservation.locations import Location
    from lab.diagnose.differing import DifferingSetting
    from lab.diagnose.symptom import Evidence


class DiagnosisOutcome(StrEnum):
    """The overall result: a fault, exhausted capacity, nothing wrong, not enough data to decide, or no fault seen.

    The last one, ``unchecked``, is "healthy" without a proof: something was not checked.
    """

    FAULT = "fault"
    CAPACITY = "capacity"
    HEALTHY = "healthy"
    UNKNOWN = "unknown"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Found:
    """A root cause with its places, confidence, evidence, and the check that distinguishes it from its rival."""

    cause: str
    title: str
    fault: bool
    """False if the cause is exhausted capacity, not a fault."""
    places: tuple[str, ...]
    """Ports, nodes, or links as A--B (direction A to B), as precise as the facts allow."""
    priority: int | None
    """The affected priority; None if the cause is not specific to one."""
    confidence: float
    """0 to 1."""
    evidence: tuple[Evidence, ...]
    rival: str
    """The cause that it is most easily confused with; empty if there is none."""
    tell: str
    """The command that distinguishes the cause from its rival, and what to look for in the output."""
    fix: str
    words: str
    """Prose for a root cause analysis."""
    since: float
    """Seconds into the recording at which the first window that shows the cause begins."""
    alternatives: tuple[str, ...] = ()
    """Other causes of this diagnosis that would show the same figures: one of them is present, not all."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The diagnosis of a window: faults first, by descending confidence. Times are seconds of the recording."""

    outcome: DiagnosisOutcome
    causes: tuple[Found, ...]
    unexplained: tuple[Evidence, ...]
    """Evidence of problems that no cause accounts for. Empty if a fault was found."""
    missing: tuple[str, ...]
    """Facts that were not available."""
    start: float
    end: float
    located: tuple[Location, ...] = ()
    """Places where packets vanish, are duplicated, dropped, held, reordered or change their class, by arithmetic."""
    differing: tuple[DifferingSetting, ...] = ()
    """Settings that differ from the plan, from siblings or from what must hold; those with an effect first."""
    unchecked: tuple[str, ...] = ()
    """The parts that were not checked, as phrases. Empty if a healthy outcome is proven."""
