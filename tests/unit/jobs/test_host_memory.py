"""Memory that ranks of one host share: threads in place of ranks."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.jobs.hierarchical.host_memory import HOST_MEMORY, HostMemory, host_descriptors

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS: Final = 40


def together(ranks: int, work: Callable[[HostMemory], Any], size: int = 64) -> list[Any]:
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


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_each_rank_reads_what_all_ranks_wrote(ranks: int) -> None:
    """In many rounds, so that a fast rank begins the next one while another still reads."""
    size = 1000

    def written(slot: int, number: int) -> bytes:
        return bytes([slot, number]) * (size // 2)

    def work(memory: HostMemory) -> bool:
        right = True
        for number in range(ROUNDS):
            ctypes.memmove(memory.data(memory.slot), written(memory.slot, number), size)
            memory.barrier()
            ctypes.memmove(memory.results(memory.slot), memory.data((memory.slot + 1) % ranks), size)
            memory.barrier()
            for slot in range(ranks):
                right &= ctypes.string_at(memory.results(slot), size) == written((slot + 1) % ranks, number)
        return right

    assert together(ranks, work, size) == [True] * ranks


def test_the_last_byte_of_the_last_rank_is_in_the_memory() -> None:
    def work(memory: HostMemory) -> bytes:
        if memory.slot == 1:
            ctypes.memmove(memory.results(1) + 63, b"x", 1)
        memory.barrier()
        return ctypes.string_at(memory.data(1, 127), 1)

    assert together(2, work, 64) == [b"x", b"x"]


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
