"""Where the packets of a QP waited in a window: pauses and queues of the ports on its path.

A port that was paused could not send; pauses are those of the ports' events, exact to the microsecond. Queues are
sampled, so that a short one can be missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.errors import UsageError
from lab.report.pause_list import pauses_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lab.jobs.rank_qp import RankQp
    from lab.model.qos.port import NodeQos
    from lab.report.pause_list import PauseInterval
    from lab.telemetry.read.recording import Recording

_NS: Final = 10**9
_DSCP_BITS: Final = 2
"""The bits of ECN, below the DSCP in a traffic class (RFC 3168)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortWait:
    """A port of a path: how long it was paused, and what waited in its queue."""

    port: str
    priority: int | None
    """The priority of the QP's packets there; null if it is not known."""
    paused_s: float
    queue_peak_bytes: int
    queue_delay_s: float
    """The peak queue divided by the rate of the link: the wait of a packet behind it."""

    @property
    def seconds(self) -> float:
        """The pauses and the wait in the queue, by which ports are ordered."""
        return self.paused_s + self.queue_delay_s


@dataclass(frozen=True, slots=True, kw_only=True)
class QpWait:
    """A QP of a job and the ports on its path."""

    rank: int
    node: str
    qpn: int
    peer_rank: int
    peer_node: str
    peer_qpn: int
    source_port: int
    """The UDP source port, which ECMP hashes."""
    path: tuple[PortWait, ...]
    """Empty if the path was not recorded."""

    @property
    def seconds(self) -> float:
        """The longest wait at one port of the path: pauses move upstream, and are not added up."""
        return max((each.seconds for each in self.path), default=0.0)

    @property
    def worst(self) -> PortWait | None:
        """The port of the longest wait; the last one of the path if several are equal."""
        return max(reversed(self.path), key=lambda each: each.seconds, default=None)

    @property
    def name(self) -> str:
        """Both ranks and QPNs."""
        return f"rank {self.rank} QP {self.qpn} > rank {self.peer_rank} QP {self.peer_qpn}"


class PathWaits:
    """Reads the ports of a recording: each once for a window, since most QPs of a large job share their ports."""

    def __init__(self, recording: Recording, tclass: int) -> None:
        self._recording = recording
        self._dscp = tclass >> _DSCP_BITS
        self._start = recording.clock.start
        self._rates = {str(end): link.rate for link in recording.topology.links for end in link.ends}
        self._pauses: dict[tuple[str, int], list[PauseInterval]] = {}
        for pause in pauses_of(recording):
            self._pauses.setdefault((pause.port, pause.priority), []).append(pause)
        self._qos = _qos_of(recording)
        self._known: dict[tuple[str, int, int], PortWait] = {}

    def of_qp(self, qp: RankQp, nodes: Mapping[int, str], begin: int, end: int) -> QpWait:
        """Return the waits of a QP between two times, in ns; ``nodes`` has the host of each rank."""
        return QpWait(
            rank=qp.rank,
            node=nodes.get(qp.rank, ""),
            qpn=qp.qpn,
            peer_rank=qp.peer_rank,
            peer_node=nodes.get(qp.peer_rank, ""),
            peer_qpn=qp.peer_qpn,
            source_port=qp.source_port,
            path=tuple(self.of_port(port, begin, end) for port in qp.path),
        )

    def of_port(self, port: str, begin: int, end: int) -> PortWait:
        """Return the waits of a port in the priority of the job, between two times in ns."""
        window = port, begin, end
        if window not in self._known:
            self._known[window] = self._read(port, begin, end)
        return self._known[window]

    def _read(self, port: str, begin: int, end: int) -> PortWait:
        priority = self._priority(port)
        first, last = ((each - self._start) / _NS for each in (begin, end))
        peak = self._peak(port, priority, begin, end)
        rate = self._rates.get(port, 0)
        return PortWait(
            port=port,
            priority=priority,
            paused_s=_overlap(self._pauses.get((port, -1 if priority is None else priority), ()), first, last),
            queue_peak_bytes=peak,
            queue_delay_s=peak * 8 / rate if rate else 0.0,
        )

    def _priority(self, port: str) -> int | None:
        node, _, interface = port.partition(":")
        known = self._qos[node].ports.get(interface) if node in self._qos else None
        return None if known is None else known.priority_of(self._dscp)

    def _peak(self, port: str, priority: int | None, begin: int, end: int) -> int:
        if priority is None or port not in self._recording.ports:
            return 0
        view = self._recording.port(port)
        if view.plain:
            return 0
        series = view.depth(priority)
        chosen = series.values[(series.ns >= begin) & (series.ns <= end)]
        return int(np.max(chosen, initial=0))


def _qos_of(recording: Recording) -> Mapping[str, NodeQos]:
    """Return the configuration of the ports; empty if it was not recorded."""
    try:
        return recording.qos()
    except UsageError:
        return {}


def _overlap(pauses: Iterable[PauseInterval], first: float, last: float) -> float:
    """Return the seconds of pauses within a window; those of one port and priority do not overlap."""
    return sum(max(0.0, min(each.end, last) - max(each.start, first)) for each in pauses)
