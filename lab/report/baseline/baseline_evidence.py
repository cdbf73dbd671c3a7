"""Deviations from a baseline as evidence of a diagnosis: of causes at their places, and against ``healthy``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.symptom import Evidence, matches
from lab.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.diagnose.diagnosis import Diagnosis, Found
    from lab.report.baseline.learned_baseline import BaselineDeviation

_SOURCE: Final = "baseline"
_MOST: Final = 3
"""Deviations that one cause has as evidence: the largest."""


def with_baseline(found: Diagnosis, deviations: Sequence[BaselineDeviation]) -> Diagnosis:
    """Return a diagnosis with deviations, the largest first, as evidence of the causes at whose places they are.

    A load that is not normal is no fault, so that no cause is added and no confidence changed. But ``healthy`` then
    becomes ``unchecked``.
    """
    if not deviations:
        return found
    causes = tuple(replace(each, evidence=each.evidence + _evidence(each, deviations)) for each in found.causes)
    if found.outcome not in {DiagnosisOutcome.HEALTHY, DiagnosisOutcome.UNCHECKED}:
        return replace(found, causes=causes)
    why = f"{counted(len(deviations), 'deviation')} from the baseline"
    return replace(found, causes=causes, outcome=DiagnosisOutcome.UNCHECKED, unchecked=(*found.unchecked, why))


def _evidence(cause: Found, deviations: Sequence[BaselineDeviation]) -> tuple[Evidence, ...]:
    near = [each for each in deviations if _is_at(each, cause)]
    return tuple(
        Evidence(says=each.words, of=each.of, source=_SOURCE, value=each.value, at=each.since)
        for each in near[:_MOST]
    )


def _is_at(deviation: BaselineDeviation, cause: Found) -> bool:
    """Return whether a deviation is at a place of a cause, and not of another priority."""
    if None not in (deviation.priority, cause.priority) and deviation.priority != cause.priority:
        return False
    return deviation.owner not in {"job", "qp"} and any(matches(place, deviation.of) for place in cause.places)
