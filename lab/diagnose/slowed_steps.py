"""The steps of training jobs that a root cause slowed, by how much, and the ranks whose packets pass its place.

Only the transfer counts: from the last begin of the communication of a step to its end. Computation, and waiting for
a rank that computes, are no effects of the network. A transfer is slow if it takes 10% longer than before the cause
began; if the job began later, than by arithmetic; without one, than the fastest transfer of the job.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Final

from lab.diagnose.causes.job_causes import JOB_CAUSES
from lab.diagnose.symptom import Evidence, matches
from lab.telemetry.read.recorded_jobs import recorded_jobs
from lab.units import counted, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.diagnosis import Diagnosis, Found
    from lab.telemetry.read.recorded_jobs import RecordedJob, RecordedStep
    from lab.telemetry.read.recording import Recording

_NS: Final = 10**9
_SLOWER: Final = 1.1
_OWN: Final = frozenset(cause.name for cause in JOB_CAUSES)
"""Causes whose own evidence is about steps."""
_LINES: Final = 8
"""The maximum number of evidence lines per cause."""


def with_slowed_steps(found: Diagnosis, recording: Recording) -> Diagnosis:
    """Return a diagnosis whose causes name the steps and ranks of training jobs that they slowed."""
    jobs = recorded_jobs(recording)
    if not jobs or not found.causes:
        return found
    start = recording.clock.start
    return replace(found, causes=tuple(_with_lines(each, jobs, start, found.end) for each in found.causes))


def _with_lines(cause: Found, jobs: tuple[RecordedJob, ...], start: int, end: float) -> Found:
    if cause.cause in _OWN:
        return cause
    lines = tuple(line for job in jobs for line in slowed(cause, job, start, end))
    return replace(cause, evidence=(*cause.evidence[: _LINES - len(lines)], *lines))


def slowed(cause: Found, job: RecordedJob, start: int, end: float) -> Iterator[Evidence]:
    """Yield a line about the steps of a job that a cause slowed, if any; ``start`` is the recording's, in ns."""
    seen = [step for step in job.steps if cause.since <= (step.end - start) / _NS <= end]
    usual, what = _usual(job, [step for step in job.steps if (step.end - start) / _NS < cause.since])
    slow = [step for step in seen if step.transfer > _SLOWER * usual]
    if not slow:
        return
    mean = fmean(step.transfer for step in slow)
    steps = f"step {slow[0].number}" if len(slow) == 1 else f"steps {slow[0].number} to {slow[-1].number}"
    yield Evidence(
        says=f"seconds of transfer in {steps} of job {job.name} ({counted(len(slow), 'slow step')} of {len(seen)}), "
        f"{format_time(usual)} {what}; {_ranks(cause, job)}",
        of=cause.places[0] if cause.places else "",
        source="job_steps",
        value=round(mean, 4),
        at=max(0.0, (slow[-1].end - start) / _NS),
    )


def _usual(job: RecordedJob, before: list[RecordedStep]) -> tuple[float, str]:
    """Return the seconds of a transfer without the cause, and how they are known."""
    if before:
        return median(step.transfer for step in before), "before"
    compute = max(each.compute for step in job.steps for each in step.ranks) / _NS
    if job.about and job.about.roofline > compute:
        return job.about.roofline - compute, "by arithmetic"
    return min(step.transfer for step in job.steps), "in the fastest step"


def _ranks(cause: Found, job: RecordedJob) -> str:
    """Return the ranks whose QPs pass the places of a cause; all ranks wait for them."""
    qps = [qp for qp in (job.about.qps if job.about else ()) if qp.path]
    met = {qp.rank for qp in qps for place in cause.places if any(matches(place, port) for port in qp.path)}
    names = [each.name for each in job.ranks if each.rank in met]
    if not names:
        return f"all {len(job.ranks)} ranks wait for the slowest"
    return f"QPs of {', '.join(names)} pass here, and all {len(job.ranks)} ranks wait for them"
