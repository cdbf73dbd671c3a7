"""The training jobs of two recordings: matched by name, with the time of a step of the job and of each rank."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Final

from lab.report.compare.changes import ComparedValue
from lab.report.compare.figures_in_window import WindowFigure
from lab.telemetry.read.job_measures import COMMUNICATION_SHARE, STEP_LATENESS, STEP_TIME, STEP_TRANSFER
from lab.telemetry.read.recorded_jobs import RecordedJob, recorded_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.report.compare.run_window import ComparedRun
    from lab.telemetry.read.window_measure import Measure

_NS: Final = 10**9


def jobs_by_name(run: ComparedRun) -> dict[str, RecordedJob]:
    """Return the jobs by name, each with the steps that ended in the window; jobs without such steps are left out."""
    found = {}
    for job in recorded_jobs(run.recording):
        steps = tuple(each for each in job.steps if run.window.start <= each.end <= run.window.end)
        if steps:
            found[job.name] = RecordedJob(job.name, steps, job.about)
    return found


def job_values(name: str, a: RecordedJob, b: RecordedJob) -> Iterator[ComparedValue]:
    """Yield the measures of the job, and the mean step of each rank that both runs have."""
    for measure, one, other in (
        (STEP_TIME, a.seconds, b.seconds),
        (COMMUNICATION_SHARE, _share(a), _share(b)),
        (STEP_TRANSFER, _transfer(a), _transfer(b)),
        (STEP_LATENESS, a.lateness, b.lateness),
    ):
        yield _value(name, measure, one, other)
    ranks_of_a, ranks_of_b = a.by_rank(), b.by_rank()
    for rank in sorted(ranks_of_a.keys() & ranks_of_b.keys()):
        one, other = (fmean(each.seconds for each in ranks[rank]) for ranks in (ranks_of_a, ranks_of_b))
        yield _value(f"{name} rank {rank}", STEP_TIME, one, other)


def _share(job: RecordedJob) -> float:
    return fmean(step.share for step in job.steps)


def _transfer(job: RecordedJob) -> float:
    return fmean(step.transfer for step in job.steps)


def _value(name: str, measure: Measure, a: float, b: float) -> ComparedValue:
    return ComparedValue(of=name, priority=None, measure=measure, a=WindowFigure(a, a), b=WindowFigure(b, b))
