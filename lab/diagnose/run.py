"""A recording, diagnosed: all of it, a phase, or from some second to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.cause_engine import diagnose, together
from lab.diagnose.extract import collect
from lab.errors import UsageError
from lab.telemetry.read.series import RecordingPhase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.diagnose.diagnosis import Diagnosis
    from lab.telemetry.read.recording import Recording

_NS: Final = 10**9
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
    if phase:
        return [recording.phase(phase)]
    clock = recording.clock
    whole = RecordingPhase("", clock.start, clock.start + int(recording.seconds * _NS))
    if begin is None and until is None:
        return [each for each in recording.phases if each.seconds >= _SHORTEST] or [whole]
    first, last = (whole.start if begin is None else clock.start + int(begin * _NS),
                   whole.end if until is None else clock.start + int(until * _NS))  # fmt: skip
    if not whole.start <= first < last or first >= whole.end:
        raise UsageError(
            f"{recording.name} has nothing from {(first - clock.start) / _NS:g} to {(last - clock.start) / _NS:g} s",
            f"it is {recording.seconds:.1f} s long",
        )
    return [RecordingPhase("", first, min(last, whole.end))]
