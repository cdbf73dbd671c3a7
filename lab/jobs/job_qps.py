"""The QPs of a job: the rank that has each, its peer, and the ports on its path.

The kernel lists the QPs of a process without their peers' addresses. The peers are those that the fabric's ports have
learned (``lab.dataplane.qp_pairs``). The path is that which each switch's kernel returns for the 5-tuple of the QP.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import LabError
from lab.jobs.rank_qp import RankQp
from lab.kernel.netlink.rdma_tracking import Tracking
from lab.model.topology import Endpoint
from lab.routing.paths.underlay_path import HostAttachment
from lab.wire.udp_ports import labelled_source_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lab.dataplane.qp_pairs import ConnectedQp
    from lab.rdma.measure import Nic
    from lab.routing.paths.underlay_path import Walker

UCX_FLOW_LABEL: Final = 0xFFFFF
"""The flow label that UCX sets for the first path of a RoCE device (``uct_ib_iface_fill_ah_attr_from_gid_lid``).

So all QPs of a job have one UDP source port, and ECMP divides them by their addresses only.
"""
_GENERATIONS: Final = 4
"""Processes between a command and one that it started, at most."""


class JobQps:
    """Finds the QPs of a job while its ranks still run, at most once: ``report`` takes the job's progress."""

    def __init__(
        self,
        nics: Sequence[Nic],
        pairs: Callable[[], Iterable[ConnectedQp]],
        walker: Walker,
        report: Callable[[str, int, int], None],
    ) -> None:
        """``pairs`` returns all connected QPs of the fabric; ``report`` is called with the progress, too."""
        self._nics, self._pairs, self._walker, self._report = nics, pairs, walker, report
        self._looked = False
        self.found: tuple[RankQp, ...] = ()

    def report(self, stage: str, done: int, total: int) -> None:
        """Pass progress on. When all ranks are done, and before they end, look for their QPs."""
        self._report(stage, done, total)
        if stage == DONE and done == total and not self._looked:
            self._looked = True
            with contextlib.suppress(LabError):  # the job has ended well, with or without its QPs
                self._look()

    def _look(self) -> None:
        self.found = tuple(rank_qps(self._nics, self._pairs(), own_qps(self._nics), self._walker))


DONE: Final = "ranks done"
"""The stage that a job reports while ranks end (``job_session``)."""


def own_qps(nics: Sequence[Nic]) -> set[tuple[int, int]]:
    """Return the rank and QPN of each QP that a process of this command owns. OperationFailed without RDMA."""
    with Tracking() as kernel:
        indices = kernel.devices()
        return {
            (rank, pair.qpn)
            for rank, nic in enumerate(nics)
            if nic.device in indices
            for pair in kernel.queue_pairs(indices[nic.device])
            if _is_own(pair.pid)
        }


def rank_qps(
    nics: Sequence[Nic], pairs: Iterable[ConnectedQp], own: set[tuple[int, int]], walker: Walker
) -> Iterator[RankQp]:
    """Yield the QPs of ``own``, a rank and a QPN each, whose peer is another rank, ordered by rank and QPN."""
    places = {place[1]: rank for rank, nic in enumerate(nics) if (place := nic.namespace.place) is not None}
    ranks = {nic.address: rank for rank, nic in enumerate(nics)}
    connected = [(places[pair.netns], pair) for pair in pairs if pair.netns in places and pair.peer in ranks]
    for rank, pair in sorted(connected, key=lambda each: (each[0], each[1].qpn)):
        if (rank, pair.qpn) in own and pair.address == nics[rank].address:
            peer, port = ranks[pair.peer], labelled_source_port(UCX_FLOW_LABEL)
            yield RankQp(
                rank=rank,
                qpn=pair.qpn,
                peer_rank=peer,
                peer_qpn=pair.peer_qpn,
                source_port=port,
                path=_path(walker, nics[rank], nics[peer], port),
            )


def _path(walker: Walker, src: Nic, dst: Nic, port: int) -> tuple[str, ...]:
    start, goal = (HostAttachment(Endpoint(nic.host, nic.interface), nic.address) for nic in (src, dst))
    try:
        return tuple(map(str, walker.of_flow(start, goal, port)))
    except (LabError, StopIteration):  # no route now, or a bond or a tunnel, which the walker does not follow
        return ()


def _is_own(pid: int) -> bool:
    """Return whether a process is a descendant of this one."""
    for _ in range(_GENERATIONS):
        if pid == os.getpid():
            return True
        pid = _parent(pid)
        if pid <= 1:
            return False
    return False


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(stat.rpartition(") ")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
