"""The ``--json`` answer of ``rocelab diagnose``."""

from __future__ import annotations

from lab.cli.answers.base import Models
from lab.diagnose import diagnosis, symptom

Diagnosis = Models((diagnosis, symptom)).of(diagnosis.Diagnosis)
