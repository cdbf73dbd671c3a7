"""Memory that ranks of one host share: threads in place of ranks, with the sums of plain Python as the judge."""

from __future__ import annotations

import array
import random
import threading
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.jobs.hierarchical.host_memory import HOST_MEMORY, HostMemory, host_descriptors

if TYPE_CHECKING:
    from collections.abc import Callable

ELEMENTS: Final = 600
ROUNDS: Final = 40


def together(ranks: int, work: Callable[[HostMemory], Any], size: int = 4 * ELEMENTS) -> list[Any]:
    """What the ranks of a host return, each in a thread of its own."""
    found: list[Any] = [None] * ranks
    with host_descriptors(ranks, size) as shared:

        def run(slot: int) -> None:
            found[slot] = work(HostMemory(shared.variable(slot)[HOST_MEMORY]))

        threads = [threading.Thread(target=run, args=[slot]) for slot in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return found


def summed(memory: HostMemory, octets: memoryview) -> bytearray:
    """The sum of the buffers of all ranks of a host."""
    whole, size = bytearray(len(octets)), len(octets) // memory.ranks
    memory.reduce_scatter(octets, memoryview(whole)[memory.slot * size :][:size])
    memory.all_gather(memoryview(whole))
    return whole


def buffer(rank: int, number: int) -> array.array[int]:
    """The elements of a rank in a round: the largest sum of four needs all 31 bits."""
    drawn = random.Random(1000 * number + rank)
    return array.array("i", [drawn.choice((0, 1, drawn.randrange(2**29), 2**29 - 1)) for _ in range(ELEMENTS)])


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_ranks_get_their_parts_of_the_sum_and_then_all_parts(ranks: int) -> None:
    """In many rounds, so that a fast rank begins the next one while another still reads."""

    def work(memory: HostMemory) -> list[list[int]]:
        sums = []
        for number in range(ROUNDS):
            sums.append(list(array.array("i", summed(memory, memoryview(buffer(memory.slot, number)).cast("B")))))
            memory.barrier()
        return sums

    expected = [
        [sum(column) for column in zip(*(buffer(rank, number) for rank in range(ranks)), strict=True)]
        for number in range(ROUNDS)
    ]
    assert together(ranks, work) == [expected] * ranks


def test_no_rank_copies_whole_buffers() -> None:
    """The largest job has 16 ranks with 32 MiB each in a VM of 4 GiB."""
    size, peaks = 4 * 2**20, list[int]()

    def work(memory: HostMemory) -> None:
        octets = bytes(size)
        memory.barrier()
        if memory.slot == 0:
            tracemalloc.start()
        memory.barrier()
        before = tracemalloc.get_traced_memory()[0]
        summed(memory, memoryview(octets))
        peaks.append(tracemalloc.get_traced_memory()[1] - before)

    try:
        together(2, work, size)
    finally:
        tracemalloc.stop()
    assert max(peaks) < 2 * size + 2**20, "the results of both ranks"


def test_nobody_passes_a_barrier_before_the_last_rank_has_come() -> None:
    ranks, come, lock, early = 4, [0] * ROUNDS, threading.Lock(), []

    def work(memory: HostMemory) -> None:
        for number in range(ROUNDS):
            with lock:
                come[number] += 1
            memory.barrier()
            if come[number] != ranks:
                early.append(number)

    together(ranks, work)
    assert early == []


def test_nothing_of_it_is_left() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    together(2, lambda memory: memory.barrier())
    assert len(list(Path("/proc/self/fd").iterdir())) == before
