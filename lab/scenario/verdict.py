"""What a check says of a recording: pass, fail or unknown, never without the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How it came out."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, and the figures that show it."""

    outcome: Outcome
    evidence: str


def expect(right: bool, evidence: str) -> Verdict:
    """Pass where ``right``, fail otherwise; ``evidence`` says what was seen either way."""
    return Verdict(Outcome.PASS if right else Outcome.FAIL, evidence)


def unknown(why: str) -> Verdict:
    """The recording does not tell."""
    return Verdict(Outcome.UNKNOWN, why)


def worst(outcomes: list[Outcome]) -> Outcome:
    """Fail if any failed, else unknown if any is, else pass; of none unknown."""
    for outcome in (Outcome.FAIL, Outcome.UNKNOWN):
        if outcome in outcomes:
            return outcome
    return Outcome.PASS if outcomes else Outcome.UNKNOWN
