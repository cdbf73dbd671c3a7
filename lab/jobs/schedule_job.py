"""Run a schedule with one rank on each NIC, and return when each operation of each rank began and ended."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.jobs import job_session, mpi_library, schedule_program
from lab.jobs.collective_job import check_nics
from lab.jobs.job_session import JobPatience, Rank, module_argv
from lab.jobs.job_spec import AUTOMATIC
from lab.jobs.mpi_library import overlapping_variables
from lab.jobs.nccl_settings import NcclSettings
from lab.jobs.rank_schedule import check_schedule
from lab.jobs.wrong_gid import explained
from lab.rdma.measure import DEFAULT_TCLASS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.jobs.rank_schedule import JobSchedule
    from lab.rdma.measure import Nic


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """How a schedule is run."""

    algorithm: str = AUTOMATIC
    """The algorithm of AllReduce."""
    tclass: int = DEFAULT_TCLASS
    """IP traffic class of the RDMA packets: DSCP * 4 + ECN."""
    mtu: int | None = None
    """Path MTU of the QPs in bytes; by default, the smaller active MTU of both ends."""
    nccl: NcclSettings = field(default_factory=NcclSettings)
    """Settings by their names in NCCL."""
    patience: JobPatience = field(default_factory=JobPatience)
    """Timeouts, beside the computations of a step: several may follow each other without a packet."""


def run_schedule(
    nics: Sequence[Nic],
    schedule: JobSchedule,
    options: ScheduleOptions,
    *,
    report: Callable[[str, int, int], None],
    look: Callable[[Sequence[Rank]], None] = lambda _: None,
) -> tuple[Sequence[Rank], float]:
    """Run a schedule to its end; return its ranks with their steps, and the seconds until all of them were ready.

    ``look`` is called again and again with the ranks, which have the steps that ended so far. UsageError for a
    schedule that cannot run; otherwise the errors of ``collective_job.run_job``. Nothing of the job is left running.
    """
    check_nics(nics)
    check_schedule(schedule)
    mpi = mpi_library.find_mpi()
    variables = overlapping_variables(options.algorithm)
    ranks = [
        Rank(
            number=number,
            nic=nic,
            argv=module_argv(schedule_program.__name__, mpi.abi),
            plan=schedule.plan(number),
            environment={
                "PATH": os.defpath,
                "PMI_RANK": str(number),
                "PMI_SIZE": str(len(nics)),
                **mpi.environment(number, nic, options.tclass, variables),
                **mpi_library.mtu_variables(options.mtu),
                **options.nccl.variables(nic),
            },
        )
        for number, nic in enumerate(nics)
    ]
    longest = max(sum(each.seconds for each in rank) for variant in schedule.variants for rank in variant)
    usual = options.patience
    waits = JobPatience(start=usual.start, stall=usual.stall + longest)

    def seen(what: str, done: int, of: int) -> None:
        report(what, done, of)
        look(ranks)

    try:
        with explained(nics, options.nccl, waits) as timeouts:
            return ranks, job_session.run_ranks(ranks, timeouts, seen)
    finally:
        look(ranks)  # steps that ended just before the job failed
