"""Run a collective between NICs: the ranks, their results, and what is worth a warning."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError
from lab.jobs import job_session, mpi_library
from lab.jobs.bus_bandwidth import job_row, received_sizes
from lab.jobs.hierarchical import hierarchical_program
from lab.jobs.hierarchical.host_memory import host_descriptors
from lab.jobs.job_session import JobPatience, Rank, module_argv, rank_argv
from lab.jobs.mpi_library import algorithm_variables
from lab.jobs.rank_placement import ranks_on_each_host, refuse_shared_host
from lab.jobs.wrong_gid import explained
from lab.units import counted, format_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lab.jobs.bus_bandwidth import JobRow
    from lab.jobs.hierarchical.host_memory import HostDescriptors
    from lab.jobs.job_spec import Collective, JobSpec
    from lab.jobs.mpi_library import MpiLibrary
    from lab.model.qos.port import NodeQos
    from lab.model.topology import Endpoint, Link
    from lab.rdma.measure import Nic

EMULATED_LIMIT: Final = 300_000_000
"""Bits per second of all ranks together that an emulated machine carries without delays of its own."""


@dataclass(frozen=True, slots=True)
class RankPlace:
    """Where a rank of a job ran."""

    rank: int
    host: str
    interface: str
    device: str
    """The RDMA device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """The figures of a job that ran to its end."""

    collective: Collective
    algorithm: str
    ranks: tuple[RankPlace, ...]
    rows: tuple[JobRow, ...]
    start_s: float
    """Seconds from the first process to the moment at which every rank knew all others."""
    iterations: int
    tclass: int
    ranks_per_host: int = 1
    """Ranks of a host that share its memory; 1 unless the job is hierarchical."""

    @property
    def wrong(self) -> int:
        """Wrong elements of all sizes."""
        return sum(row.wrong for row in self.rows)


def run_job(
    nics: Sequence[Nic],
    spec: JobSpec,
    *,
    link_rate: int,
    report: Callable[[str, int, int], None],
    patience: JobPatience | None = None,
) -> JobResult:
    """Run a job with one rank on each NIC, rank 0 on the first, and return its figures.

    A hierarchical job has several ranks on each host, one after the other. All others have one on each.

    ``link_rate`` is that of the slowest NIC in bits per second, to which the job completion time is compared.
    Results may be wrong: ``JobResult.wrong`` counts that. UsageError for sizes that the ranks cannot divide, two
    ranks on one host, or mixed IP versions. EnvironmentLacks without MPI or a device. OperationFailed if a rank
    fails, dies or hangs, with its number, host and step. Nothing of the job is left running.
    """
    ranks_per_host = ranks_on_each_host(nics) if spec.is_hierarchical else 1
    sizes = spec.fitted(len(nics), ranks_per_host)
    if spec.is_hierarchical:
        refuse_mixed_versions(nics)
    else:
        check_nics(nics)
    mpi = mpi_library.find_mpi()
    words = (spec.collective, spec.warmup, spec.iterations, *sizes)
    ranks = [_rank(mpi, words, spec, number, nics) for number in range(len(nics))]
    with ExitStack() as opened:
        if spec.is_hierarchical:
            for first in range(0, len(ranks), ranks_per_host):
                shared = opened.enter_context(host_descriptors(ranks_per_host, max(sizes)))
                _share_host(ranks[first : first + ranks_per_host], shared, mpi, words)
        waits = opened.enter_context(explained(nics, spec.nccl, patience or JobPatience()))
        start = job_session.run_ranks(ranks, waits, report)
    return JobResult(
        collective=spec.collective,
        algorithm=spec.algorithm,
        ranks=tuple(place_of(rank) for rank in ranks),
        rows=tuple(
            job_row(spec.collective, size, [rank.results[size] for rank in ranks], link_rate, ranks_per_host)
            for size in sizes
        ),
        start_s=start,
        iterations=spec.iterations,
        tclass=spec.tclass,
        ranks_per_host=ranks_per_host,
    )


def check_nics(nics: Sequence[Nic]) -> None:
    """Raise UsageError for two ranks on one host, and for mixed IP versions."""
    refuse_shared_host(nics)
    refuse_mixed_versions(nics)


def refuse_mixed_versions(nics: Sequence[Nic]) -> None:
    """Raise UsageError if the NICs have addresses of both IP versions."""
    if len({nic.address.version for nic in nics}) > 1:
        raise UsageError("the ranks have addresses of both IP versions", "name hosts of one IP version")


def _rank(mpi: MpiLibrary, words: Sequence[object], spec: JobSpec, number: int, nics: Sequence[Nic]) -> Rank:
    nic = nics[number]
    return Rank(
        number=number,
        nic=nic,
        argv=rank_argv(mpi.abi, words),
        environment={
            "PATH": os.defpath,
            "PMI_RANK": str(number),
            "PMI_SIZE": str(len(nics)),
            **mpi.environment(number, nic, spec.tclass, algorithm_variables(spec.collective, spec.algorithm)),
            **spec.nccl.variables(nic),
        },
    )


def _share_host(ranks: Sequence[Rank], shared: HostDescriptors, mpi: MpiLibrary, words: Sequence[object]) -> None:
    """Give the ranks of a host its memory, and each the MPI job of its rail."""
    argv = [*module_argv(hierarchical_program.__name__, mpi.abi), *map(str, words)]
    for rail, rank in enumerate(ranks):
        hosts, position = int(rank.environment["PMI_SIZE"]) // len(ranks), rank.number // len(ranks)
        of_rail = {"PMI_RANK": str(position), "PMI_SIZE": str(hosts)}
        rank.argv, rank.rail, rank.descriptors = argv, rail, shared.all
        rank.environment = {**rank.environment, **of_rail, **shared.variable(rail)}


def place_of(rank: Rank) -> RankPlace:
    """Return where a rank ran."""
    nic = rank.nic
    return RankPlace(rank=rank.number, host=nic.host, interface=nic.interface, device=nic.device)


def received_bps(result: JobResult) -> float:
    """Return the payload that all ranks together receive at least, in bits per second of the fastest size."""
    sizes = received_sizes(result.collective, len(result.ranks), result.ranks_per_host)
    return max(row.algbw_bps for row in result.rows) * sizes


def too_fast(summed: float) -> str:
    """Return a warning if the ranks received more bits per second than an emulated machine is exact; "" otherwise."""
    if summed <= EMULATED_LIMIT:
        return ""
    return (
        f"the ranks received {format_rate(summed)} together; above {format_rate(EMULATED_LIMIT)} "
        "the emulation itself can be the bottleneck"
    )


def lossy_class(links: Iterable[Link], qos: Mapping[str, NodeQos], tclass: int) -> str:
    """Return a warning if a port at either end of the ranks' links may drop this traffic class; "" otherwise.

    ``qos`` is that of each node, and empty if links are only shaped.
    """
    ends = [end for link in links for end in link.ends]
    dscp = tclass >> 2
    lossy = [end for end in ends if not _is_lossless(qos, end, dscp)]
    if not lossy:
        return ""
    more = f" and {counted(len(lossy) - 1, 'other port')}" if len(lossy) > 1 else ""
    return (
        f"DSCP {dscp} (traffic class {tclass}) is not lossless at {lossy[0]}{more}: a dropped packet "
        "delays a step by the retransmission timeout; rocelab qos show lists the lossless priorities"
    )


def _is_lossless(qos: Mapping[str, NodeQos], end: Endpoint, dscp: int) -> bool:
    port = qos[end.node].ports.get(end.interface) if end.node in qos else None
    if port is None:
        return False
    return bool(port.pfc.tx_priorities & port.pfc.rx_priorities & 1 << port.priority_of(dscp))
