"""The effect of the fault slow-compute on a training job that starts while the fault is active."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lab.faults import fault_engine
from lab.faults.kinds.job_faults import SlowCompute
from lab.jobs.rank_schedule import OperationKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.backends.backend import Fabric
    from lab.jobs.rank_schedule import Operation
    from lab.jobs.training_job import TraceJob
    from lab.jobs.training_spec import TrainingSpec


def slowed(fabric: Fabric, spec: TrainingSpec, hosts: Sequence[str]) -> TrainingSpec:
    """Return the job with additional time of computation for those of ``hosts``, its ranks, that compute slowly.

    A storage host, the last one, computes nothing.
    """
    speeds = _speeds(fabric, hosts[: len(hosts) - (spec.storage is not None)])
    slower = {host: spec.compute_of(host) / speed - spec.compute for host, speed in speeds.items()}
    return spec.model_copy(update={"slower": {**spec.slower, **slower}})


def slowed_trace(fabric: Fabric, job: TraceJob, hosts: Sequence[str]) -> TraceJob:
    """Return the job with longer computations for those of ``hosts``, its ranks, that compute slowly."""
    speeds = _speeds(fabric, hosts)
    variants = tuple(
        tuple(_longer(operations, speeds.get(host, 1.0)) for host, operations in zip(hosts, variant, strict=True))
        for variant in job.schedule.variants
    )
    return replace(job, schedule=replace(job.schedule, variants=variants))


def _speeds(fabric: Fabric, hosts: Sequence[str]) -> Mapping[str, float]:
    """Return the speed of each host that computes slowly."""
    return {
        entry.place: SlowCompute.parameters.model_validate(entry.parameters).speed
        for entry in fault_engine.running(fabric)
        if entry.kind == SlowCompute.name and entry.place in hosts
    }


def _longer(operations: Sequence[Operation], speed: float) -> tuple[Operation, ...]:
    return tuple(
        replace(each, seconds=each.seconds / speed) if each.kind is OperationKind.COMPUTE else each
        for each in operations
    )
