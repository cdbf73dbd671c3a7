"""Steps of data-parallel ranks with times that a test chooses."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from lab.jobs.rank_schedule import OperationKind, StepTimes
from lab.jobs.training_schedule import training_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.jobs.training_spec import TrainingSpec


def data_parallel_steps(
    spec: TrainingSpec, hosts: Sequence[str], times: Sequence[tuple[int, int, int]], wrong: int
) -> list[StepTimes]:
    """Steps by begin, end of all computations and end, in ns; the first has wrong elements.

    The computations of a step divide its computing time; each transfer lasts from their end to the end of the step.
    """
    operations = training_schedule(spec, hosts).variants[0][0]
    computations = sum(each.kind is OperationKind.COMPUTE for each in operations)
    made = []
    for number, (begin, computed, end) in enumerate(times):
        bounds = [(computed - begin) * part // computations for part in range(computations + 1)]
        spans = list(pairwise(bounds))
        spans += [(computed - begin, end - begin)] * (len(operations) - computations)
        made.append(StepTimes(begin_ns=begin, end_ns=end, operations=tuple(spans), wrong=0 if number else wrong))
    return made
