"""The specification of a job: collective, sizes, algorithm and traffic class, validated on creation.

Sizes are bytes, as nccl-tests counts them: the larger of the send and the receive buffer of one rank.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError
from lab.jobs.nccl_settings import NcclSettings
from lab.jobs.rank_program import ELEMENT_OCTETS
from lab.rdma.measure import DEFAULT_TCLASS, check_tclass
from lab.units import format_size

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_JOB_SIZE: Final = 32 * 2**20
"""Bytes of the largest buffer. A rank then takes 157 MiB at most, or 184 MiB if hierarchical: 16 fit into 4 GiB."""
MAX_STEPS: Final = 10_000
"""Measured steps of a size, whose times a rank reports at once, and steps of warm-up."""
_MOST_SIZES: Final = 32


class Collective(StrEnum):
    """An operation of all ranks (MPI 5.0, chapters 3 and 6), by the name that NCCL users know."""

    ALLREDUCE = "allreduce"
    ALLGATHER = "allgather"
    REDUCE_SCATTER = "reduce-scatter"
    ALLTOALL = "alltoall"
    BROADCAST = "broadcast"
    SENDRECV = "sendrecv"

    @property
    def is_divided(self) -> bool:
        """Whether one of the buffers has a part for each rank, so that the size is a multiple of their number."""
        return self in {Collective.ALLGATHER, Collective.REDUCE_SCATTER, Collective.ALLTOALL}


AUTOMATIC: Final = "auto"
"""MPICH chooses the algorithm by size and number of ranks."""
ALGORITHMS: Final[Mapping[Collective, Mapping[str, str]]] = MappingProxyType(
    {
        Collective.ALLREDUCE: {
            "ring": "ring",
            "tree": "tree",
            "recursive-doubling": "recursive_doubling",
            "reduce-scatter-allgather": "reduce_scatter_allgather",
        },
        Collective.ALLGATHER: {
            "ring": "ring",
            "recursive-doubling": "recursive_doubling",
            "brucks": "brucks",
        },
        Collective.REDUCE_SCATTER: {
            "pairwise": "pairwise",
            "recursive-doubling": "recursive_doubling",
            "recursive-halving": "recursive_halving",
        },
        Collective.ALLTOALL: {"pairwise": "pairwise", "scattered": "scattered", "brucks": "brucks"},
        Collective.BROADCAST: {
            "binomial": "binomial",
            "ring": "scatter_ring_allgather",
            "recursive-doubling": "scatter_recursive_doubling_allgather",
        },
        Collective.SENDRECV: {},
    }
)
"""The algorithms of each collective, and MPICH's names for them."""
HIERARCHICAL: Final = "hierarchical"
"""An AllReduce in three parts: inside each host, on each rail between the hosts, and inside each host again."""


def algorithms_of(collective: Collective) -> tuple[str, ...]:
    """Return the algorithms of a collective by name, the default first."""
    by_host = (HIERARCHICAL,) if collective is Collective.ALLREDUCE else ()
    return (AUTOMATIC, *ALGORITHMS[collective], *by_host)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job without its ranks. UsageError if a value is not possible, or the collective has no such algorithm."""

    collective: Collective
    sizes: tuple[int, ...]
    """Bytes of the larger buffer of a rank, in the order in which they are measured."""
    iterations: int = 5
    """Measured steps of each size."""
    warmup: int = 1
    """Steps of each size before the measured ones."""
    algorithm: str = AUTOMATIC
    tclass: int = DEFAULT_TCLASS
    """IP traffic class of the RDMA packets: DSCP * 4 + ECN."""
    nccl: NcclSettings = field(default_factory=NcclSettings)
    """Settings by their names in NCCL."""

    def __post_init__(self) -> None:
        for size in self.sizes:
            _refuse_size(size)
        if not 1 <= len(self.sizes) <= _MOST_SIZES:
            raise UsageError(f"{len(self.sizes)} sizes", f"use 1 to {_MOST_SIZES}, with a larger --factor")
        if not 1 <= self.iterations <= MAX_STEPS:
            raise UsageError(f"{self.iterations} iterations are out of range", f"use 1 to {MAX_STEPS}")
        if not 0 <= self.warmup <= MAX_STEPS:
            raise UsageError(f"{self.warmup} warm-up steps are out of range", f"use 0 to {MAX_STEPS}")
        check_tclass(self.tclass)
        known = algorithms_of(self.collective)
        if self.algorithm not in known:
            raise UsageError(f"{self.collective} has no algorithm {self.algorithm!r}", f"use {', '.join(known)}")

    @property
    def is_hierarchical(self) -> bool:
        """Whether each host has a rank on each of its NICs, instead of one rank."""
        return self.algorithm == HIERARCHICAL

    def fitted(self, ranks: int, ranks_per_host: int = 1) -> tuple[int, ...]:
        """Return the sizes rounded down to whole elements, and to equal parts where ranks divide them.

        That are all ranks, or those of a host: ``ranks_per_host``. UsageError if nothing is left of a size, or if
        there are fewer than two ranks.
        """
        if ranks < 2:
            raise UsageError(f"{ranks} rank cannot communicate", "use at least 2 ranks")
        unit = ELEMENT_OCTETS * (ranks if self.collective.is_divided else ranks_per_host)
        for size in self.sizes:
            if size < unit:
                raise UsageError(
                    f"{self.collective} of {format_size(size)} on {ranks} ranks has no whole element for each rank",
                    f"use at least {unit} bytes",
                )
        return tuple(size - size % unit for size in self.sizes)


def size_range(smallest: int, largest: int, factor: int) -> tuple[int, ...]:
    """Return the sizes from ``smallest`` to ``largest``, each ``factor`` times the one before; raises UsageError."""
    _refuse_size(smallest)
    if largest < smallest:
        raise UsageError(
            f"the largest size {format_size(largest)} is below the smallest, {format_size(smallest)}",
            "exchange --size and --max-size",
        )
    if factor < 2:
        raise UsageError(f"a factor of {factor} never reaches the largest size", "use 2 or more")
    sizes = [smallest]
    while sizes[-1] * factor <= largest:
        sizes.append(sizes[-1] * factor)
    return tuple(sizes)


def _refuse_size(size: int) -> None:
    if size < ELEMENT_OCTETS:
        raise UsageError(f"a size of {size} bytes has no element", f"use at least {ELEMENT_OCTETS} bytes")
    if size > MAX_JOB_SIZE:
        raise UsageError(f"size {format_size(size)} is too large", f"use at most {format_size(MAX_JOB_SIZE)}")
