"""What a diagnosis answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.diagnose.symptom import Evidence


class DiagnosisOutcome(StrEnum):
    """Something is broken, capacity is used up, nothing is wrong, or it cannot be told."""

    FAULT = "fault"
    CAPACITY = "capacity"
    HEALTHY = "healthy"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Found:
    """A root cause: where, how sure, by what, and what tells it from the next."""

    cause: str
    title: str
    fault: bool
    """False of what is no fault: capacity."""
    places: tuple[str, ...]
    """Ports, nodes, or links as A--B in the direction from A to B, as exactly as the facts allow."""
    priority: int | None
    """The priority that it is about, None where it is about all."""
    confidence: float
    """0 to 1."""
    evidence: tuple[Evidence, ...]
    rival: str
    """What it could be instead; empty where nothing is like it."""
    tell: str
    """The command that tells it from that, and what to look at."""
    fix: str
    words: str
    """For a root cause analysis."""
    since: float
    """Seconds of the recording at which the first window begins that shows it."""
    alternatives: tuple[str, ...] = ()
    """Other causes of the same diagnosis that would show the same figures: one of them is there, and not all."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong, the most likely root cause first; times are seconds of the recording."""

    outcome: DiagnosisOutcome
    causes: tuple[Found, ...]
    unexplained: tuple[Evidence, ...]
    """What is wrong and no cause accounts for."""
    missing: tuple[str, ...]
    """What was not known."""
    start: float
    end: float
