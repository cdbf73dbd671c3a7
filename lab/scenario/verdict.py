"""What a check says of a recording: pass, fail or unknown, never without the evidence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum


class VerdictOutcome(StrEnum):
    """How it came out."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, and the figures that show it."""

    outcome: VerdictOutcome
    evidence: str


def expect(right: bool, evidence: str) -> Verdict:
    """Pass where ``right``, fail otherwise; ``evidence`` says what was seen either way."""
    return Verdict(VerdictOutcome.PASS if right else VerdictOutcome.FAIL, evidence)


def in_words(value: object) -> str:
    """A value as evidence has it: yes or no, ``a, b`` of a list, ``leaf1 3, leaf2 4`` of a mapping.

    Lists in lists, or in mappings, are separated by semicolons; what is empty is "none".
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        parts = [f"{in_words(key)} {in_words(each)}" for key, each in value.items()]
        nested = any(isinstance(each, Collection) and not isinstance(each, str) for each in value.values())
    elif isinstance(value, Collection) and not isinstance(value, str):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        parts = [in_words(each) for each in items]
        nested = any(isinstance(each, Collection) and not isinstance(each, str) for each in items)
    else:
        return str(value)
    return ("; " if nested else ", ").join(parts) or "none"


def unknown(why: str) -> Verdict:
    """The recording does not tell."""
    return Verdict(VerdictOutcome.UNKNOWN, why)


def worst(outcomes: list[VerdictOutcome]) -> VerdictOutcome:
    """Fail if any failed, else unknown if any is, else pass; of none unknown."""
    for outcome in (VerdictOutcome.FAIL, VerdictOutcome.UNKNOWN):
        if outcome in outcomes:
            return outcome
    return VerdictOutcome.PASS if outcomes else VerdictOutcome.UNKNOWN
