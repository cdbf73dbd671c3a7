"""The ``--json`` answer of ``rocelab job explain``."""

from __future__ import annotations

from typing import Final

from lab.cli.answers.base import Models
from lab.report.job import job_explanation, path_waits

_MODELS: Final = Models(names=(path_waits, job_explanation))
JobExplain = _MODELS.of(job_explanation.StepExplanation)
"""``rocelab job explain``."""
