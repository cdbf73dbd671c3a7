"""What a job may be, and what is refused with the reason."""

from __future__ import annotations

import pytest

from lab.errors import UsageError
from lab.jobs.job_spec import ALGORITHMS, MAX_JOB_SIZE, Collective, JobSpec, size_range


def spec(collective: Collective, *sizes: int) -> JobSpec:
    return JobSpec(collective=collective, sizes=sizes)


def test_a_range_of_sizes_multiplies_by_the_factor_and_stops_before_the_largest() -> None:
    assert size_range(1024, 16384, 4) == (1024, 4096, 16384)
    assert size_range(1024, 16383, 4) == (1024, 4096)
    assert size_range(8, 8, 2) == (8,)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((0, 8, 2), "a size of 0 bytes has no element"),
        ((8, 4, 2), "below the smallest, 8 B: exchange --size and --max-size"),
        ((8, 64, 1), "never reaches"),
        ((MAX_JOB_SIZE * 2, MAX_JOB_SIZE * 2, 2), "is too large"),
    ],
)
def test_a_range_that_is_none_is_refused(arguments: tuple[int, int, int], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        size_range(*arguments)


def test_sizes_are_rounded_to_equal_parts_only_where_ranks_divide_them() -> None:
    assert spec(Collective.ALLGATHER, 1000, 96).fitted(3) == (996, 96)
    assert spec(Collective.ALLREDUCE, 1003).fitted(3) == (1000,)
    assert spec(Collective.ALLREDUCE, 1003).fitted(6, ranks_per_host=3) == (996,)
    with pytest.raises(UsageError, match="no whole element for each rank: use at least 32 bytes"):
        spec(Collective.ALLTOALL, 28).fitted(8)
    with pytest.raises(UsageError, match="1 rank cannot communicate"):
        spec(Collective.ALLREDUCE, 1024).fitted(1)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"sizes": (0,)}, "a size of 0 bytes has no element: use at least 4 bytes"),
        ({"sizes": ()}, "0 sizes"),
        ({"sizes": (1024,), "iterations": 0}, "0 iterations are out of range: use 1 to 10000"),
        ({"sizes": (1024,), "iterations": 10_001}, "10001 iterations are out of range"),
        ({"sizes": (1024,), "warmup": -1}, "-1 warm-up steps are out of range: use 0 to 10000"),
        ({"sizes": (1024,), "tclass": 256}, "traffic class 256"),
        ({"sizes": (1024,), "algorithm": "pairwise"}, "allreduce has no algorithm 'pairwise': use auto, ring"),
        (
            {"sizes": (1024,), "collective": Collective.ALLGATHER, "algorithm": "hierarchical"},
            "allgather has no algorithm 'hierarchical': use auto, ring, recursive-doubling, brucks",
        ),
    ],
)
def test_impossible_values_are_refused(values: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        JobSpec(**{"collective": Collective.ALLREDUCE, **values})  # type: ignore[arg-type]


def test_every_collective_has_its_algorithms_named() -> None:
    assert set(ALGORITHMS) == set(Collective)
