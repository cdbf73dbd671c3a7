"""The training jobs of a recording: their steps, rank by rank, and the QPs by which their ranks were connected.

::

    for job in recorded_jobs(recording):
        for step in job.steps:
            print(step.number, step.seconds, step.straggler.node, step.lateness)

Times are in ns of CLOCK_MONOTONIC. A step of a rank is its computation, and then its communication, which begins with
the waiting for the last rank.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

from lab.jobs.rank_qp import RankQp
from lab.telemetry.store.job_steps import SCHEMA
from lab.telemetry.store.recording_folder import damage_as_invalid, read_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lab.telemetry.read.recording import Recording

_NS: Final = 10**9
_NUMBER: Final = " #"
_SLOWER: Final = 0.1
"""The share by which a rank's computation exceeds the median, from which on its host is slow."""
_RELEVANT: Final = 0.01
"""The share of a step that the excess is at least. A short computation varies by more than ``_SLOWER``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRankStep:
    """One step of one rank; durations are in ns."""

    rank: int
    node: str
    interface: str
    step: int
    begin: int
    end: int
    compute: int
    communication: int
    waiting: int
    """From the begin of its communication until the last rank began; part of ``communication``."""
    late: int
    """The begin of its communication after that of the median rank; negative if it was earlier."""

    @property
    def name(self) -> str:
        """The rank and its host, as texts name it."""
        return f"rank {self.rank} ({self.node})"

    @property
    def seconds(self) -> float:
        """The duration of the step."""
        return (self.end - self.begin) / _NS

    @property
    def share(self) -> float:
        """The communication divided by the step, 0 to 1; 0 for a step without duration."""
        return self.communication / (self.end - self.begin) if self.end > self.begin else 0.0

    @property
    def transfer(self) -> int:
        """The communication without the waiting."""
        return max(0, self.communication - self.waiting)


@dataclass(frozen=True)
class RecordedStep:
    """One step of all ranks of a job."""

    number: int
    ranks: tuple[RecordedRankStep, ...]
    """Ordered by rank."""

    @cached_property
    def begin(self) -> int:
        """The time at which the first rank began it."""
        return min(each.begin for each in self.ranks)

    @cached_property
    def end(self) -> int:
        """The time at which the last rank ended it."""
        return max(each.end for each in self.ranks)

    @property
    def seconds(self) -> float:
        """From the first rank that begins it to the last that ends it."""
        return (self.end - self.begin) / _NS

    @cached_property
    def straggler(self) -> RecordedRankStep:
        """The rank that began its communication last; the others waited for it."""
        return max(self.ranks, key=lambda each: (each.late, -each.rank))

    @property
    def lateness(self) -> float:
        """Seconds from the begin of the median rank's communication to that of the straggler."""
        return self.straggler.late / _NS

    @property
    def last(self) -> RecordedRankStep:
        """The rank that ended the step last."""
        return max(self.ranks, key=lambda each: (each.end, -each.rank))

    @property
    def share(self) -> float:
        """The mean share of communication."""
        return fmean(each.share for each in self.ranks)

    @property
    def transfer(self) -> float:
        """The shortest time in seconds in which a rank communicated without waiting for others."""
        return min(each.transfer for each in self.ranks) / _NS

    @cached_property
    def _median_compute(self) -> float:
        return median(each.compute for each in self.ranks)

    def excess(self, rank: RecordedRankStep) -> float:
        """Return the seconds by which a rank computed longer than the median rank; negative if it was faster."""
        return (rank.compute - self._median_compute) / _NS

    def is_slow(self, rank: RecordedRankStep) -> bool:
        """Return whether a rank computed over 10% longer than the median rank, and over 1% of the step longer."""
        return self.excess(rank) > max(_SLOWER * self._median_compute / _NS, _RELEVANT * self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDescription:
    """The record of a job that has ended: its size, and the QPs of its ranks."""

    ns: int
    job: str
    began: int
    """When its first step began, as in ``job_steps``."""
    size: int
    """Bytes of a rank's gradients in a step; 0 if a step has several collectives."""
    roofline: float
    """Seconds of a step by arithmetic: computation, and transfer at the rate of the slowest NIC; 0 if unknown."""
    tclass: int
    qps: tuple[RankQp, ...]


@dataclass(frozen=True)
class RecordedJob:
    """A training job: its steps in order, and its description, if it has one."""

    name: str
    """The job's name; a second job of the same name is ``name #2``."""
    steps: tuple[RecordedStep, ...]
    about: JobDescription | None = None

    @property
    def given_name(self) -> str:
        """The job's name without the number that distinguishes it from others of that name."""
        return self.name.partition(_NUMBER)[0]

    @property
    def ranks(self) -> tuple[RecordedRankStep, ...]:
        """A step of each rank, for its place."""
        found: dict[int, RecordedRankStep] = {}
        for step in self.steps:
            for each in step.ranks:
                found.setdefault(each.rank, each)
        return tuple(found[rank] for rank in sorted(found))

    @property
    def begin(self) -> int:
        """The begin of its first step."""
        return min(step.begin for step in self.steps)

    @property
    def end(self) -> int:
        """The end of its last step."""
        return max(step.end for step in self.steps)

    @property
    def seconds(self) -> float:
        """The mean time of a step."""
        return fmean(step.seconds for step in self.steps)

    @property
    def usual_straggler(self) -> RecordedRankStep:
        """The rank that was the straggler of most steps; of several, the first one."""
        stragglers = [step.straggler for step in self.steps]
        count = Counter(each.rank for each in stragglers)
        rank = min(count, key=lambda each: (-count[each], each))
        return next(each for each in stragglers if each.rank == rank)

    @property
    def lateness(self) -> float:
        """The mean lateness of the stragglers in seconds."""
        return fmean(step.lateness for step in self.steps)

    def by_rank(self) -> dict[int, list[RecordedRankStep]]:
        """Return the steps of each rank in order."""
        found: dict[int, list[RecordedRankStep]] = {}
        for step in self.steps:
            for each in step.ranks:
                found.setdefault(each.rank, []).append(each)
        return found

    def slow_ranks(self) -> list[tuple[RecordedRankStep, float, int]]:
        """Return ranks whose hosts compute slowly: a step, the mean excess in seconds, and the number of such steps.

        A rank counts if it was slow in most steps (``RecordedStep.is_slow``). The network has no part in the
        computation.
        """
        slow: dict[int, list[float]] = {}
        for step in self.steps:
            for each in step.ranks:
                if step.is_slow(each):
                    slow.setdefault(each.rank, []).append(step.excess(each))
        found = [
            (rank, fmean(mine), len(mine))
            for rank in self.ranks
            if len(mine := slow.get(rank.rank, [])) * 2 > len(self.steps)
        ]
        return sorted(found, key=lambda each: -each[1])


def recorded_jobs(recording: Recording) -> tuple[RecordedJob, ...]:
    """Return the training jobs of a recording in order; empty without one. InvalidInput if they are damaged."""
    if SCHEMA.table not in recording.grown:
        return ()
    rows = recording.table(SCHEMA.table).rows
    described = read_records(recording.folder.jobs, _description)
    with damage_as_invalid(recording.folder.path):
        return jobs_of(zip(rows.ns.tolist(), rows.dicts(), strict=True), described)


def jobs_of(
    rows: Iterable[tuple[int, Mapping[str, Any]]], described: Sequence[JobDescription] = ()
) -> tuple[RecordedJob, ...]:
    """Return the jobs of rows of the table ``job_steps``, each with its time, ordered by time.

    Jobs of the same name are numbered in the order in which they began.
    """
    found: dict[tuple[str, int], dict[int, dict[int, RecordedRankStep]]] = {}
    for ns, row in rows:
        of = found.setdefault((str(row["job"]), int(row["began"])), {}).setdefault(int(row["step"]), {})
        of[int(row["rank"])] = _rank_step(ns, row)
    about = {(each.job, each.began): each for each in described}
    count: Counter[str] = Counter()
    jobs = []
    for (name, began), steps in sorted(found.items(), key=lambda job: job[0][1]):
        count[name] += 1
        made = tuple(
            RecordedStep(number, tuple(of[rank] for rank in sorted(of))) for number, of in sorted(steps.items())
        )
        numbered = name if count[name] == 1 else f"{name}{_NUMBER}{count[name]}"
        jobs.append(RecordedJob(numbered, made, about.get((name, began))))
    return tuple(jobs)


def _rank_step(ns: int, row: Mapping[str, Any]) -> RecordedRankStep:
    return RecordedRankStep(
        rank=int(row["rank"]),
        node=str(row["node"]),
        interface=str(row["interface"]),
        step=int(row["step"]),
        begin=min(int(row["begin"]), ns),
        end=ns,
        compute=int(row["compute"]),
        communication=int(row["communication"]),
        waiting=int(row["waiting"]),
        late=int(row["late"]),
    )


def _description(line: Mapping[str, Any]) -> JobDescription:
    return JobDescription(
        ns=int(line["ns"]),
        job=str(line["job"]),
        began=int(line["began"]),
        size=int(line["size"]),
        roofline=int(line["roofline"]) / _NS,
        tclass=int(line["tclass"]),
        qps=tuple(
            RankQp(
                rank=int(each["rank"]),
                qpn=int(each["qpn"]),
                peer_rank=int(each["peer_rank"]),
                peer_qpn=int(each["peer_qpn"]),
                source_port=int(each["source_port"]),
                path=tuple(map(str, each["path"])),
            )
            for each in line["qps"]
        ),
    )
