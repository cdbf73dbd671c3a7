"""Run a training job, and judge its steps: their time, the share of communication, and which rank was late.

A step of a rank is its computation, and then the collective. The collective of a rank lasts until all gradients have
arrived, so that a rank that computes longer delays all others: they wait for it. The straggler of a step is the rank
that began the collective last. Its lateness is the time from the median rank's begin to its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median_low
from typing import TYPE_CHECKING, Any, Final

from lab.errors import UsageError
from lab.jobs.bus_bandwidth import bus_factor, received_sizes
from lab.jobs.collective_job import RankPlace, place_of, run_mpi
from lab.jobs.job_session import JobPatience
from lab.jobs.job_spec import Collective
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lab.jobs.bus_bandwidth import RankSteps
    from lab.jobs.training_spec import TrainingSpec
    from lab.rdma.measure import Nic

_NS: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStep:
    """One measured step of one rank; times are in ns, points in time of CLOCK_MONOTONIC."""

    rank: int
    step: int
    """From 1."""
    begin_ns: int
    end_ns: int
    compute_ns: int
    waiting_ns: int
    """From the begin of its collective until the last rank began it."""
    late_ns: int
    """The begin of its collective after that of the median rank; negative if it was earlier."""

    @property
    def communication_ns(self) -> int:
        """The duration of the collective, with the waiting."""
        return self.end_ns - self.begin_ns - self.compute_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFigures:
    """The mean step of a rank, in seconds."""

    rank: int
    host: str
    interface: str
    device: str
    step_s: float
    compute_s: float
    communication_s: float
    """The duration of the collective, with the waiting for other ranks."""
    communication_share: float
    """Communication divided by step."""
    waiting_s: float
    """From the begin of its collective until the last rank began it."""
    late_s: float
    """The begin of its collective after that of the median rank; negative if it was earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """One measured step of all ranks."""

    step: int
    """From 1."""
    time_s: float
    """From the first rank that begins it to the last that ends it."""
    straggler: int
    """The rank that began the collective last."""
    lateness_s: float
    """The begin of its collective after that of the median rank, the earlier of two middle ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResult:
    """The figures of a training job that ran to its end."""

    name: str
    ranks: tuple[RankFigures, ...]
    steps: tuple[StepFigures, ...]
    rank_steps: tuple[RankStep, ...]
    """Every step of every rank, ordered by step."""
    size: int
    """Bytes of the gradients."""
    algorithm: str
    tclass: int
    time_s: float
    """The mean time of a step of all ranks."""
    roofline_s: float
    """The longest computation, and the bus factor's share of the gradients at the rate of the slowest NIC."""
    straggler: int
    """The rank that was the straggler of most steps."""
    lateness_s: float
    """The mean lateness of the stragglers."""
    transfer_bps: float
    """Payload that all ranks together receive at least, while a mean collective transfers, in bits per second."""
    wrong: int
    """Wrong elements of all ranks and all steps."""
    start_s: float
    """Seconds from the first process to the moment at which every rank knew all others."""

    @property
    def jct_ratio(self) -> float:
        """The mean time of a step divided by its roofline."""
        return self.time_s / self.roofline_s


def run_training(
    nics: Sequence[Nic],
    spec: TrainingSpec,
    *,
    link_rate: int,
    report: Callable[[str, int, int], None],
    patience: JobPatience | None = None,
) -> TrainingResult:
    """Run a training job with one rank on each NIC, rank 0 on the first, and return its figures.

    ``link_rate`` is that of the slowest NIC in bits per second. UsageError if ``slower`` names a host without a rank;
    otherwise the errors of ``run_job``. Nothing of the job is left running.
    """
    hosts = [nic.host for nic in nics]
    for host in spec.slower:
        if host not in hosts:
            raise UsageError(f"slower: {host} runs no rank", suggest(host, hosts, f"ranks run on {', '.join(hosts)}"))
    job = spec.job
    (size,) = job.fitted(len(nics))
    computes = [spec.compute_of(host) for host in hosts]
    usual = patience or JobPatience()
    longest = max(computes)
    waits = JobPatience(start=usual.start, stall=usual.stall + longest)
    words = [f"{each:.9f}" for each in computes]
    ranks, start = run_mpi(nics, job, words, report=report, patience=waits)
    measured = [(place_of(rank), rank.results[size]) for rank in ranks]
    return training_result(spec, measured, link_rate=link_rate, start_s=start)


def training_result(
    spec: TrainingSpec, ranks: Sequence[tuple[RankPlace, RankSteps]], *, link_rate: int, start_s: float
) -> TrainingResult:
    """Return the figures of a training job from the places and the times of its ranks, in their order."""
    places, measured = [place for place, _ in ranks], [steps for _, steps in ranks]
    (size,) = spec.job.fitted(len(ranks))
    factor = float(bus_factor(Collective.ALLREDUCE, len(ranks)))
    by_step = [_rank_steps(measured, number) for number in range(spec.steps)]
    steps = tuple(_step(each) for each in by_step)
    stragglers = [step.straggler for step in steps]
    transfer = fmean(min(each.communication_ns - each.waiting_ns for each in step) for step in by_step) / _NS
    return TrainingResult(
        name=spec.name,
        ranks=tuple(_rank(place, [step[place.rank] for step in by_step]) for place in places),
        steps=steps,
        rank_steps=tuple(each for step in by_step for each in step),
        size=size,
        algorithm=spec.algorithm,
        tclass=spec.tclass,
        time_s=fmean(step.time_s for step in steps),
        roofline_s=max(spec.compute_of(place.host) for place in places) + factor * size * 8 / link_rate,
        straggler=max(sorted(set(stragglers)), key=stragglers.count),
        lateness_s=fmean(step.lateness_s for step in steps),
        transfer_bps=received_sizes(Collective.ALLREDUCE, len(measured)) * size * 8 / transfer,
        wrong=sum(each.wrong for each in measured),
        start_s=start_s,
    )


def recorded_steps(result: TrainingResult) -> Iterator[dict[str, Any]]:
    """Yield the rows of a recording's table ``job_steps``: each step of each rank, and ``ns``, when it ended."""
    for each in result.rank_steps:
        rank = result.ranks[each.rank]
        yield {
            "ns": each.end_ns, "job": result.name, "rank": each.rank, "node": rank.host,
            "interface": rank.interface, "step": each.step, "begin": each.begin_ns, "compute": each.compute_ns,
            "communication": each.communication_ns, "waiting": each.waiting_ns, "late": each.late_ns,
        }  # fmt: skip


def _rank_steps(measured: Sequence[RankSteps], number: int) -> list[RankStep]:
    """Return a step of all ranks, in their order."""
    begun = [each.computed_ns[number] for each in measured]
    median, last = median_low(begun), max(begun)
    return [
        RankStep(
            rank=rank,
            step=number + 1,
            begin_ns=each.begin_ns[number],
            end_ns=each.end_ns[number],
            compute_ns=begun[rank] - each.begin_ns[number],
            waiting_ns=last - begun[rank],
            late_ns=begun[rank] - median,
        )
        for rank, each in enumerate(measured)
    ]


def _step(ranks: Sequence[RankStep]) -> StepFigures:
    last = max(ranks, key=lambda each: each.late_ns)
    return StepFigures(
        step=last.step,
        time_s=(max(each.end_ns for each in ranks) - min(each.begin_ns for each in ranks)) / _NS,
        straggler=last.rank,
        lateness_s=last.late_ns / _NS,
    )


def _rank(place: RankPlace, steps: Sequence[RankStep]) -> RankFigures:
    step = _mean([each.end_ns - each.begin_ns for each in steps])
    communication = _mean([each.communication_ns for each in steps])
    return RankFigures(
        rank=place.rank,
        host=place.host,
        interface=place.interface,
        device=place.device,
        step_s=step,
        compute_s=_mean([each.compute_ns for each in steps]),
        communication_s=communication,
        communication_share=communication / step,
        waiting_s=_mean([each.waiting_ns for each in steps]),
        late_s=_mean([each.late_ns for each in steps]),
    )


def _mean(ns: Sequence[int]) -> float:
    return fmean(ns) / _NS
