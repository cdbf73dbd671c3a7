"""NAKs, and the retransmission that each of them caused.

A NAK explains one episode at each link, and only for a limited time. A later retransmission of its PSN is due to the
requester's timer (IBA vol. 1 sections 9.7.5.1.2 and 9.7.6).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.wire.syndrome import AckKind, Syndrome

if TYPE_CHECKING:
    from lab.analysis.flows.flow_batches import Sorted
    from lab.analysis.flows.streams import Streams

TIMEOUT: Final = "timeout"
UNKNOWN: Final = "unknown"
NOBODY: Final = (TIMEOUT, UNKNOWN)
"""Causes that are not NAKs."""
IMPLIED: Final = "implied NAK"
"""A gap in the responses to a READ, after which the requester asks again by itself (section 9.7.5.2)."""
HOLDS: Final = 100_000_000
"""ns after a NAK in which a requester reacts to it; a later reaction is due to a timer."""
_KEPT: Final = 16384


class Naks:
    """NAKs by the stream that carried them and the PSN that they request; the newest are kept."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._of: dict[tuple[int, int], list[tuple[int, int, str]]] = {}  # time, end of validity, and meaning
        self._order: deque[tuple[int, int]] = deque()
        self._used: dict[tuple[int, int], int] = {}

    def add(self, packets: Sorted) -> None:
        """Add the NAKs of a round."""
        kind = np.where(packets.syndrome >= 0, ops.ACK[packets.syndrome], 0)
        for index in np.flatnonzero(kind).tolist():
            syndrome = Syndrome.decode(int(packets.syndrome[index]))
            wait = int(syndrome.rnr_wait * 1e9) if syndrome.kind is AckKind.RNR_NAK else 0
            stream, time = int(self._streams.of[packets.flow[index]]), int(packets.time[index])
            self.keep(stream, int(packets.psn[index]), (time, time + wait + HOLDS, ops.ACKS[int(kind[index])]))

    def keep(self, stream: int, psn: int, nak: tuple[int, int, str]) -> None:
        """Add a NAK of ``stream``: its time, the time until which a requester may react (ns), and its meaning."""
        key = (stream, psn)
        self._of.setdefault(key, []).append(nak)  # a deque takes 600 bytes
        self._order.append(key)
        if len(self._order) > _KEPT:
            oldest = self._order.popleft()
            del self._of[oldest][0]
            if not self._of[oldest]:
                del self._of[oldest]

    def asked(self, flow: int, psn: int, time: int) -> str:
        """Return and use up the NAK that made the requester resend ``psn`` at ``time``; else TIMEOUT or UNKNOWN."""
        stream = int(self._streams.of[flow])
        peer = int(self._streams.peer[stream])
        back = self._streams.back(stream)
        if not back:
            return UNKNOWN
        if peer < 0:
            strangers = [other for other in back if self._streams.peer[other] < 0]
            return UNKNOWN if any(self._find(flow, other, psn, time) for other in strangers) else TIMEOUT
        cause = self._find(flow, peer, psn, time)
        if cause:
            if len(self._used) >= _KEPT:
                self._used.pop(next(iter(self._used)))
            self._used[flow, psn] = time
        return cause or TIMEOUT

    def _find(self, flow: int, stream: int, psn: int, time: int) -> str:
        used = self._used.get((flow, psn), -1)
        for came, until, what in reversed(self._of.get((stream, psn), ())):
            if used < came <= time <= until:
                return what
        return ""
