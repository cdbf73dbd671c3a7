"""Find losses that depend on frame size: all lost frames are larger than those that arrive, as with a small MTU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.decode import value_runs
from lab.analysis.flows.flow_sums import MAX_FLOWS
from lab.analysis.flows.sparse_arrays import zeros
from lab.analysis.results.analysis_facts import SizeLoss
from lab.analysis.results.number_format import address
from lab.analysis.transport.naks import NOBODY
from lab.wire.headers import PSN_HALF, PSN_MASK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.flows.flow_batches import Sorted
    from lab.analysis.flows.flow_sums import FlowKey, Flows
    from lab.analysis.flows.streams import Streams
    from lab.analysis.read.packet_batch import Ints
    from lab.analysis.transport.psn_tracker import Resend

_CAUSES: Final = (*NOBODY, ops.ACKS[ops.SEQUENCE_ERROR])
"""Causes of retransmission that imply a loss."""
LEAST_LOST: Final = 3
"""Losses by which a flow is judged, at least."""
_KEPT: Final = 4096


@dataclass(slots=True)
class SizedLosses:
    """Losses of a flow: number, smallest frame (bytes), time of the first retransmission, and whether NAKs came."""

    count: int
    least: int
    first: int
    asked: bool

    def alive(self, flow: int, streams: Streams, flows: Flows) -> bool:
        """Return whether the responder's host still sent packets after the first retransmission."""
        return self.asked or any(
            flows.seen[back, 1] > self.first
            for stream in streams.back(int(streams.of[flow]))
            for back in streams.members(stream)
        )

    def fact(self, key: FlowKey, links: Sequence[str], delivered: int, *, reads: bool) -> SizeLoss:
        """Return these losses of the flow ``key``, whose largest delivered frame or READ has ``delivered`` bytes."""
        return SizeLoss(
            link=links[key.interface],
            src=address(key.src),
            dst=address(key.dst),
            qp=key.destqp,
            losses=self.count,
            least=self.least,
            delivered=delivered,
            reads=reads,
        )


class Sizes:
    """The largest acknowledged and the smallest lost frame of each flow, in bytes on the wire.

    ``acked`` is by stream: 1 + the last PSN that it acknowledged.
    """

    def __init__(self, streams: Streams, acked: np.ndarray) -> None:
        self.lost: dict[int, SizedLosses] = {}
        self._streams, self._acked = streams, acked
        self._delivered = zeros(MAX_FLOWS, np.uint32)
        self._pending = zeros(MAX_FLOWS)  # the largest frame that is not yet acknowledged: its bytes << 24 | its PSN

    def add(self, packets: Sorted) -> None:
        """Add a round whose ACKs are in ``acked`` already."""
        at = np.flatnonzero(ops.SEQUENCED[packets.opcode])
        if not len(at):
            return
        flow, psn, length = packets.flow[at], packets.psn[at], packets.length[at]
        starts = value_runs.starts(flow)
        flows = flow[starts]
        self._settle(flows)
        acked = np.repeat(self._acked_of(flows), np.diff(starts, append=len(flow)))
        arrived = (acked >= 0) & ((acked - psn & PSN_MASK) < PSN_HALF)
        self._keep(flows, np.maximum.reduceat(np.where(arrived, length, 0), starts))
        waiting = np.maximum.reduceat(np.where(arrived, 0, length << 24 | psn), starts)
        larger = np.flatnonzero(waiting > self._pending[flows])
        self._pending[flows[larger]] = waiting[larger]

    def add_resend(self, flow: int, resend: Resend) -> None:
        """Add an episode: its first packet was lost, or the answer to it. READs are no matter of their own size."""
        if resend.cause not in _CAUSES or not resend.length or resend.read != -1:
            return
        lost = self.lost.get(flow)
        if lost is not None:
            lost.count += 1
            lost.least = min(lost.least, resend.length)
            lost.asked |= resend.asked
        elif len(self.lost) < _KEPT:
            self.lost[flow] = SizedLosses(count=1, least=resend.length, first=resend.time, asked=resend.asked)

    def delivered(self, flows: Ints) -> Ints:
        """Return the size of the largest frame that arrived, by flow; 0 if unknown."""
        self._settle(flows)
        found: Ints = self._delivered[flows].astype(np.int64)
        return found

    def _acked_of(self, flows: Ints) -> Ints:
        """Return the newest acknowledged PSN of each flow, -1 without any."""
        peers = self._streams.peer[self._streams.of[flows]]
        found: Ints = np.where(peers >= 0, self._acked[peers].astype(np.int64), 0) - 1
        return found

    def _settle(self, flows: Ints) -> None:
        """Move pending frames that have been acknowledged since to the delivered ones."""
        pending, acked = self._pending[flows], self._acked_of(flows)
        done = np.flatnonzero((pending > 0) & (acked >= 0) & ((acked - (pending & PSN_MASK) & PSN_MASK) < PSN_HALF))
        self._keep(flows[done], pending[done] >> 24)
        self._pending[flows[done]] = 0

    def _keep(self, flows: Ints, length: Ints) -> None:
        larger = np.flatnonzero(length > self._delivered[flows])
        self._delivered[flows[larger]] = length[larger]


def size_losses(sizes: Sizes, streams: Streams, flows: Flows, links: Sequence[str]) -> tuple[SizeLoss, ...]:
    """Return flows that lose only frames larger than any that arrived, while they still deliver smaller ones."""
    found = []
    for flow, lost in sizes.lost.items():
        if lost.count < LEAST_LOST:
            continue
        delivered = int(sizes.delivered(np.array([flow]))[0])
        alike = [other for stream in streams.beside(int(streams.of[flow])) for other in streams.members(stream)]
        if not delivered:
            delivered = int(sizes.delivered(np.array(alike)).max())
        if 0 < delivered < lost.least and lost.alive(flow, streams, flows):
            found.append(lost.fact(flows.key(flow), links, delivered, reads=False))
    return tuple(found)
