"""Track the PSNs of the requests of one flow, as its responder would judge them (IBA vol. 1 section 9.7.3).

PSNs have 24 bits and wrap, so all comparisons are modular. Events depend on the place of capture. At the sender, a
packet that is lost later leaves no gap, but its retransmission is seen. At the receiver the gap is seen, too.

A QP number may be used again, by a connection with other PSNs. A responder ACKs a duplicate with the newest PSN that
it has, never an older one (section 9.7.5.1.2). So an older one, with few messages, belongs to a new connection.
Without ACKs, only a step that no window explains does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from lab.analysis.decode.columns import UNKNOWN
from lab.analysis.decode.opcode_tables import BEGINS
from lab.analysis.transport.naks import HOLDS, IMPLIED, NOBODY
from lab.wire.headers import PSN_HALF, PSN_MASK

if TYPE_CHECKING:
    from collections.abc import Callable

_GIVE_UP: Final = 8192
"""After this many packets beyond a gap, the missing ones were lost by the capture, not by the network."""
_AHEAD: Final = 65536
"""PSNs by which an ACK may be ahead of the newest captured packet, if the capture lacks some."""
_RESTART: Final = 2**20
"""A step back by so many PSNs is no retransmission without ACKs: 4 GB at a path MTU of 4096 are not under way."""
_TIMER: Final = 4_000_000
"""ns. After a silence of this length, a missing packet was sent again by a timer. Paths differ by less.

The local ACK timeout is 4.096 us * 2^n (IBA vol. 1 section 9.7.6.1.3), in practice with n from 10 on.
"""
_KEPT: Final = 256
"""Requests that are kept of a connection that may be new."""
_RANGES_KEPT: Final = 64
PATH_MTUS: Final = (256, 512, 1024, 2048, 4096)
"""The possible path MTUs in bytes (IBA vol. 1 section 9.7.1)."""


def distance(psn: int, origin: int) -> int:
    """Return how far ``psn`` is ahead of ``origin``, negative if it is behind."""
    return (psn - origin + PSN_HALF & PSN_MASK) - PSN_HALF


def read_span(dmalen: int, mtu: int = 1024) -> int:
    """Return the PSNs that a request takes: one, or one per response packet of a READ of ``dmalen`` bytes."""
    return max(1, -(-dmalen // mtu))


def fill(missing: list[tuple[int, int]], psn: int) -> bool:
    """Remove a PSN from these ranges (first PSN and count), and return whether one of them contained it."""
    for index, (start, count) in enumerate(missing):
        offset = psn - start & PSN_MASK
        if offset < count:
            rest = [(start, offset), (psn + 1 & PSN_MASK, count - offset - 1)]
            missing[index : index + 1] = [piece for piece in rest if piece[1]]
            return True
    return False


class PsnRequest(NamedTuple):
    """A request. ``read`` is the DMALen of a READ, or UNKNOWN, else -1; ``time`` is in ns since 1970.

    ``payload`` is in bytes, and ``length`` is that of the frame, in bytes on the wire.
    """

    psn: int
    read: int
    time: int
    payload: int
    opcode: int
    length: int = 0


@dataclass(slots=True)
class PsnGap:
    """PSNs that were skipped at ``time`` (ns since 1970).

    ``again``: they were skipped during a retransmission. This link had captured them before, but not this time.
    """

    time: int
    psn: int
    count: int
    again: bool = False


@dataclass(slots=True)
class Resend:
    """A retransmission episode: from ``time`` to ``end`` (ns since 1970), ``packets`` from ``psn`` on were resent.

    * ``since``: the newest time of the packets before it. ``back``: PSNs that the requester stepped back.
    * ``again``: its packets that this link had captured before.
    * ``cause``: the NAK that requested it, or one of ``NOBODY``.
    * ``alone``: after a NAK only its own packet was resent, followed by new ones.
    * ``length``: that of the first frame, in bytes on the wire. ``read``: its DMALen if it is a READ, else -1.
    """

    time: int
    end: int
    since: int
    psn: int
    back: int
    cause: str
    packets: int = 0
    again: int = 0
    alone: bool = False
    length: int = 0
    read: int = -1

    @property
    def asked(self) -> bool:
        """Whether a NAK requested it."""
        return self.cause not in NOBODY


class PsnEvents:
    """The events of sequences, until the caller collects them.

    ``displaced`` counts packets that the file has after ones with higher PSNs, although they were captured before.
    """

    def __init__(self) -> None:
        self.gaps: list[PsnGap] = []
        self.resends: list[Resend] = []
        self.accepted: list[PsnRequest | None] = []
        self.displaced = 0


COUNTS: Final = ("missing", "duplicates", "out_of_sequence", "resent", "late", "unseen")
"""The counters of a ``Sequence``."""


class _Episode(NamedTuple):
    """The first requests of an episode, and the counts of its ``Sequence`` before it."""

    before: tuple[int, ...]
    requests: list[PsnRequest]


class Sequence:
    """The PSNs of one flow from its first irregularity on; before that, no state is needed.

    * ``front`` follows the highest PSN captured; ``expected`` is the responder's expected PSN.
    * Events are appended to ``told.gaps`` and ``told.resends``, and accepted requests to ``told.accepted``. None
      stands for packets that were not captured here. The caller empties these lists.
    * ``mtu``: the path MTU in bytes, 0 if unknown.
    * ``asked`` returns the NAK that requested a retransmission, from flow, PSN and time.
    """

    __slots__ = (
        "_acked", "_ask", "_due", "_flow", "_held", "_maybe_new", "_missing", "_newest", "_previous",
        "_previous_time", "_read", "_resend", "_told", "_waiting", "expected", "front", "mtu", "reliable", *COUNTS,
    )  # fmt: skip

    def __init__(self, flow: int, told: PsnEvents, asked: Callable[[int, int, int], str], *, reliable: bool) -> None:
        self.reliable = reliable
        self._flow, self._told, self._ask = flow, told, asked
        self.mtu = 0
        self.front = self.expected = 0
        self.missing = 0
        self.duplicates = 0
        self.out_of_sequence = 0
        self.resent = 0
        self.late = 0
        self.unseen = 0
        self._newest, self._read = 0, -1  # the packet at the front, and DMALen if it is a READ whose span is unknown
        self._previous = self._previous_time = 0  # PSN of the packet before, and the newest time up to it
        self._due = -1  # the PSN after the last packet; -1 after a READ with unknown span
        self._resend: Resend | None = None
        self._held: Resend | None = None
        self._missing: list[tuple[int, int]] = []
        self._waiting: dict[int, PsnRequest] = {}
        self._acked = -1  # the newest PSN that was ACKed, -1 before it
        self._maybe_new: _Episode | None = None  # the current episode, if its first PSN had been ACKed

    @property
    def clean(self) -> bool:
        """Whether nothing is outstanding: the next packet in order needs no sequence."""
        return self.front == self.expected and self._resend is None

    @property
    def settled(self) -> bool:
        """Whether no later packet can relate to earlier events."""
        return self.clean and self._held is None and not self._missing

    @property
    def last(self) -> tuple[int, int]:
        """The PSN before the one that is due, and -1; or the PSN and DMALen of a READ whose span is unknown."""
        return (self._newest, self._read) if self._read != -1 else (self.front - 1 & PSN_MASK, -1)

    def start(self, last: int, read: int, time: int, acked: int = -1) -> None:
        """Continue after PSN ``last``, which came in order at ``time``; ``read`` is a READ's DMALen, else -1.

        ``acked`` is the newest PSN that was ACKed, -1 if none is known.
        """
        self._acked = acked
        self.front = self.expected = last + self._span(read) & PSN_MASK
        self._newest, self._read, self._previous = last, self._open(read), last
        self._previous_time = time

    def feed(self, request: PsnRequest) -> None:
        """Process the next packet."""
        psn = request.psn
        if self._read != -1:
            self._settle_read(psn)
        ahead = distance(psn, self.front)
        if (ahead < -_RESTART or (ahead > _AHEAD and self._due >= 0)) and BEGINS[request.opcode]:
            self._begin_anew(psn, request.time)
            ahead = 0
        if self._resend is not None and self._due >= 0:
            self._note_skip(request.time, psn if ahead < 0 else self.front)
        if ahead < 0:
            self._again(request, -ahead)
        else:
            self._new(request, ahead)
        self._previous, self._previous_time = psn, max(self._previous_time, request.time)
        self._due = -1 if self._open(request.read) != -1 else psn + self._span(request.read) & PSN_MASK

    def _note_skip(self, time: int, upto: int) -> None:
        """Record a gap if a retransmission skips PSNs up to ``upto``."""
        if (count := distance(upto, self._due)) > 0:
            self._told.gaps.append(PsnGap(time, self._due, count, again=True))

    @property
    def waiting(self) -> int:
        """Number of packets that are kept because an ACK may still prove that they were accepted."""
        return len(self._waiting)

    def forget(self) -> None:
        """Drop these packets; those that are acknowledged later count as not captured."""
        self._waiting.clear()

    def acknowledge(self, psn: int, msn: int) -> None:
        """Process an ACK up to ``psn``. PSNs missing before it were only missed by the capture.

        The same applies if packets at the front were not captured, as ACKs are cumulative (section 9.7.5.1.2).
        ``msn`` counts the messages that the responder completed.
        """
        if self._maybe_new is not None and self._is_new(self._maybe_new.requests, psn, msn):
            self._redo(self._maybe_new)
        if self._acked < 0 or distance(psn, self._acked) > 0:
            self._acked = psn
        if self._held is not None and distance(psn, self._held.psn) > 0:
            self._release()
        ahead = distance(psn, self.front)
        if self.expected != self.front and distance(psn, self.expected) >= 0 and ahead < _AHEAD:
            self._credit(psn + 1 & PSN_MASK if ahead < 0 else self.front)

    def _is_new(self, requests: list[PsnRequest], psn: int, msn: int) -> bool:
        """Return whether an ACK belongs to a connection that began with these requests of the current episode.

        It counts no more messages than they have. An ACK of the old connection that arrived late counts more.
        """
        return (
            distance(psn, self._acked) < 0 <= distance(psn, requests[0].psn)
            and distance(psn, self._previous) <= 0
            and msn <= 1 + sum(distance(request.psn, psn) <= 0 for request in requests)
        )

    def _redo(self, episode: _Episode) -> None:
        """Judge an episode again, as the requests of a new connection."""
        self._resend = self._maybe_new = None
        for name, count in zip(COUNTS, episode.before, strict=True):
            setattr(self, name, count)
        self._begin_anew(episode.requests[0].psn, episode.requests[0].time)
        for request in episode.requests:
            self.feed(request)

    def _begin_anew(self, psn: int, time: int) -> None:
        """Begin a new connection with ``psn``. The earlier findings have ended."""
        self._close(went_on=False)
        self._release()
        self._missing.clear()
        self._waiting.clear()
        self._told.accepted.append(None)
        self.start(psn - 1 & PSN_MASK, -1, time)
        self._due = psn

    def finish(self) -> None:
        """End the capture; an open episode is complete."""
        self._close(went_on=False)
        self._release()

    def _span(self, read: int) -> int:
        return read_span(read, self.mtu or 1024)

    def _open(self, read: int) -> int:
        """Return the DMALen of a READ whose span is unknown without the MTU, else -1."""
        return -1 if self.mtu and read != UNKNOWN else read

    def _settle_read(self, psn: int) -> None:
        """Set the span of a READ by the next request: it must match one of the path MTUs.

        If the size is unknown, the next request itself determines the span.
        """
        if distance(psn, self._newest) <= 0:
            return
        if self._read == UNKNOWN or psn in {
            self._newest + read_span(self._read, mtu) & PSN_MASK for mtu in PATH_MTUS
        }:
            if self.expected == self.front:
                self.expected = psn
            self.front = psn
        self._read = -1

    def _new(self, request: PsnRequest, ahead: int) -> None:
        self._close(went_on=not ahead)
        psn, read = request.psn, request.read
        if ahead:
            self._told.gaps.append(PsnGap(request.time, self.front, ahead))
            self.missing += ahead
            self._missing = [*self._missing[1 - _RANGES_KEPT :], (self.front, ahead)]
        self._newest, self._read = psn, self._open(read)
        taken = psn == self.expected
        self.front = psn + self._span(read) & PSN_MASK
        if taken or not self.reliable:
            self.expected = self.front
            self._told.accepted += [request] if taken else [None, request]
            return
        self.out_of_sequence += 1
        self._waiting[psn] = request
        if len(self._waiting) > _GIVE_UP:
            self._credit(self.front)

    def _again(self, request: PsnRequest, back: int) -> None:
        psn, time = request.psn, request.time
        step = distance(psn, self._due if self._due >= 0 else self._previous + 1)
        if (
            self._resend is None
            or step < 0
            or (self._is_late(self._resend) and self._is_by_timer(self._previous_time, time))
        ):
            self._close(went_on=False)
        self._keep_maybe_new(request)
        self.resent += 1
        self._told.displaced += time < self._previous_time
        if self._resend is None:
            self._resend = self._episode(request, back, self._cause(psn, time))
        elif step > 0 and (cause := self._ask(self._flow, psn, time)) not in NOBODY:
            self._close(went_on=True)  # the NAK shows that the packets in between were not lost
            self._release()
            self._resend = self._episode(request, back, cause)
        self._resend.packets += 1
        self._resend.end = time
        if not fill(self._missing, psn):
            self._resend.again += 1
        behind = distance(psn, self.expected)
        if behind < 0:
            self.duplicates += 1
        elif behind > 0:
            self.out_of_sequence += 1
            self._waiting.setdefault(psn, request)
        else:
            self._waiting.pop(psn, None)
            self._told.accepted.append(request)
            self.expected = psn + self._span(request.read) & PSN_MASK
            if distance(self.expected, self.front) > 0:
                self.front = self.expected
            if self.expected == self.front:
                self._waiting.clear()

    def _keep_maybe_new(self, request: PsnRequest) -> None:
        """Keep a request of an episode that began with a PSN that had been ACKed: its connection may be new."""
        acked = self._acked >= 0 and distance(request.psn, self._acked) <= 0
        if self._resend is None and acked and BEGINS[request.opcode]:
            self._maybe_new = _Episode(tuple(getattr(self, name) for name in COUNTS), [])
        if self._maybe_new is not None and len(self._maybe_new.requests) < _KEPT:
            self._maybe_new.requests.append(request)

    def _episode(self, request: PsnRequest, back: int, cause: str) -> Resend:
        """Return the episode that begins with ``request``."""
        return Resend(
            time=request.time,
            end=request.time,
            since=self._previous_time,
            psn=request.psn,
            back=back,
            cause=cause,
            length=request.length,
            read=request.read,
        )

    def _cause(self, psn: int, time: int) -> str:
        """Return the NAK that requested an episode, and reclassify the episode before it if needed.

        A NAK is obeyed even if the missing packet arrived late, just before it. If only the NAK's packet was resent
        and earlier packets follow now, those were lost again, and it was a go-back-N.
        """
        held, self._held = self._held, None
        if held is None:
            return self._ask(self._flow, psn, time)
        if held.psn == psn and not held.again and time - held.time < HOLDS:
            self.late += 1
            self.resent -= 1
            return held.cause
        held.alone &= not 0 < distance(psn, held.psn) < held.back  # the packets after it were lost again
        self._told.resends.append(held)
        return self._ask(self._flow, psn, time)

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._told.resends.append(held)

    def _close(self, *, went_on: bool) -> None:
        """End an episode. If it only filled gaps, its packets were late, not resent.

        It was a retransmission if a NAK requested it, or if the requester had been silent until its timer expired.
        """
        resend, self._resend = self._resend, None
        if resend is None:
            return
        self._maybe_new = None
        behind = went_on and self._due >= 0 and distance(self.front, self._due) > 0
        resend.alone = behind and resend.packets == 1 and resend.asked and resend.cause != IMPLIED
        if resend.alone or (resend.asked and resend.packets == 1 and not resend.again):
            self._release()
            self._held = resend
        elif not self._is_late(resend):
            self._told.resends.append(resend)
            if resend.time < resend.since:  # captured before the packets ahead of it: not retransmitted
                self._count_late(resend.packets - resend.again)
        else:
            self._count_late(resend.packets)

    def _count_late(self, packets: int) -> None:
        """Count packets of an episode as late instead of resent."""
        self.late += packets
        self.resent -= packets

    def _is_late(self, resend: Resend) -> bool:
        """Whether the packets of an episode are late so far."""
        return not (resend.again or resend.asked or self._is_by_timer(resend.since, resend.time))

    def _is_by_timer(self, since: int, time: int) -> bool:
        """Whether a packet after a silence was sent again, as the requester's timer had expired."""
        return self.reliable and time - since > _TIMER

    def _credit(self, upto: int) -> None:
        """Accept everything before ``upto``: the responder did not discard the packets that wait there."""
        due = self.expected
        for psn in self._waiting_before(upto):
            request = self._waiting.pop(psn)
            if distance(psn, due) < 0:
                continue
            self._told.accepted += [request] if psn == due else [None, request]
            self.out_of_sequence -= 1
            due = psn + self._span(request.read) & PSN_MASK
        if distance(upto, due) > 0:
            self._told.accepted.append(None)
            due = upto
        self.unseen += sum(
            min(count, distance(due, start)) for start, count in self._missing if distance(start, due) < 0
        )
        self._missing = [
            (start, count) if distance(start, due) >= 0 else (due, count - distance(due, start))
            for start, count in self._missing
            if distance(start + count, due) > 0
        ]
        self.expected = due

    def _waiting_before(self, upto: int) -> list[int]:
        """Return the waiting PSNs before ``upto`` in order, by the cheaper way: counting up, or sorting."""
        origin, size = self.expected, distance(upto, self.expected)
        if size < len(self._waiting):
            return [psn for psn in ((origin + n) & PSN_MASK for n in range(size)) if psn in self._waiting]
        before = (psn for psn in self._waiting if distance(psn, origin) < size)
        return sorted(before, key=lambda psn: psn - origin & PSN_MASK)
