"""The figures of a job as nccl-tests prints them: time, algorithm bandwidth and bus bandwidth.

The algorithm bandwidth is size / time. The bus bandwidth multiplies it by a factor, so that it can be compared with
the rate of a link whatever the number of ranks is (nccl-tests, doc/PERFORMANCE.md).

The job completion time (JCT) ratio compares a step with its roofline: the same bytes at the rate of a NIC,
and no other delay (draft-calabria-bmwg-ai-fabric-terminology: JCT Ratio, Roofline JCT). The computation time is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean, median_low
from typing import TYPE_CHECKING

from lab.jobs.job_spec import Collective
from lab.jobs.rank_program import ELEMENT_OCTETS
from lab.rdma.measure import percentile

if TYPE_CHECKING:
    from collections.abc import Sequence


def bus_factor(collective: Collective, ranks: int) -> Fraction:
    """Return the bus bandwidth divided by the algorithm bandwidth."""
    if collective is Collective.ALLREDUCE:
        return Fraction(2 * (ranks - 1), ranks)
    if collective.is_divided:
        return Fraction(ranks - 1, ranks)
    return Fraction(1)


def nic_factor(collective: Collective, ranks: int, ranks_per_host: int = 1) -> Fraction:
    """Return how many times the size each NIC receives at least.

    With several ranks on each host, those of one rail sum their part of the size, and the rest stays in the host.
    """
    if ranks_per_host == 1:
        return bus_factor(collective, ranks)
    return bus_factor(collective, ranks // ranks_per_host) / ranks_per_host


def received_sizes(collective: Collective, ranks: int, ranks_per_host: int = 1) -> int:
    """Return how many times the size all NICs together receive at least, whatever the algorithm is.

    A broadcast has a bus factor of 1, but its root receives nothing. All other factors are those of each NIC.
    """
    if collective is Collective.BROADCAST:
        return ranks - 1
    return int(ranks * nic_factor(collective, ranks, ranks_per_host))


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSteps:
    """The measured steps of one size at one rank: times of each in ns of CLOCK_MONOTONIC."""

    begin_ns: tuple[int, ...]
    end_ns: tuple[int, ...]
    wrong: int
    """Elements of the results that were not as expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One size of a job, out of place."""

    size: int
    """Bytes of the larger buffer of a rank."""
    count: int
    """Elements that a rank passes to the collective."""
    type: str
    """The data type, by NCCL's name."""
    redop: str
    """The reduction, by NCCL's name; none without one."""
    root: int
    """The rank that sends; -1 without one."""
    time_s: float
    """Mean duration of a step, from the first rank that begins it to the last that ends it."""
    min_s: float
    """The shortest step."""
    max_s: float
    """The longest step."""
    p50_s: float
    """The time that half of the steps do not exceed."""
    p95_s: float
    p99_s: float
    algbw_bps: float
    """Algorithm bandwidth in bits per second: size / mean duration."""
    busbw_bps: float
    """Bus bandwidth in bits per second."""
    jct_ratio: float
    """Mean duration divided by the time in which a NIC receives its share (``nic_factor``) at its rate."""
    wrong: int
    """Wrong elements of all ranks and all steps."""
    straggler: int
    """The rank that ended most steps last."""
    lateness_s: float
    """Mean time by which the last rank ended a step after the median rank, the earlier of two middle ones."""


def job_row(
    collective: Collective, size: int, steps: Sequence[RankSteps], link_rate: int, ranks_per_host: int = 1
) -> JobRow:
    """Return the figures of one size; ``steps`` has each rank, in the order of ranks.

    ``link_rate`` is the rate of the slowest NIC in bits per second.
    """
    ranks = len(steps)
    begins = list(zip(*(each.begin_ns for each in steps), strict=True))
    ends = list(zip(*(each.end_ns for each in steps), strict=True))
    durations = [(max(end) - min(begin)) / 1e9 for begin, end in zip(begins, ends, strict=True)]
    mean = fmean(durations)
    last = [end.index(max(end)) for end in ends]
    late = [(max(end) - median_low(end)) / 1e9 for end in ends]
    algorithm = size * 8 / mean
    received = algorithm * float(nic_factor(collective, ranks, ranks_per_host))
    return JobRow(
        size=size,
        count=size // ELEMENT_OCTETS // (ranks if collective.is_divided else 1),
        type="int32",
        redop="sum" if collective in {Collective.ALLREDUCE, Collective.REDUCE_SCATTER} else "none",
        root=0 if collective is Collective.BROADCAST else -1,
        time_s=mean,
        min_s=min(durations),
        max_s=max(durations),
        p50_s=percentile(sorted(durations), 50),
        p95_s=percentile(sorted(durations), 95),
        p99_s=percentile(sorted(durations), 99),
        algbw_bps=algorithm,
        busbw_bps=algorithm * float(bus_factor(collective, ranks)),
        jct_ratio=link_rate / received,
        wrong=sum(each.wrong for each in steps),
        straggler=max(sorted(set(last)), key=last.count),
        lateness_s=fmean(late),
    )
