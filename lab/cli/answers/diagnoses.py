"""The ``--json`` answer of ``rocelab diagnose``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli.answers.base import Models
from lab.cli.answers.baselines import BaselineDeviation
from lab.diagnose import diagnosis, differing, symptom
from lab.diagnose.conservation import locations

__all__ = ["Diagnosis", "DiagnosisAnswer"]

if TYPE_CHECKING:  # a model has the attributes of the dataclass that it is made of
    from lab.diagnose.diagnosis import Diagnosis
else:
    Diagnosis = Models((diagnosis, differing, symptom, locations)).of(diagnosis.Diagnosis)


class DiagnosisAnswer(Diagnosis):
    """``rocelab diagnose``."""

    deviations: list[BaselineDeviation]
    """Values that deviate from the baseline of ``--baseline``, the largest deviation first; empty without it."""
