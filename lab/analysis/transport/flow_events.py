"""Gaps and retransmissions of all flows: counts by flow, and the first events in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode.opcode_tables import ACKS, RNR
from lab.analysis.flows.flow_sums import MAX_FLOWS
from lab.analysis.flows.sparse_arrays import several, table
from lab.analysis.transport.psn_tracker import PsnGap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.analysis.transport.psn_tracker import Resend

MAX_EVENTS: Final = 16384
"""Gaps, and retransmission episodes, that are kept in full."""


class Events:
    """Gaps and retransmission episodes; ``gap_counts``, ``go_backs`` and ``repeats`` count them by flow.

    ``rnr_retries`` are the episodes of ``go_backs`` that followed an RNR NAK, and ``rnr_resent`` their packets. Gaps
    are rows of an array instead of objects, as every flow may have some. ``round_began`` is the time of the first
    packet of the current round. All events before ``known_until`` were kept. Both are in ns since 1970.
    """

    def __init__(self) -> None:
        self.gap_counts, self.go_backs, self.repeats = several(3, MAX_FLOWS, np.uint32)
        self.rnr_retries, self.rnr_resent = several(2, MAX_FLOWS, np.uint32)
        self.resends: list[tuple[int, Resend]] = []
        self.round_began = 0
        self.known_until = 2**63
        self._gaps, self._again, self._missed = _Kept(), _Kept(), _Kept()
        # Of each flow's last two episodes: time of both, 1 + PSN of both, and end of the last.
        self._stepped = table(MAX_FLOWS, 5)

    def gaps(self, first: int = MAX_EVENTS) -> Iterator[tuple[int, PsnGap]]:
        """Yield the first gaps, each with its flow."""
        return self._gaps.first(first)

    def gaps_again(self) -> Iterator[tuple[int, PsnGap]]:
        """Yield the gaps among retransmitted packets, each with its flow."""
        return self._again.first(MAX_EVENTS)

    def missed(self) -> Iterator[tuple[int, PsnGap]]:
        """Yield the missing READ responses, each with its flow."""
        return self._missed.first(MAX_EVENTS)

    def add_missed(self, flow: int, gap: PsnGap) -> None:
        """Add missing READ responses."""
        self._note_full(self._missed.add(flow, gap))

    def add_gap(self, flow: int, gap: PsnGap) -> None:
        """Add a gap. Gaps among retransmitted packets are not counted."""
        self.gap_counts[flow] += not gap.again
        self._note_full((self._again if gap.again else self._gaps).add(flow, gap))

    def add_resend(self, flow: int, resend: Resend) -> None:
        """Add a completed episode."""
        (self.repeats if resend.alone else self.go_backs)[flow] += 1
        if resend.cause == ACKS[RNR] and not resend.alone:
            self.rnr_retries[flow] += 1
            self.rnr_resent[flow] += resend.packets
        self._stepped[flow] = self._stepped[flow, 1], resend.time, self._stepped[flow, 3], resend.psn + 1, resend.end
        if len(self.resends) < MAX_EVENTS:
            self.resends.append((flow, resend))
        self._note_full(len(self.resends))

    def stepped_twice(self, flow: int, since: int) -> bool:
        """Return whether a flow stepped back at least twice after a time in ns."""
        return int(self._stepped[flow, 0]) > since

    def stuck(self, flow: int, last: int) -> bool:
        """Return whether a flow, last seen at ``last`` (ns), ended with two retransmissions of one PSN."""
        _, _, before, psn, end = self._stepped[flow].tolist()
        return bool(psn > 0 and before == psn and end == last)

    def _note_full(self, count: int) -> None:
        """Note that events of the current round may be lost once ``count`` reaches the limit."""
        if count >= MAX_EVENTS:
            self.known_until = min(self.known_until, self.round_began)


class _Kept:
    """The first gaps of one kind."""

    def __init__(self) -> None:
        self._rows = table(MAX_EVENTS, 4)
        self._count = 0

    def add(self, flow: int, gap: PsnGap) -> int:
        """Add a gap if there is room, and return the number of gaps."""
        if self._count < MAX_EVENTS:
            self._rows[self._count] = flow, gap.time, gap.psn, gap.count
            self._count += 1
        return self._count

    def first(self, most: int) -> Iterator[tuple[int, PsnGap]]:
        """Yield up to ``most`` gaps, each with its flow."""
        for flow, *gap in self._rows[: min(most, self._count)].tolist():
            yield flow, PsnGap(*gap)
