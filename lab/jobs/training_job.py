"""Run a training job, and judge its steps: their time, the share of communication, and which rank was late.

The communication of a rank is the part of a step in which it does not compute. A rank that computes longer delays all
others: they wait for its part of the sums. The straggler of a step is the rank whose last computation ended last. Its
lateness is the time from the median rank's end to its own.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import chain
from statistics import fmean, median_low
from typing import TYPE_CHECKING, Any, Final

from lab.errors import UsageError
from lab.jobs.collective_job import RankPlace, place_of
from lab.jobs.job_spec import AUTOMATIC
from lab.jobs.nccl_settings import NcclSettings
from lab.jobs.rank_schedule import OperationKind, Phase
from lab.jobs.schedule_arithmetic import step_seconds, transfers
from lab.jobs.schedule_job import ScheduleOptions, run_schedule
from lab.jobs.training_schedule import training_schedule
from lab.rdma.measure import DEFAULT_TCLASS
from lab.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lab.jobs.job_session import Rank
    from lab.jobs.rank_qp import RankQp
    from lab.jobs.rank_schedule import JobSchedule, StepTimes
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
    """From the end of its last computation until the last rank's, or until the end of the step if that is earlier."""
    late_ns: int
    """The end of its last computation after that of the median rank; negative if it was earlier."""

    @property
    def communication_ns(self) -> int:
        """The time in which it did not compute, with the waiting."""
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
    """The time in which it did not compute, with the waiting for other ranks."""
    communication_share: float
    """Communication divided by step."""
    waiting_s: float
    """From the end of its last computation until the last rank's, or until the end of the step."""
    late_s: float
    """The end of its last computation after that of the median rank; negative if it was earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """One measured step of all ranks."""

    step: int
    """From 1."""
    time_s: float
    """From the first rank that begins it to the last that ends it."""
    straggler: int
    """The rank whose last computation ended last."""
    lateness_s: float
    """The end of its last computation after that of the median rank, the earlier of two middle ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """A job that an execution trace describes, with the attributes of a ``TrainingSpec`` that have a value for it."""

    name: str
    schedule: JobSchedule
    algorithm: str = AUTOMATIC
    """The algorithm of AllReduce."""
    tclass: int = DEFAULT_TCLASS
    mtu: None = None
    settings: NcclSettings = field(default_factory=NcclSettings)
    storage: None = None
    allreduce: None = None

    def group_names(self, ranks: int) -> str:
        """Return the groups of ranks for a title."""
        return f"{counted(len(self.schedule.groups), 'group')} of {ranks} ranks"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseFigures:
    """A part of the steps: what all ranks did in it, on average."""

    phase: Phase
    operations: float
    """Computations, collectives and messages in a step, each once."""
    time_s: float
    """From the moment at which all ends have begun an operation until its last end, of a step, without overlaps."""
    received: float
    """Bytes that all ranks together receive at least, in a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResult:
    """The figures of a training job that ran to its end."""

    name: str
    ranks: tuple[RankFigures, ...]
    """Without the rank on the storage host."""
    storage: RankPlace | None = None
    """The rank on the storage host."""
    steps: tuple[StepFigures, ...]
    rank_steps: tuple[RankStep, ...]
    """Every step of every rank, ordered by step."""
    phases: tuple[PhaseFigures, ...]
    groups: str
    """The groups of ranks, for example "tensor 2, data 4"."""
    size: int
    """Bytes of the gradients of a rank; 0 without."""
    algorithm: str
    """The algorithm of AllReduce."""
    tclass: int
    time_s: float
    """The mean time of a step of all ranks."""
    roofline_s: float
    """The mean time of a step if only computations and the rate of the slowest NIC cost time."""
    straggler: int
    """The rank that was the straggler of most steps."""
    lateness_s: float
    """The mean lateness of the stragglers."""
    transfer_bps: float
    """Payload that all ranks together receive at least, while anything is transferred, in bits per second."""
    wrong: int
    """Wrong elements of all ranks and all steps."""
    start_s: float
    """Seconds from the first process to the moment at which every rank knew all others."""

    @property
    def jct_ratio(self) -> float:
        """The mean time of a step divided by its roofline."""
        return self.time_s / self.roofline_s

    @property
    def began_ns(self) -> int:
        """When its first step began, in ns of CLOCK_MONOTONIC."""
        return min(each.begin_ns for each in self.rank_steps)


def run_training(
    nics: Sequence[Nic],
    spec: TrainingSpec | TraceJob,
    *,
    link_rate: int,
    report: Callable[[str, int, int], None],
    stepped: Callable[[Sequence[dict[str, Any]]], None] = lambda _: None,
) -> TrainingResult:
    """Run a training job with one rank on each NIC, rank 0 on the first, and return its figures.

    ``stepped`` is called with rows of the table ``job_steps`` when all ranks have ended a step or several.
    With storage, the last NIC is that of the storage host. ``link_rate`` is that of the slowest NIC in bits per
    second. UsageError if ``slower`` names a host without a rank, or the groups do not divide the ranks; otherwise the
    errors of ``run_schedule``. Nothing of the job is left running.
    """
    hosts = [nic.host for nic in nics]
    schedule = _schedule(spec, hosts)
    if not any(_variant_seconds(schedule, link_rate)):
        raise UsageError(f"job {spec.name} neither computes nor communicates", "record the trace again")
    options = ScheduleOptions(algorithm=spec.algorithm, tclass=spec.tclass, mtu=spec.mtu, nccl=spec.settings)
    trained = len(nics) - (spec.storage is not None)
    known = 0

    def look(ranks: Sequence[Rank]) -> None:
        nonlocal known
        places = [(place_of(rank), rank.scheduled) for rank in ranks[:trained]]
        ended = range(known, min(len(steps) for _, steps in places))
        if ended:
            known = ended.stop
            began = min(steps[0].begin_ns for _, steps in places)
            steps = chain.from_iterable(_rank_steps(schedule, places, number) for number in ended)
            stepped(recorded_steps(spec.name, began, [place for place, _ in places], steps))

    ranks, start = run_schedule(nics, schedule, options, report=report, look=look)
    measured = [(place_of(rank), rank.scheduled) for rank in ranks]
    return training_result(spec, measured, link_rate=link_rate, start_s=start)


def training_result(
    spec: TrainingSpec | TraceJob,
    ranks: Sequence[tuple[RankPlace, Sequence[StepTimes]]],
    *,
    link_rate: int,
    start_s: float,
) -> TrainingResult:
    """Return the figures of a training job from the places and the times of its ranks, in their order."""
    schedule = _schedule(spec, [place.host for place, _ in ranks])
    seconds = _variant_seconds(schedule, link_rate)
    trained = ranks[: len(ranks) - (spec.storage is not None)]
    by_step = [_rank_steps(schedule, trained, number) for number in range(len(schedule.measured))]
    steps = tuple(_step(each) for each in by_step)
    stragglers = [step.straggler for step in steps]
    moved, busy, phases = _transferred(schedule, [times for _, times in ranks])
    return TrainingResult(
        name=spec.name,
        ranks=tuple(_rank(place, [step[place.rank] for step in by_step]) for place, _ in trained),
        storage=ranks[-1][0] if spec.storage is not None else None,
        steps=steps,
        rank_steps=tuple(each for step in by_step for each in step),
        phases=phases,
        groups=spec.group_names(len(trained)),
        size=spec.allreduce or 0,
        algorithm=spec.algorithm,
        tclass=spec.tclass,
        time_s=fmean(step.time_s for step in steps),
        roofline_s=fmean(seconds[variant] for variant in schedule.measured),
        straggler=max(sorted(set(stragglers)), key=stragglers.count),
        lateness_s=fmean(step.lateness_s for step in steps),
        transfer_bps=moved * 8 / busy if busy else 0.0,
        wrong=sum(step.wrong for _, times in ranks for step in times),
        start_s=start_s,
    )


def recorded_steps(
    job: str, began: int, places: Sequence[RankPlace], steps: Iterable[RankStep]
) -> list[dict[str, Any]]:
    """Return rows of the table ``job_steps`` for steps of ranks, whose places are given in order of the ranks.

    ``began`` is when the job's first step began. Each row has ``ns`` besides, when its step ended.
    """
    return [
        {
            "ns": each.end_ns, "job": job, "began": began, "rank": each.rank, "node": places[each.rank].host,
            "interface": places[each.rank].interface, "step": each.step, "begin": each.begin_ns,
            "compute": each.compute_ns, "communication": each.communication_ns, "waiting": each.waiting_ns,
            "late": each.late_ns,
        }
        for each in steps
    ]  # fmt: skip


def recorded_job(result: TrainingResult, qps: Sequence[RankQp]) -> dict[str, Any]:
    """Return the recording's description of a job that has just ended, the fields of ``JobDescription``."""
    return {
        "ns": time.monotonic_ns(),
        "job": result.name,
        "began": result.began_ns,
        "size": result.size,
        "roofline": round(result.roofline_s * _NS),
        "tclass": result.tclass,
        "qps": [asdict(each) for each in qps],
    }


def _schedule(spec: TrainingSpec | TraceJob, hosts: Sequence[str]) -> JobSchedule:
    return spec.schedule if isinstance(spec, TraceJob) else training_schedule(spec, hosts)


def _variant_seconds(schedule: JobSchedule, link_rate: int) -> list[float]:
    """Return the arithmetic of each variant, which many steps may share."""
    return [step_seconds(schedule, variant, link_rate) for variant in range(len(schedule.variants))]


def _rank_steps(
    schedule: JobSchedule, ranks: Sequence[tuple[RankPlace, Sequence[StepTimes]]], number: int
) -> list[RankStep]:
    """Return a step of all ranks, in their order."""
    variant = schedule.variants[schedule.measured[number]]
    computations = [
        [
            times
            for operation, times in zip(variant[place.rank], steps[number].operations, strict=True)
            if operation.kind is OperationKind.COMPUTE
        ]
        for place, steps in ranks
    ]
    begins = [steps[number].begin_ns for _, steps in ranks]
    ends = [steps[number].end_ns for _, steps in ranks]
    computed = [
        begin + max((end for _, end in each), default=0) for begin, each in zip(begins, computations, strict=True)
    ]
    median, last = median_low(computed), max(computed)
    return [
        RankStep(
            rank=place.rank,
            step=number + 1,
            begin_ns=begin,
            end_ns=end,
            compute_ns=sum(until - since for since, until in each),
            waiting_ns=max(0, min(last, end) - done),
            late_ns=done - median,
        )
        for (place, _), begin, end, each, done in zip(ranks, begins, ends, computations, computed, strict=True)
    ]


def _transferred(
    schedule: JobSchedule, ranks: Sequence[Sequence[StepTimes]]
) -> tuple[int, float, tuple[PhaseFigures, ...]]:
    """Return the bytes that all ranks received, the seconds in which any moved, and the figures of each phase."""
    octets: Counter[Phase] = Counter()
    operations: Counter[Phase] = Counter()
    spans: dict[Phase, list[tuple[int, int]]] = {}
    moving: list[tuple[int, int]] = []
    joined = [transfers(variant) for variant in schedule.variants]
    for number, kind in enumerate(schedule.measured):
        variant = schedule.variants[kind]
        for transfer in joined[kind]:
            rank, index = transfer.ends[0]
            phase = variant[rank][index].phase
            octets[phase] += transfer.received
            operations[phase] += 1
            moving.append(_span(ranks, number, transfer.ends))
            spans.setdefault(phase, []).append(moving[-1])
        for rank, steps in enumerate(variant):
            for index, operation in enumerate(steps):
                if operation.kind is OperationKind.COMPUTE:
                    operations[operation.phase] += 1
                    spans.setdefault(operation.phase, []).append(_span(ranks, number, ((rank, index),)))
    count = len(schedule.measured)
    phases = tuple(
        PhaseFigures(
            phase=phase,
            operations=operations[phase] / count,
            time_s=_union(spans[phase]) / count,
            received=octets[phase] / count,
        )
        for phase in Phase
        if phase in spans
    )
    return sum(octets.values()), _union(moving), phases


def _span(ranks: Sequence[Sequence[StepTimes]], number: int, ends: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return when all ends of an operation had begun, and when the last had ended, in ns."""
    steps = [(ranks[rank][number].begin_ns, ranks[rank][number].operations[index]) for rank, index in ends]
    return max(begin + since for begin, (since, _) in steps), max(begin + until for begin, (_, until) in steps)


def _union(spans: Iterable[tuple[int, int]]) -> float:
    """Return the seconds that are in at least one of some spans of ns."""
    total, reached = 0, 0
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total / _NS


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
        communication_share=communication / step if step else 0.0,
        waiting_s=_mean([each.waiting_ns for each in steps]),
        late_s=_mean([each.late_ns for each in steps]),
    )


def _mean(ns: Sequence[int]) -> float:
    return fmean(ns) / _NS
