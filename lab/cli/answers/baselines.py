"""The ``--json`` answers of ``rocelab baseline``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli.answers.base import Answer, Models
from lab.report.baseline import learned_baseline

__all__ = ["BaselineAnswer", "BaselineCheck", "BaselineDeviation"]

if TYPE_CHECKING:  # a model has the attributes of the dataclass that it is made of
    from lab.report.baseline.learned_baseline import BaselineDeviation, LearnedBaseline
else:
    _MODELS = Models()
    LearnedBaseline = _MODELS.of(learned_baseline.LearnedBaseline)
    BaselineDeviation = _MODELS.of(learned_baseline.BaselineDeviation)


class BaselineAnswer(LearnedBaseline):
    """``rocelab baseline learn`` and ``show``; also the content of the file."""


class BaselineCheck(Answer):
    """``rocelab baseline check``."""

    run: str
    baseline: str
    """The file of the baseline."""
    limit: float
    """Deviations from which a value is listed, in spreads."""
    deviations: list[BaselineDeviation]
    unknown: list[str]
    """Ports, devices, nodes, jobs and queue pairs of the recording that the baseline does not have."""
