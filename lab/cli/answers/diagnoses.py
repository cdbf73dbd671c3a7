"""The ``--json`` answer of ``rocelab diagnose``."""

from __future__ import annotations

from lab.cli.answers.base import Models
from lab.diagnose import diagnosis, differing, symptom
from lab.diagnose.conservation import locations

Diagnosis = Models((diagnosis, differing, symptom, locations)).of(diagnosis.Diagnosis)
