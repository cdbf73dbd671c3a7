"""The effect of the fault slow-compute on a training job that starts while the fault is active."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.faults import fault_engine
from lab.faults.kinds.job_faults import SlowCompute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.backends.backend import Fabric
    from lab.jobs.training_spec import TrainingSpec


def slowed(fabric: Fabric, spec: TrainingSpec, hosts: Sequence[str]) -> TrainingSpec:
    """Return the job with additional time of computation for those of ``hosts``, its ranks, that compute slowly."""
    slower = dict(spec.slower)
    for entry in fault_engine.running(fabric):
        if entry.kind == SlowCompute.name and entry.place in hosts:
            speed = SlowCompute.parameters.model_validate(entry.parameters).speed
            slower[entry.place] = spec.compute_of(entry.place) / speed - spec.compute
    return spec.model_copy(update={"slower": slower})
