"""What ``rocelab diagnose`` answers."""

from __future__ import annotations

from lab.cli.answers.base import Models
from lab.diagnose import answer, sign

Diagnosis = Models((answer, sign)).of(answer.Diagnosis)
