"""The metrics of training jobs: each rank at the last step that all ranks had ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.telemetry.metrics import metric_families as families
from lab.telemetry.metrics.counter_metrics import as_samples
from lab.telemetry.read.dashboard import job_ranks
from lab.telemetry.read.recorded_jobs import jobs_of
from lab.telemetry.sample.finished_steps import last_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lab.telemetry.metrics.counter_metrics import Labels, MetricSamples
    from lab.telemetry.metrics.metric_families import MetricFamily
    from lab.telemetry.read.dashboard import RankState


class JobMetrics:
    """Reads the last training job of a fabric."""

    def __init__(self, path: Path) -> None:
        """``path`` is the file with its steps, which need not exist."""
        self._path = path

    def look(self) -> Iterator[MetricSamples]:
        """Yield the families of jobs; nothing if no job has run."""
        steps = last_steps(self._path)
        rows = [] if steps is None else list(zip(steps.ns.tolist(), steps.dicts(), strict=True))
        jobs = jobs_of(rows)
        ranks = job_ranks(jobs, max((job.end for job in jobs), default=0))
        yield from as_samples(step_values(ranks))


def step_values(ranks: Iterable[RankState]) -> Iterator[tuple[MetricFamily, Labels, float]]:
    """Yield the values of ranks at one step."""
    for each in ranks:
        labels = (each.node, each.job, str(each.rank))
        yield families.STEP_SECONDS, labels, each.step_time
        yield families.STEP_COMMUNICATION, labels, each.step_time * each.share
        yield families.STEP_WAITING, labels, each.waiting
        yield families.STEP_LATENESS, labels, each.late
        yield families.JOB_RANK, (*labels, each.interface), 1.0
