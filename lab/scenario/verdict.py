"""Verdicts: pass, fail or unknown, always with evidence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum


class VerdictOutcome(StrEnum):
    """The outcome of a check."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, and the figures that prove it."""

    outcome: VerdictOutcome
    evidence: str


def expect(right: bool, evidence: str) -> Verdict:
    """Return pass if ``right``, fail otherwise, with the evidence."""
    return Verdict(VerdictOutcome.PASS if right else VerdictOutcome.FAIL, evidence)


def in_words(value: object) -> str:
    """Return a value as text for evidence: yes or no, ``a, b`` for a list, ``leaf1 3, leaf2 4`` for a mapping.

    Nested lists and mappings are separated by semicolons; an empty collection is "none".
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
    """Return unknown: the recording does not contain what the check needs."""
    return Verdict(VerdictOutcome.UNKNOWN, why)


def worst(outcomes: list[VerdictOutcome]) -> VerdictOutcome:
    """Return fail if any failed, else unknown if any is unknown, else pass; unknown without outcomes."""
    for outcome in (VerdictOutcome.FAIL, VerdictOutcome.UNKNOWN):
        if outcome in outcomes:
            return outcome
    return VerdictOutcome.PASS if outcomes else VerdictOutcome.UNKNOWN
