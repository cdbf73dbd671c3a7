"""A recording, diagnosed: all of it, a phase, or from some second to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.cause_engine import diagnose, together
from lab.diagnose.extract import collect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.diagnose.diagnosis import Diagnosis
    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase

_SHORTEST: Final = 0.3
"""Seconds of a phase that is looked at where others are longer."""


def diagnose_run(
    recording: Recording, phase: str = "", begin: float | None = None, until: float | None = None
) -> Diagnosis:
    """What is wrong in a recording.

    Without a phase or times, each of its phases is looked at by itself, and then all together: what comes and goes
    in a run is not blurred. UsageError for a phase or times that it has not, or where it has no samples.
    """
    return together([diagnose(collect(recording, window)) for window in _windows(recording, phase, begin, until)])


def _windows(recording: Recording, phase: str, begin: float | None, until: float | None) -> Sequence[RecordingPhase]:
    window = recording.window(phase, begin, until)
    if phase or begin is not None or until is not None:
        return [window]
    return [each for each in recording.phases if each.seconds >= _SHORTEST] or [window]
