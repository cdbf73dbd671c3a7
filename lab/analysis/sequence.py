"""What became of the PSNs of one flow of requests, as its responder would judge them (IBA vol. 1 section 9.7.3).

PSNs are 24 bits and wrap; all comparisons are modular. The story is told at the place of capture: at the sender a
packet lost further on leaves no gap, but its retransmission is seen; at the receiver the gap is seen too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MASK: Final = 0xFFFFFF
_HALF: Final = 0x800000
_GIVE_UP: Final = 8192
"""Packets beyond a gap after which the capture, not the network, must have lost what is missing."""
_RANGES_KEPT: Final = 64
PATH_MTUS: Final = (256, 512, 1024, 2048, 4096)
"""What a path MTU can be (IBA vol. 1 section 9.7.1)."""


def distance(psn: int, origin: int) -> int:
    """How far ``psn`` is beyond ``origin``, negative when behind."""
    return (psn - origin + _HALF & MASK) - _HALF


def read_span(dmalen: int, mtu: int = 1024) -> int:
    """How many PSNs a request takes: one, or for a READ of ``dmalen`` bytes one for each packet of its response."""
    return max(1, -(-dmalen // mtu))


@dataclass(slots=True)
class Gap:
    """PSNs that were skipped at ``time`` (ns since 1970)."""

    time: int
    psn: int
    count: int


@dataclass(slots=True)
class Resend:
    """A step back: from ``time`` to ``end`` (ns since 1970) the requester resent ``packets`` from ``psn`` on.

    ``back`` is how many PSNs it stepped back. ``again`` counts those of its packets that this place had seen before.
    """

    time: int
    end: int
    psn: int
    back: int
    packets: int = 0
    again: int = 0


class Sequence:
    """The PSNs of one flow since something went wrong in it; before that there is nothing to remember.

    ``front`` follows the highest PSN seen, ``expected`` is the responder's. What went wrong is appended to ``gaps``
    and ``resends`` for the caller to take, and counted.
    """

    def __init__(self, *, reliable: bool) -> None:
        self.reliable = reliable
        self.front = self.expected = 0
        self.gaps: list[Gap] = []
        self.resends: list[Resend] = []
        self.missing = 0
        self.duplicates = 0
        self.out_of_sequence = 0
        self.resent = 0
        self.late = 0
        self.unseen = 0
        self._newest, self._read = 0, -1  # the packet at the front, and DMALen when it is a READ whose end is open
        self._previous = 0
        self._resend: Resend | None = None
        self._missing: list[tuple[int, int]] = []
        self._pending = 0

    @property
    def clean(self) -> bool:
        """Nothing is outstanding: the next packet in order needs no story."""
        return self.front == self.expected and self._resend is None

    @property
    def last(self) -> tuple[int, int]:
        """The PSN before the one that is due, and -1; or that of a READ whose end is open, and its DMALen."""
        return (self._newest, self._read) if self._read >= 0 else (self.front - 1 & MASK, -1)

    def start(self, last: int, read: int) -> None:
        """Go on after ``last``, a PSN that came in order; ``read`` is its DMALen when it was a READ, else -1."""
        self.front = self.expected = last + read_span(read) & MASK
        self._newest, self._read, self._previous = last, read, last

    def feed(self, psn: int, read: int, time: int) -> bool:
        """The next packet, ``read`` as in ``start``; whether the responder would take it."""
        if self._read >= 0:
            self._settle_read(psn)
        ahead = distance(psn, self.front)
        taken = self._resent(psn, read, time, -ahead) if ahead < 0 else self._new(psn, read, time, ahead)
        self._previous = psn
        return taken

    def acknowledge(self, psn: int) -> None:
        """The responder has everything up to ``psn``: what is missing before it, only the capture missed."""
        if not self.clean and distance(psn, self.expected) >= 0 and distance(psn, self.front) < 0:
            self._catch_up(psn + 1 & MASK)

    def finish(self) -> None:
        """The capture ends: an open step back is complete."""
        self._close()

    def _settle_read(self, psn: int) -> None:
        """Where a READ ends is known when the next request comes: it is where one of the path MTUs says."""
        if distance(psn, self._newest) <= 0:
            return
        if psn in {self._newest + read_span(self._read, mtu) & MASK for mtu in PATH_MTUS}:
            if self.expected == self.front:
                self.expected = psn
            self.front = psn
        self._read = -1

    def _new(self, psn: int, read: int, time: int, ahead: int) -> bool:
        self._close()
        if ahead:
            self.gaps.append(Gap(time, self.front, ahead))
            self.missing += ahead
            self._missing = [*self._missing[1 - _RANGES_KEPT :], (self.front, ahead)]
        self._newest, self._read = psn, read
        taken = psn == self.expected
        self.front = psn + read_span(read) & MASK
        if taken or not self.reliable:
            self.expected = self.front
            return True
        self.out_of_sequence += 1
        self._pending += 1
        if self._pending > _GIVE_UP:
            self._catch_up(self.front)
        return False

    def _resent(self, psn: int, read: int, time: int, back: int) -> bool:
        self.resent += 1
        if self._resend is None or distance(psn, self._previous) <= 0:
            self._close()
            self._resend = Resend(time, time, psn, back)
        self._resend.packets += 1
        self._resend.end = time
        if not self._fill(psn):
            self._resend.again += 1
        behind = distance(psn, self.expected)
        if behind < 0:
            self.duplicates += 1
            return False
        if behind > 0:
            self.out_of_sequence += 1
            return False
        self._pending = 0
        self.expected = psn + read_span(read) & MASK
        if distance(self.expected, self.front) > 0:
            self.front = self.expected
        return True

    def _fill(self, psn: int) -> bool:
        """Whether this PSN was missing; then it is no longer."""
        for index, (start, count) in enumerate(self._missing):
            offset = psn - start & MASK
            if offset < count:
                rest = [(start, offset), (psn + 1 & MASK, count - offset - 1)]
                self._missing[index : index + 1] = [piece for piece in rest if piece[1]]
                return True
        return False

    def _close(self) -> None:
        """A step back is over. One that only filled gaps was no go-back-N: those packets came late."""
        resend, self._resend = self._resend, None
        if resend is None:
            return
        if resend.again:
            self.resends.append(resend)
        else:
            self.late += resend.packets
            self.resent -= resend.packets

    def _catch_up(self, expected: int) -> None:
        self.unseen += sum(count for start, count in self._missing if distance(start, expected) < 0)
        self._missing = [(start, count) for start, count in self._missing if distance(start, expected) >= 0]
        self.expected = expected
        self._pending = 0
