"""The metrics of training jobs: each rank at the last step that all ranks had ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.telemetry.metrics import metric_families as families
from lab.telemetry.metrics.counter_metrics import MetricSamples
from lab.telemetry.read.dashboard import job_ranks
from lab.telemetry.read.recorded_jobs import jobs_of
from lab.telemetry.sample.finished_steps import last_steps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
        if not ranks:
            return
        labels = [(each.node, each.job, str(each.rank)) for each in ranks]
        for family, values in (
            (families.STEP_SECONDS, [each.step_time for each in ranks]),
            (families.STEP_COMMUNICATION, [each.step_time * each.share for each in ranks]),
            (families.STEP_WAITING, [each.waiting for each in ranks]),
            (families.STEP_LATENESS, [each.late for each in ranks]),
        ):
            yield MetricSamples(family, labels, values)
