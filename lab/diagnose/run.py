"""Diagnosis of a recording: all of it, a phase, or a period."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lab.diagnose.cause_engine import diagnose, together
from lab.diagnose.coverage import with_coverage
from lab.diagnose.differing import with_differences
from lab.diagnose.extract import collect
from lab.diagnose.slowed_steps import with_slowed_steps
from lab.diagnose.symptoms.crossed_cables import still_crossed
from lab.telemetry.read.recorded_jobs import recorded_jobs
from lab.telemetry.read.recorded_requests import recorded_requests
from lab.telemetry.read.series import RecordingPhase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.diagnose.diagnosis import Diagnosis
    from lab.telemetry.read.recording import Recording

_SHORTEST: Final = 0.3
"""Seconds. Shorter phases are skipped if there is a longer one."""
_MOST_TIMES: Final = 8
"""The number of times with transfers that are diagnosed by themselves: the longest."""


def diagnose_run(
    recording: Recording,
    phase: str = "",
    begin: float | None = None,
    until: float | None = None,
    *,
    plan: bool = True,
) -> Diagnosis:
    """Return the diagnosis of a recording.

    With ``plan``, settings that differ from the fabric's plan are listed, if they were recorded; other differences
    always are. Without a phase or times, each phase is diagnosed by itself and the results are merged. Otherwise
    transient problems would be averaged out. Without phases, the times of transfers and training jobs are diagnosed
    in the same way, besides the whole recording. The answer is "healthy" only if nothing is left unchecked. Raises
    UsageError for a phase or times outside the recording, or if it has no samples.
    """
    windows = [collect(recording, window) for window in _windows(recording, phase, begin, until)]
    found = with_slowed_steps(together([diagnose(facts) for facts in windows]), recording)
    found = with_differences(found, recording, still_crossed(windows), plan=plan)
    return with_coverage(found, recording, windows)


def _windows(recording: Recording, phase: str, begin: float | None, until: float | None) -> Sequence[RecordingPhase]:
    window = recording.window(phase, begin, until)
    if phase or begin is not None or until is not None:
        return [window]
    phases = [each for each in recording.phases if each.seconds >= _SHORTEST]
    return phases or [window, *_with_transfers(recording, window)]


def _with_transfers(recording: Recording, whole: RecordingPhase) -> list[RecordingPhase]:
    """Return the times in which transfers or training jobs ran. Those that overlap are one."""
    times: list[RecordingPhase] = []
    spans = [(each.ns, each.end_ns) for each in recording.transfers()]
    for of in (recorded_jobs(recording), recorded_requests(recording)):
        spans += [(each.begin, each.end) for each in of]
    for begun, ended in sorted(spans):
        start, end = max(begun, whole.start), min(ended, whole.end)
        if times and start <= times[-1].end:
            times[-1] = replace(times[-1], end=max(times[-1].end, end))
        else:
            times.append(RecordingPhase("", start, end))
    long = sorted((each for each in times if each.seconds >= _SHORTEST), key=lambda each: -each.seconds)
    return sorted(long[:_MOST_TIMES], key=lambda each: each.start)
