"""The figures of training steps, from times that are given here."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import pytest

from lab.errors import OperationFailed, UsageError
from lab.jobs import job_session, schedule_job, training_job
from lab.jobs.collective_job import RankPlace
from lab.jobs.job_session import JobPatience
from lab.jobs.mpi_library import MpiLibrary
from lab.jobs.rank_schedule import JobSchedule, Operation, OperationKind, Phase
from lab.jobs.training_job import TraceJob, TrainingResult, run_training, training_result
from lab.jobs.training_spec import load_training
from lab.kernel.process.netns import Namespace
from lab.rdma.measure import Nic
from tests.unit.jobs.step_times import data_parallel_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.jobs.job_session import Rank
    from lab.jobs.rank_schedule import StepTimes

MS: Final = 10**6
SIZE: Final = 750_000
SPEC: Final = load_training(
    f"{{hosts: [h1, h2, h3], compute: 100ms, slower: {{h2: 30ms}}, allreduce: {SIZE}, steps: 2}}", "spec"
)
RATE: Final = 100_000_000


def steps(*times: tuple[int, int, int]) -> list[StepTimes]:
    """Begin, end of the computation and end of each step, in ms."""
    hosts = ["h1", "h2", "h3"]
    return data_parallel_steps(SPEC, hosts, [(a * MS, b * MS, c * MS) for a, b, c in times], wrong=1)


def figures() -> TrainingResult:
    """Rank 1 is 30 ms late in the first step; in the second, rank 2 is 5 ms late."""
    measured = (
        steps((0, 100, 210), (210, 310, 395)),
        steps((0, 130, 210), (210, 310, 400)),
        steps((5, 110, 215), (215, 315, 400)),
    )
    places = [RankPlace(rank=rank, host=f"h{rank + 1}", interface="eth1", device="d") for rank in range(3)]
    return training_result(SPEC, list(zip(places, measured, strict=True)), link_rate=RATE, start_s=1.0)


def test_the_straggler_is_the_rank_that_begins_the_collective_last() -> None:
    first, second = figures().steps
    assert (first.step, first.straggler, first.lateness_s) == pytest.approx((1, 1, 0.020))
    assert (second.step, second.straggler, second.lateness_s) == pytest.approx((2, 2, 0.005))
    assert (first.time_s, second.time_s) == pytest.approx((0.215, 0.190))
    assert figures().time_s == pytest.approx(0.2025)


def test_a_rank_computes_waits_and_communicates() -> None:
    rank = figures().ranks[0]
    assert rank.host == "h1"
    assert (rank.step_s, rank.compute_s) == pytest.approx((0.1975, 0.1))
    assert rank.communication_s == pytest.approx(0.0975)
    assert rank.communication_share == pytest.approx(0.0975 / 0.1975)
    assert rank.waiting_s == pytest.approx((0.030 + 0.005) / 2)
    assert rank.late_s == pytest.approx((-0.010 + 0.000) / 2)
    assert [each.late_s for each in figures().ranks] == pytest.approx([-0.005, 0.010, 0.0025])


def test_the_arithmetic_is_the_longest_computation_and_the_transfer_at_the_rate_of_a_nic() -> None:
    """2(n-1)/n of 750 kB at 100 Mb/s takes 80 ms; rank 1 computes 130 ms."""
    result = figures()
    assert result.roofline_s == pytest.approx(0.210)
    assert result.jct_ratio == pytest.approx(0.2025 / 0.210)
    assert (result.wrong, result.size) == (3, SIZE)
    assert result.transfer_bps == pytest.approx(4 * SIZE * 8 / ((0.085 + 0.085) / 2))


def test_the_phases_of_a_step_are_told_apart() -> None:
    """All buckets move at the same time: from the last rank's begin to the last end."""
    forward, backward, gradients = figures().phases
    assert (forward.phase, backward.phase, gradients.phase) == ("forward", "backward", "gradients")
    assert (forward.operations, gradients.operations) == (3, 4)
    assert gradients.time_s == pytest.approx((0.085 + 0.085) / 2)
    assert gradients.received == 4 * SIZE
    assert (figures().groups, figures().storage) == ("data 3", None)


def test_each_step_of_each_rank_is_kept() -> None:
    rows = figures().rank_steps
    assert [(row.step, row.rank) for row in rows] == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
    assert [row.communication_ns // MS for row in rows] == [110, 80, 105, 85, 90, 85]


def test_the_arithmetic_of_a_variant_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a simulation of the step: a job may have 10,000 of them."""
    ran: list[int] = []

    def seconds(_: JobSchedule, variant: int, __: int) -> float:
        ran.append(variant)
        return 0.1

    monkeypatch.setattr(training_job, "step_seconds", seconds)
    assert figures().roofline_s == pytest.approx(0.1)
    assert ran == [0]


def test_a_trace_without_computations_and_messages_does_not_start() -> None:
    nothing = Operation(kind=OperationKind.COMPUTE, phase=Phase.TRACE)
    job = TraceJob(name="empty", schedule=JobSchedule(groups=(), variants=(((nothing,),) * 2,), steps=(0,)))
    nics = [Nic(f"h{number}", "eth1", Namespace("none"), "none", ip_address("10.0.0.1")) for number in (1, 3)]
    with pytest.raises(UsageError, match="job empty neither computes nor communicates"):
        run_training(nics, job, link_rate=RATE, report=lambda *_: None)


def test_computations_that_follow_each_other_are_no_standstill(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a step may pass without a packet: 30 s and 40 s, besides the 20 s of any job."""
    given: list[JobPatience] = []
    computes = [Operation(kind=OperationKind.COMPUTE, phase=Phase.TRACE, seconds=seconds) for seconds in (30.0, 40.0)]
    made = JobSchedule(groups=(), variants=((tuple(computes), tuple(computes[:1])),), steps=(0,))
    nics = [Nic(f"h{number}", "eth1", Namespace("none"), "none", ip_address("10.0.0.1")) for number in (1, 2)]

    def run(_: object, patience: JobPatience, __: object) -> float:
        given.append(patience)
        return 1.0

    monkeypatch.setattr(job_session, "run_ranks", run)
    monkeypatch.setattr(MpiLibrary, "environment", lambda *_: {})
    schedule_job.run_schedule(nics, made, schedule_job.ScheduleOptions(), report=lambda *_: None)
    assert given == [JobPatience(start=60.0, stall=90.0)]


def test_steps_are_told_when_all_ranks_have_ended_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once each, while the job runs; a step that a rank has not ended is not told."""
    nics = [Nic(f"h{number}", "eth1", Namespace("none"), "none", ip_address("10.0.0.1")) for number in (1, 2, 3)]
    made = steps((5, 100, 210), (210, 310, 395))
    told: list[list[tuple[int, int, int]]] = []

    def run(ranks: list[Rank], _: object, report: Callable[[str, int, int], None]) -> float:
        for rank, until in ((0, 2), (1, 1), (2, 1), (1, 2), (2, 2)):
            ranks[rank].scheduled[:] = made[:until]
            report("ranks done", 0, 3)
        return 1.0

    monkeypatch.setattr(job_session, "run_ranks", run)
    monkeypatch.setattr(MpiLibrary, "environment", lambda *_: {})
    result = run_training(
        nics,
        SPEC,
        link_rate=RATE,
        report=lambda *_: None,
        stepped=lambda rows: told.append([(row["began"], row["step"], row["rank"]) for row in rows]),
    )
    assert told == [[(5 * MS, number, rank) for rank in (0, 1, 2)] for number in (1, 2)]
    assert result.began_ns == 5 * MS


def test_steps_that_ended_just_before_a_job_failed_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    nics = [Nic(f"h{number}", "eth1", Namespace("none"), "none", ip_address("10.0.0.1")) for number in (1, 2, 3)]
    told: list[tuple[int, int]] = []

    def run(ranks: list[Rank], _: object, __: object) -> float:
        for rank, until in zip(ranks, (2, 1, 1), strict=True):
            rank.scheduled[:] = steps((5, 100, 210), (210, 310, 395))[:until]
        raise OperationFailed("rank 1 was killed", "run the job again")

    monkeypatch.setattr(job_session, "run_ranks", run)
    monkeypatch.setattr(MpiLibrary, "environment", lambda *_: {})
    with pytest.raises(OperationFailed, match="rank 1 was killed"):
        run_training(
            nics,
            SPEC,
            link_rate=RATE,
            report=lambda *_: None,
            stepped=lambda rows: told.extend((row["step"], row["rank"]) for row in rows),
        )
    assert told == [(1, 0), (1, 1), (1, 2)]


def test_a_slower_host_must_run_a_rank() -> None:
    nics = [Nic(f"h{number}", "eth1", Namespace("none"), "none", ip_address("10.0.0.1")) for number in (1, 3)]
    with pytest.raises(UsageError, match="slower: h2 runs no rank"):
        run_training(nics, SPEC, link_rate=RATE, report=lambda *_: None)
