"""The values of training jobs and queue pairs in equal windows, from the rows of a recording.

A job is known by its name. Queue pairs have other numbers in each run, so the third one of a program at an interface
is ``h1:eth1 ib_write_bw #3`` in each. A window without a step has no value, and neither has one in which
the queue pair does not exist.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.report.compare.queue_pair_values import queue_pairs_by_name
from lab.report.qp_limits import QpLimit, limits_of
from lab.telemetry.read.job_measures import STEP_LATENESS, STEP_TIME, STEP_TRANSFER
from lab.telemetry.read.measure_unit import MeasureUnit
from lab.telemetry.read.recorded_jobs import RecordedStep, recorded_jobs
from lab.telemetry.read.window_measure import Measure, MeasureScope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase

QP_LIMIT: Final = Measure(
    name="qp_limit",
    title="rate limit",
    unit=MeasureUnit.BITS_PER_SECOND,
    scope=MeasureScope.NODE,
    counters=(),
    meaning="mean rate to which congestion control limits the queue pair; the line rate while it does not",
)
_OF_STEPS: Final[Mapping[Measure, Callable[[RecordedStep], float]]] = {
    STEP_TIME: lambda step: step.seconds,
    STEP_TRANSFER: lambda step: step.transfer,
    STEP_LATENESS: lambda step: step.lateness,
}
ROW_MEASURED: Final[Mapping[tuple[str, str], Measure]] = dict(
    [*((("job", each.name), each) for each in _OF_STEPS), (("qp", QP_LIMIT.name), QP_LIMIT)]
)
"""The measures by owner (job or qp) and name."""


def job_and_qp_values(
    recording: Recording, whole: RecordingPhase, starts: NDArray[np.int64], step: int
) -> Iterator[tuple[str, str, str, NDArray[np.float64]]]:
    """Yield owner, object, measure, and the value in each window of ``step`` ns; NaN where there is none.

    A job's value is that of its longest step that overlaps the window. Jobs of the same name are one. Queue pairs are
    left out without congestion control.
    """
    steps: defaultdict[str, list[RecordedStep]] = defaultdict(list)
    for job in recorded_jobs(recording):
        steps[job.given_name] += job.steps
    for name, of in steps.items():
        for measure, figure in _OF_STEPS.items():
            values = _of_steps(of, figure, starts, step)
            if not np.isnan(values).all():
                yield "job", name, measure.name, values
    limits = limits_of(recording)
    if limits:
        yield from _of_queue_pairs(recording, whole, {(each.port, each.qpn): each for each in limits}, starts, step)


def _of_steps(
    steps: Iterable[RecordedStep], figure: Callable[[RecordedStep], float], starts: NDArray[np.int64], step: int
) -> NDArray[np.float64]:
    values = np.full(len(starts), np.nan)
    for each in steps:
        during = (starts < each.end) & (starts + step > each.begin)
        values[during] = np.fmax(values[during], figure(each))
    return values


def _of_queue_pairs(
    recording: Recording,
    whole: RecordingPhase,
    limits: Mapping[tuple[str, int], QpLimit],
    starts: NDArray[np.int64],
    step: int,
) -> Iterator[tuple[str, str, str, NDArray[np.float64]]]:
    """Yield the mean limit of each queue pair in the windows in which it exists from begin to end."""
    for name, life in queue_pairs_by_name(recording, whole).items():
        limit = limits.get((life.port, life.qpn))
        inside = (starts >= life.begin) & (starts + step <= life.end)
        if limit is None or not inside.any():
            continue
        values = np.full(len(starts), np.nan)
        values[inside] = [limit.mean(start, start + step) for start in starts[inside].tolist()]
        yield "qp", name, QP_LIMIT.name, values
