"""Diagnosis of a recording: all of it, a phase, or a period."""

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
"""Seconds. Shorter phases are skipped if there is a longer one."""


def diagnose_run(
    recording: Recording, phase: str = "", begin: float | None = None, until: float | None = None
) -> Diagnosis:
    """Return the diagnosis of a recording.

    Without a phase or times, each phase is diagnosed by itself and the results are merged. Otherwise transient
    problems would be averaged out. Raises UsageError for a phase or times outside the recording, or if it has no
    samples.
    """
    return together([diagnose(collect(recording, window)) for window in _windows(recording, phase, begin, until)])


def _windows(recording: Recording, phase: str, begin: float | None, until: float | None) -> Sequence[RecordingPhase]:
    window = recording.window(phase, begin, until)
    if phase or begin is not None or until is not None:
        return [window]
    return [each for each in recording.phases if each.seconds >= _SHORTEST] or [window]
