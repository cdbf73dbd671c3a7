"""The memory that ranks of one host share in a hierarchical collective, in place of the NVLink of a GPU server.

It is a file without a name, and each rank has an eventfd, so that nothing is left of it when the last process ends::

    host h1:  rank 0 (eth1)  -- slot 0 --+
                                         |-- one file in memory, one slot for each rank
              rank 1 (eth2)  -- slot 1 --+

It imports nothing of rocelab: the program of a rank has to start fast.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST_MEMORY: Final = "ROCELAB_HOST_MEMORY"
"""The variable with a rank's slot, and the descriptors of memory and eventfds: ``SLOT,MEMORY,EVENT,...``."""

_BUFFERS: Final = 2
"""Buffers of each rank."""


@dataclass(frozen=True, slots=True)
class HostDescriptors:
    """The launcher's descriptors of the memory of a host."""

    memory: int
    events: tuple[int, ...]
    """One for each rank of the host."""

    @property
    def all(self) -> tuple[int, ...]:
        """The descriptors that each rank inherits."""
        return (self.memory, *self.events)

    def variable(self, slot: int) -> dict[str, str]:
        """Return the variable for the rank with this slot."""
        return {HOST_MEMORY: ",".join(map(str, (slot, *self.all)))}


@contextmanager
def host_descriptors(ranks: int, size: int) -> Iterator[HostDescriptors]:
    """Make the memory of a host for buffers of ``size`` bytes, and close the launcher's descriptors at the end."""
    opened: list[int] = []
    try:
        opened.append(os.memfd_create("host"))
        os.ftruncate(opened[0], _BUFFERS * ranks * size)
        opened.extend(os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_CLOEXEC) for _ in range(ranks))
        yield HostDescriptors(opened[0], tuple(opened[1:]))
    finally:
        for descriptor in opened:
            os.close(descriptor)


class HostMemory:
    """The memory of a host, as one of its ranks uses it. Each slot has room for two buffers: data, and results."""

    def __init__(self, variable: str) -> None:
        self.slot, memory, *self._events = map(int, variable.split(","))
        self._map = mmap.mmap(memory, 0)
        self._begin = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._room = len(self._map) // (_BUFFERS * self.ranks)

    @property
    def ranks(self) -> int:
        """The number of ranks of the host."""
        return len(self._events)

    def data(self, slot: int, first: int = 0) -> int:
        """Return the address of byte ``first`` of a rank's data."""
        return self._begin + _BUFFERS * slot * self._room + first

    def results(self, slot: int) -> int:
        """Return the address of a rank's results."""
        return self.data(slot, self._room)

    def barrier(self) -> None:
        """Return when all ranks of the host have called it: each wakes all others, and is woken by each."""
        for slot, event in enumerate(self._events):
            if slot != self.slot:
                os.eventfd_write(event, 1)
        for _ in range(self.ranks - 1):
            os.eventfd_read(self._events[self.slot])
