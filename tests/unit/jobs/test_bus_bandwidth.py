"""The figures of nccl-tests, against the arithmetic of its PERFORMANCE.md and output that it publishes."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import pytest

from lab.jobs.bus_bandwidth import RankSteps, bus_factor, job_row, nic_factor, received_sizes
from lab.jobs.job_spec import Collective

RATE: Final = 100_000_000


def steps(*times_ns: tuple[int, int], wrong: int = 0) -> RankSteps:
    """A rank's steps, each from its begin to its end."""
    begins, ends = zip(*times_ns, strict=True)
    return RankSteps(begin_ns=begins, end_ns=ends, wrong=wrong)


@pytest.mark.parametrize(
    ("collective", "ranks", "factor"),
    [
        (Collective.ALLREDUCE, 2, Fraction(1)),
        (Collective.ALLREDUCE, 4, Fraction(3, 2)),
        (Collective.ALLREDUCE, 8, Fraction(7, 4)),
        (Collective.REDUCE_SCATTER, 8, Fraction(7, 8)),
        (Collective.ALLGATHER, 8, Fraction(7, 8)),
        (Collective.ALLTOALL, 4, Fraction(3, 4)),
        (Collective.BROADCAST, 8, Fraction(1)),
        (Collective.SENDRECV, 8, Fraction(1)),
    ],
)
def test_the_factor_is_that_of_performance_md(collective: Collective, ranks: int, factor: Fraction) -> None:
    assert bus_factor(collective, ranks) == factor


def test_a_line_of_all_reduce_perf_comes_out_as_it_was_printed() -> None:
    """README of nccl-tests, 8 GPUs: 134217728 bytes in 1543.3 us are 86.97 GB/s, and 152.19 GB/s on the bus."""
    row = job_row(Collective.ALLREDUCE, 134_217_728, [steps((0, 1_543_300))] * 8, RATE)
    assert row.algbw_bps / 8e9 == pytest.approx(86.97, abs=0.005)
    assert row.busbw_bps / 8e9 == pytest.approx(152.19, abs=0.01)
    assert (row.count, row.type, row.redop, row.root) == (33_554_432, "int32", "sum", -1)


def test_the_jct_ratio_is_1_at_the_rate_of_the_nic_and_grows_with_the_time() -> None:
    """The draft's serialization delay: 8 * S * algo_factor / B_acc."""
    roofline_ns = 8 * 2**20 * 3 // 2 * 10  # 4 ranks, 100 Mb/s: 10 ns a bit
    for times in (1, 3):
        row = job_row(Collective.ALLREDUCE, 2**20, [steps((0, times * roofline_ns))] * 4, RATE)
        assert row.jct_ratio == pytest.approx(times)


def test_with_ranks_on_each_host_a_nic_receives_the_part_of_its_rail() -> None:
    """Two ranks on each of four hosts: each rail sums half of the size between four ranks. busbw counts all ranks."""
    assert nic_factor(Collective.ALLREDUCE, 8, 2) == Fraction(3, 4)
    assert nic_factor(Collective.ALLREDUCE, 8) == bus_factor(Collective.ALLREDUCE, 8)
    assert received_sizes(Collective.ALLREDUCE, 8, 2) == 6
    roofline_ns = 8 * 2**20 * 3 // 4 * 10
    row = job_row(Collective.ALLREDUCE, 2**20, [steps((0, roofline_ns))] * 8, RATE, 2)
    assert row.jct_ratio == pytest.approx(1)
    assert row.busbw_bps == pytest.approx(RATE * (7 / 4) / (3 / 4))


def test_a_step_lasts_from_its_first_begin_to_its_last_end() -> None:
    ranks = [
        steps((1_000, 5_000), (20_000, 26_000)),
        steps((2_000, 9_000), (21_000, 31_000), wrong=3),
        steps((1_500, 6_000), (22_000, 27_000), wrong=1),
    ]
    row = job_row(Collective.SENDRECV, 1024, ranks, RATE)
    assert (row.min_s, row.time_s, row.max_s) == pytest.approx((8e-6, 9.5e-6, 11e-6))
    assert row.wrong == 4
    assert row.straggler == 1
    assert row.lateness_s == pytest.approx((3e-6 + 4e-6) / 2)  # the median rank ended at 6 and 27 us


@pytest.mark.parametrize(
    ("collective", "count", "root"),
    [(Collective.ALLGATHER, 64, -1), (Collective.ALLTOALL, 64, -1), (Collective.BROADCAST, 256, 0)],
)
def test_the_count_is_what_a_rank_passes(collective: Collective, count: int, root: int) -> None:
    row = job_row(collective, 1024, [steps((0, 1))] * 4, RATE)
    assert (row.count, row.root) == (count, root)


@pytest.mark.parametrize(("ends", "late"), [((4, 7), 3), ((7, 4), 3), ((2, 3, 5, 9), 6)])
def test_of_an_even_number_of_ranks_the_earlier_middle_one_is_the_median(ends: tuple[int, ...], late: int) -> None:
    """With the later one, the last of two ranks would never be late."""
    row = job_row(Collective.ALLREDUCE, 1024, [steps((0, end * 1000)) for end in ends], RATE)
    assert row.lateness_s == pytest.approx(late * 1e-6)


@pytest.mark.parametrize(
    ("collective", "received"),
    [
        (Collective.ALLREDUCE, 6),
        (Collective.REDUCE_SCATTER, 3),
        (Collective.ALLGATHER, 3),
        (Collective.ALLTOALL, 3),
        (Collective.BROADCAST, 3),
        (Collective.SENDRECV, 4),
    ],
)
def test_what_four_ranks_receive_together(collective: Collective, received: int) -> None:
    """Each rank gets what it lacks of its result; an AllReduce is a ReduceScatter and an AllGather."""
    assert received_sizes(collective, 4) == received
