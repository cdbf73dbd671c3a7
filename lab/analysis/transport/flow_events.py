"""What went wrong in flows: how often in each, and the first events one by one, over all links."""

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
"""Gaps, and steps back, that are kept one by one."""


class Events:
    """Gaps and steps back; ``gap_counts``, ``go_backs`` and ``repeats`` count them by flow.

    Of ``go_backs``, in ``rnr_retries`` the responder had asked to wait, and ``rnr_resent`` are the packets of these.
    Of gaps there may be one in every flow, so they are rows and no objects. ``round_began`` is when the packets began
    that are looked at, and until ``known_until`` all events were kept; both in ns since 1970.
    """

    def __init__(self) -> None:
        self.gap_counts, self.go_backs, self.repeats = several(3, MAX_FLOWS, np.uint32)
        self.rnr_retries, self.rnr_resent = several(2, MAX_FLOWS, np.uint32)
        self.resends: list[tuple[int, Resend]] = []
        self.round_began = 0
        self.known_until = 2**63
        self._gaps, self._again, self._missed = _Kept(), _Kept(), _Kept()
        # Of each flow's last step back but one and its last: when, and 1 + PSN; and the end of the last.
        self._stepped = table(MAX_FLOWS, 5)

    def gaps(self, first: int = MAX_EVENTS) -> Iterator[tuple[int, PsnGap]]:
        """The first ones that were kept, each with its flow."""
        return self._gaps.first(first)

    def gaps_again(self) -> Iterator[tuple[int, PsnGap]]:
        """The same of those among packets that came again."""
        return self._again.first(MAX_EVENTS)

    def missed(self) -> Iterator[tuple[int, PsnGap]]:
        """READ responses that were missing, with the flow that they are of."""
        return self._missed.first(MAX_EVENTS)

    def add_missed(self, flow: int, gap: PsnGap) -> None:
        """READ responses that are missing."""
        self._note_full(self._missed.add(flow, gap))

    def add_gap(self, flow: int, gap: PsnGap) -> None:
        """One more; those among packets that came again are counted nowhere."""
        self.gap_counts[flow] += not gap.again
        self._note_full((self._again if gap.again else self._gaps).add(flow, gap))

    def add_resend(self, flow: int, resend: Resend) -> None:
        """One more, which is over."""
        (self.repeats if resend.alone else self.go_backs)[flow] += 1
        if resend.cause == ACKS[RNR] and not resend.alone:
            self.rnr_retries[flow] += 1
            self.rnr_resent[flow] += resend.packets
        self._stepped[flow] = self._stepped[flow, 1], resend.time, self._stepped[flow, 3], resend.psn + 1, resend.end
        if len(self.resends) < MAX_EVENTS:
            self.resends.append((flow, resend))
        self._note_full(len(self.resends))

    def stepped_twice(self, flow: int, since: int) -> bool:
        """Whether a flow stepped back twice or more after a moment in ns."""
        return int(self._stepped[flow, 0]) > since

    def stuck(self, flow: int, last: int) -> bool:
        """Whether a flow whose last packet passed at ``last`` (ns) ended with asking twice for the same PSN again."""
        _, _, before, psn, end = self._stepped[flow].tolist()
        return bool(psn > 0 and before == psn and end == last)

    def _note_full(self, count: int) -> None:
        """What the present round brings may no longer be kept."""
        if count >= MAX_EVENTS:
            self.known_until = min(self.known_until, self.round_began)


class _Kept:
    """The first gaps of a kind."""

    def __init__(self) -> None:
        self._rows = table(MAX_EVENTS, 4)
        self._count = 0

    def add(self, flow: int, gap: PsnGap) -> int:
        """One more, if there is room; how many there are."""
        if self._count < MAX_EVENTS:
            self._rows[self._count] = flow, gap.time, gap.psn, gap.count
            self._count += 1
        return self._count

    def first(self, most: int) -> Iterator[tuple[int, PsnGap]]:
        """At most so many, each with its flow."""
        for flow, *gap in self._rows[: min(most, self._count)].tolist():
            yield flow, PsnGap(*gap)
