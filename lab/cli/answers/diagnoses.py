"""What ``rocelab diagnose`` answers."""

from __future__ import annotations

from lab.cli.answers.base import Models
from lab.diagnose.answer import Diagnosis as _Diagnosis

Diagnosis = Models().of(_Diagnosis)
