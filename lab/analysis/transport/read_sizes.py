"""Find READs whose responses are lost because of their size, as with a small MTU on the way back to the requester.

A READ request is small, so its own frame says nothing. The size of its response packets matters: the DMALen of the
READ, up to the path MTU. A READ has been delivered once the requester steps back to a later PSN, or never does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.transport.loss_sizes import LEAST_LOST, SizedLosses
from lab.analysis.transport.naks import IMPLIED, NOBODY
from lab.analysis.transport.psn_tracker import distance

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.analysis.flows.flow_batches import Sorted
    from lab.analysis.flows.flow_sums import Flows
    from lab.analysis.flows.streams import Streams
    from lab.analysis.results.analysis_facts import SizeLoss
    from lab.analysis.transport.psn_tracker import Resend
    from lab.analysis.transport.read_responses import Responses

_CAUSES: Final = (*NOBODY, IMPLIED)
"""Causes of retransmission that may be lost responses."""
_FLOWS: Final = 4096
_OUTSTANDING: Final = 128
"""READs that a requester may have outstanding: more than devices allow."""
_KEPT: Final = 16384
"""READs of all flows that are kept, to bound memory."""
_LARGEST_MTU: Final = 4096


@dataclass(slots=True)
class _ReadFlow:
    """The READs of one flow. ``waiting``: DMALen and time (ns) by PSN; ``delivered``: the largest DMALen."""

    waiting: dict[int, tuple[int, int]] = field(default_factory=dict)
    delivered: int = 0
    lost: SizedLosses | None = None


class ReadSizes:
    """The largest delivered and the smallest lost READ of each flow, in bytes of data."""

    def __init__(self, streams: Streams, responses: Responses) -> None:
        self._streams, self._responses = streams, responses
        self._reads: dict[int, _ReadFlow] = {}
        self._kept = 0

    def add(self, packets: Sorted) -> None:
        """Add the READ requests of a round."""
        at = np.flatnonzero(ops.READ_REQUEST[packets.opcode] & (packets.dmalen >= 0))
        columns = (packets.flow[at], packets.psn[at], packets.dmalen[at], packets.time[at])
        for flow, psn, size, time in zip(*(column.tolist() for column in columns), strict=True):
            reads = self._reads.get(flow)
            if reads is None:
                if len(self._reads) >= _FLOWS:
                    continue
                reads = self._reads[flow] = _ReadFlow()
            if psn in reads.waiting:
                continue
            if len(reads.waiting) >= _OUTSTANDING:
                self._deliver(reads, next(iter(reads.waiting)))
            if self._kept < _KEPT:
                self._kept += 1
                reads.waiting[psn] = size, time

    def add_resend(self, flow: int, resend: Resend) -> None:
        """Add an episode: READs before its PSN were delivered, and it repeats those from there on."""
        reads = self._reads.get(flow)
        if reads is None:
            return
        for psn in [psn for psn, (_, time) in reads.waiting.items() if time <= resend.end]:
            if distance(psn, resend.psn) < 0:
                self._deliver(reads, psn)
            else:
                self._kept -= 1
                del reads.waiting[psn]
        if resend.cause not in _CAUSES or resend.read < 0:
            return
        if reads.lost is None:
            reads.lost = SizedLosses(count=0, least=resend.read, first=resend.time, asked=False)
        reads.lost.count += 1
        reads.lost.least = min(reads.lost.least, resend.read)
        reads.lost.asked |= resend.asked

    def losses(self, flows: Flows, links: Sequence[str]) -> Iterator[SizeLoss]:
        """Yield flows whose READs are lost only if they are larger than any that was delivered."""
        for flow, reads in self._reads.items():
            lost = reads.lost
            if lost is None or lost.count < LEAST_LOST:
                continue
            mtu = int(self._streams.mtu[self._streams.of[flow]]) or _LARGEST_MTU
            alike = [other for stream in self._streams.beside(int(self._streams.of[flow]))
                     for other in self._streams.members(stream)]  # fmt: skip
            delivered = self._delivered([flow]) or self._delivered(alike)
            if not delivered and not self._acknowledged(flow, flows):
                continue
            if min(delivered, mtu) < min(lost.least, mtu) and lost.alive(flow, self._streams, flows):
                yield lost.fact(flows.key(flow), links, delivered, reads=True)

    def _deliver(self, reads: _ReadFlow, psn: int) -> None:
        size, _ = reads.waiting.pop(psn)
        reads.delivered = max(reads.delivered, size)
        self._kept -= 1

    def _delivered(self, flows: Iterable[int]) -> int:
        """Return the DMALen of the largest READ that was delivered; 0 if none was."""
        return max((self._delivered_of(flow) for flow in flows if flow in self._reads), default=0)

    def _delivered_of(self, flow: int) -> int:
        reads, outstanding = self._reads[flow], self._responses.outstanding(flow)
        answered = [size for psn, (size, _) in reads.waiting.items() if psn not in outstanding]
        return max(reads.delivered, *answered, 0)

    def _acknowledged(self, flow: int, flows: Flows) -> bool:
        """Return whether the responder's ACKs reach the requester's link."""
        peer = int(self._streams.peer[self._streams.of[flow]])
        return peer >= 0 and any(flows.acks[member, 0] for member in self._streams.members(peer))
