"""The program of one rank of a hierarchical AllReduce: the memory of its host, and the MPI of its rail.

It imports nothing but the standard library, ``rank_program``, whose reports it writes, and ``host_memory``.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

from lab.jobs import rank_program
from lab.jobs.hierarchical.host_memory import HOST_MEMORY, HostMemory
from lab.jobs.rank_program import ELEMENT_OCTETS, INT32, SUM, WORLD, Mpi

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class HierarchicalMpi(Mpi):
    """The MPI of one rail, and the memory of a host: an AllReduce uses the network for the part of each rail only.

    The ranks of a host divide the sum of their buffers. Each rank then sums its part with the ranks of its rail, one
    on each host, and the ranks of the host exchange the parts. MPI knows the ranks of the rail only.
    """

    def __init__(self, library: str, host: HostMemory) -> None:
        super().__init__(library)
        self._host = host
        self.rank, self.ranks = self.rank * host.ranks + host.slot, self.ranks * host.ranks

    def barrier(self) -> None:
        """Return when all ranks of all rails have called it."""
        self._host.barrier()
        super().barrier()
        self._host.barrier()

    def operation(self, collective: str, send: Any, receive: Any, size: int) -> Callable[[], None]:
        """Return the call that runs an AllReduce once; ValueError for another collective."""
        if collective != "allreduce":
            raise ValueError(f"no hierarchical {collective!r}")
        host, part = self._host, size // self._host.ranks
        first, count = host.slot * part, part // ELEMENT_OCTETS
        own = ctypes.create_string_buffer(part)

        def run() -> None:
            ctypes.memmove(host.data(host.slot), send, size)
            host.barrier()
            ctypes.memmove(own, host.data(0, first), part)
            for slot in range(1, host.ranks):
                self._call("MPI_Reduce_local", ctypes.c_void_p(host.data(slot, first)), own, count, INT32, SUM)
            self._call("MPI_Allreduce", own, ctypes.c_void_p(host.results(host.slot)), count, INT32, SUM, WORLD)
            host.barrier()
            for slot in range(host.ranks):
                ctypes.memmove(ctypes.byref(receive, slot * part), host.results(slot), part)

        return run


def main(words: Sequence[str]) -> None:
    """Run a job: the words of ``rank_program``."""
    rank_program.main(words, lambda library: HierarchicalMpi(library, HostMemory(os.environ[HOST_MEMORY])))
