"""Errors of failed jobs: one line with the rank, its host, its last step and the cause, and a remedy."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, Final, NamedTuple

from lab.errors import EnvironmentLacks, LabError, OperationFailed
from lab.kernel.process import signals
from lab.rdma.sysfs import MAKE_AGAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.jobs.job_session import Rank

_PATH: Final = "look for loss on the path: rocelab status, rocelab counters; is one link's MTU smaller?"
_NO_RDMA: Final = "no rank may use TCP instead"
_LONGEST: Final = 200
"""Characters of an unknown error that are shown."""


class _Saying(NamedTuple):
    """A pattern in the output of UCX or MPICH, and what it means."""

    pattern: str
    cause: str
    remedy: str
    lacks: bool = False
    """Whether the machine has no RDMA, if it appears before the rank is ready."""


_SAYINGS: Final = (
    _Saying(
        "transport 'rc_verbs' is not available", "UCX finds no RDMA device", f"{_NO_RDMA}; {MAKE_AGAIN}", lacks=True
    ),
    _Saying(
        "network devices? '[^']+' (?:is|are) not available",
        "UCX cannot use its NIC",
        f"{MAKE_AGAIN}; or NCCL_SOCKET_IFNAME names no interface of the host",
        lacks=True,
    ),
    _Saying("transport retry count(?:er)? exceeded", "a peer stopped acknowledging (retry counter exceeded)", _PATH),
    _Saying("Destination is unreachable|no active messages transport", "a peer cannot be reached by RDMA", _PATH),
    _Saying("Endpoint timeout|Connection reset|connection timed out", "a peer stopped answering", _PATH),
    _Saying(
        "completion with error: (?:Work Request Flushed|Local QP Operation)",
        "its NIC ended a QP with an error",
        "is the job's mtu larger than a NIC's active MTU? rocelab exec HOST -- ibv_devinfo",
    ),
    _Saying("Cannot allocate memory|out of memory", "memory ran out", "use smaller sizes, or fewer hosts"),
    _Saying(
        "cannot open shared object file|undefined symbol", "a shared library cannot be loaded", "run ./scripts/setup"
    ),
)
"""The most specific first."""
_NOISE: Final = re.compile(r"^\[\d+\.\d+\] \[[^\]]*\]\s*")


def ended_early(ranks: Sequence[Rank]) -> LabError:
    """Return the error for a job with at least one failed rank.

    A rank killed by a signal is reported before those that noticed it, and a known reason before an unknown one. MPI
    ends a rank with SIGABRT that notices the end of another.
    """
    failed = [rank for rank in ranks if rank.has_failed]
    killed = [(rank, -rank.code) for rank in failed if rank.code is not None and rank.code < 0]
    for rank, number in killed:
        if number != signal.SIGABRT:
            return _killed(rank, number)
    for saying in _SAYINGS:
        for rank in failed:
            if re.search(saying.pattern, rank.output()):
                kind = EnvironmentLacks if saying.lacks and rank.ready_at is None else OperationFailed
                return kind(f"{rank}: {saying.cause} {rank.progress}", saying.remedy)
    if killed:
        return _killed(*killed[0])
    rank = failed[0]
    lines = [_NOISE.sub("", line).strip() for line in rank.output().splitlines() if line.strip()]
    last = lines[-1][:_LONGEST] if lines else "it printed nothing"
    return OperationFailed(
        f"{rank} ended with {rank.code} {rank.progress}: {last}", "the machine may be too busy: use fewer hosts"
    )


def _killed(rank: Rank, number: int) -> LabError:
    by = signals.name_of(number)
    return OperationFailed(f"{rank} was killed ({by}) {rank.progress}", "dmesg shows whether memory ran out")


def stalled(running: Sequence[Rank], seconds: float) -> LabError:
    """Return the error for a job without progress for some seconds: it names the rank that is furthest behind."""
    behind = min(running, key=lambda rank: (not rank.is_stopped, rank.steps, rank.number))
    if behind.is_stopped:
        message = f"{behind} is stopped by a signal or a debugger {behind.progress}"
        return OperationFailed(f"{message}, for {seconds:g} s", "the other ranks were ended; run the job again")
    return OperationFailed(
        f"{behind} made no progress {behind.progress}: no RDMA packet came for {seconds:g} s", _PATH
    )
