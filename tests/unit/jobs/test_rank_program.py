"""The patterns of ranks and the check of what they receive, against collectives computed here by definition."""

from __future__ import annotations

import array
import itertools

import pytest

from lab.jobs.job_spec import Collective
from lab.jobs.rank_program import buffers, pattern, wrong_elements

RANKS = 4
SIZE = 4 * RANKS * 300


def numbers(octets: bytes) -> list[int]:
    return list(array.array("i", octets))


def sent(collective: str) -> list[list[int]]:
    return [numbers(buffers(collective, rank, RANKS, SIZE)[0]) for rank in range(RANKS)]


def result(collective: str, rank: int) -> list[int]:
    """What MPI's standard says that ``rank`` receives."""
    every = sent(collective)
    part = SIZE // 4 // RANKS
    sums = [sum(column) for column in zip(*every, strict=True)]
    match collective:
        case "allreduce":
            return sums
        case "reduce-scatter":
            return sums[rank * part : (rank + 1) * part]
        case "allgather":
            return list(itertools.chain.from_iterable(every))
        case "alltoall":
            return [value for each in every for value in each[rank * part : (rank + 1) * part]]
        case "broadcast":
            return every[0]
    return every[(rank - 1) % RANKS]


@pytest.mark.parametrize("collective", Collective)
@pytest.mark.parametrize("rank", range(RANKS))
def test_what_a_rank_expects_is_what_the_standard_says(collective: Collective, rank: int) -> None:
    assert numbers(buffers(collective, rank, RANKS, SIZE)[1]) == result(collective, rank)


@pytest.mark.parametrize("collective", ["allgather", "alltoall"])
def test_a_part_in_the_place_of_another_is_noticed(collective: str) -> None:
    _, expected = buffers(collective, 1, RANKS, SIZE)
    part = len(expected) // RANKS
    swapped = expected[part : 2 * part] + expected[:part] + expected[2 * part :]
    assert wrong_elements(swapped, expected) > part // 4


def test_wrong_elements_are_counted() -> None:
    right = pattern(1, 0, 100)
    assert wrong_elements(right, right) == 0
    assert wrong_elements(right[:8] + bytes(8) + right[16:], right) == 2


@pytest.mark.parametrize("bit", [0, 1, 7, 15, 16, 30, 31])
@pytest.mark.parametrize("index", [0, 16_383, 16_384, 39_999])
def test_an_element_is_wrong_whichever_bit_differs(bit: int, index: int) -> None:
    """In the first and last element, and on both sides of the border between two blocks."""
    right = pattern(1, 0, 40_000)
    element = int.from_bytes(right[4 * index : 4 * index + 4], "little") ^ 1 << bit
    got = right[: 4 * index] + element.to_bytes(4, "little") + right[4 * index + 4 :]
    assert wrong_elements(got, right) == 1


def test_every_element_can_be_wrong() -> None:
    right = pattern(1, 0, 40_001)
    assert wrong_elements(b"\xff" * len(right), right) == 40_001


def test_a_pattern_continues_where_the_one_before_ended() -> None:
    assert pattern(3, 0, 1000) == pattern(3, 0, 600) + pattern(3, 600, 400)
