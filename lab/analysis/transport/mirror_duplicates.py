"""Packets that one file has several times, because mirrors sent them as they came in and as they went out.

All have the same PSN and what goes with it, at almost the same time. Behind a router their TTLs differ, and further
hops may follow; switches leave them alike in every header but a VLAN tag that may come or go. They are counted once.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.decode import value_runs
from lab.analysis.flows.flow_batches import Sorted
from lab.analysis.flows.flow_sums import MAX_FLOWS
from lab.analysis.flows.sparse_arrays import zeros

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.analysis.read.packet_batch import Flags, Ints

_What: TypeAlias = tuple[int, ...]
_Seen: TypeAlias = tuple[bytes, int]  # the TTLs of all that were like that, and when the last one was there
_TOGETHER: Final = 10_000_000
"""ns: how far apart the two may be; a retransmission that took another way comes later."""
_ALIKE: Final = 1_000_000
"""ns: the same of two that are alike, which nothing but time and number tells from a retransmission."""
_WAITING: Final = 2048  # packets of one flow between the first place and the last: 80 us of a queue at 800 Gb/s
_FLOWS: Final = 4096
_ALL_WAITING: Final = 16384
"""Flows that are looked at, and packets of all of them, so that memory is bounded; others are not recognised."""
_SIGHTINGS: Final = 24
_FORGOTTEN: Final = 12
"""Of packets that are alike, as CNPs are, the most that are remembered; then the oldest are forgotten, which two,
three and four places have all seen as often.
"""
_SHARE: Final = 4
"""One of so many packets has to be a copy: where it is fewer, a path has changed its length."""
_SAMPLE: Final = 256
_UNSETTLED: Final = 64
_ENOUGH: Final = 8
"""Packets of a link, the first ones, that decide how often it has each one, of which the last ones' copies may be
still to come; and how many it needs at least."""
_OFTEN: Final = (4, 3, 2)
"""Times that a link may have each one: two switches, both sides of each. ``_FORGOTTEN`` is a multiple of each."""
_DIFFERENT: Final = 4
"""Packets that are not alike, at least: an RNR NAK and what it refuses come again, all as often, too."""
_ALONE: Final = 20
"""At most one of so many may be there another number of times. Go-back-N repeats no NAK, and hardly ever all else
exactly once."""


class Copies:
    """Finds them; ``counts`` is by flow, and ``alike`` how many of them had the same TTL.

    ``links_of`` tells the interfaces of flows.
    """

    def __init__(self, links_of: Callable[[Ints], Ints]) -> None:
        self.counts: dict[int, int] = defaultdict(int)
        self.alike = 0
        self._links_of = links_of
        self._times: dict[int, int] = {}  # that a link has each packet, once that is decided
        self._ttl = zeros(MAX_FLOWS, np.uint16)  # 1 + that of each flow's first packet; 0 before it
        self._waiting: dict[int, dict[_What, _Seen]] = {}

    def sift(self, packets: Sorted) -> Sorted:
        """The round without copies."""
        flows = packets.flow[packets.starts]
        fresh = self._ttl[flows] == 0
        self._ttl[flows[fresh]] = packets.ttl[packets.starts[fresh]] + 1
        times = self._decide(packets, flows)
        other = packets.ttl + 1 != self._ttl[packets.flow]
        if not other.any() and not self._waiting and not (times > 1).any():
            return packets
        kept = np.ones(len(packets.flow), np.bool_)
        mixed = np.logical_or.reduceat(other, packets.starts) | np.isin(flows, list(self._waiting)) | (times > 1)
        ends = packets.ends
        for index in np.flatnonzero(mixed).tolist():
            span = slice(int(packets.starts[index]), int(ends[index]) + 1)
            self._sift(packets, span, kept, int(times[index]))
        return packets if kept.all() else _only(packets, kept)

    def _decide(self, packets: Sorted, flows: Ints) -> Ints:
        """By flow of the round: how often its link has every packet."""
        links = self._links_of(flows)
        present = np.flatnonzero(np.bincount(links)).tolist()
        if undecided := [link for link in present if link not in self._times]:
            by_packet = self._links_of(packets.flow)
            for link in undecided:
                rows = np.flatnonzero((by_packet == link) & ~ops.CNP[packets.opcode])  # those have no PSN
                if len(rows) >= _ENOUGH:
                    rows = rows[np.argsort(packets.at[rows])[:_SAMPLE]]
                    self._times[link] = _how_often(packets, rows)
        return np.array([self._times.get(link, 1) for link in links.tolist()], np.int64)

    def _sift(self, packets: Sorted, span: slice, kept: Flags, times: int) -> None:
        alike = times > 1
        flow = int(packets.flow[span.start])
        known = flow in self._waiting
        waiting = self._waiting.get(flow, {})
        room = min(_WAITING, _ALL_WAITING // max(1, len(self._waiting)))
        near, copies, last = (_ALIKE if alike else _TOGETHER), [], 0
        is_copy = partial(_again, times) if alike else _further
        for place, (*what, ttl, time) in enumerate(zip(*_told(packets, span), strict=True), span.start):
            last, key = max(last, time), tuple(what)
            seen = waiting.get(key)
            if seen is not None and abs(time - seen[1]) >= near:
                seen = None
            ttls = b"" if seen is None else seen[0] if len(seen[0]) < _SIGHTINGS else seen[0][_FORGOTTEN:]
            if is_copy(ttls, ttl):
                copies.append(place)
            else:
                waiting.pop(key, None)  # the newest ones are behind
            waiting[key] = (ttls + bytes([ttl]), time)
            while len(waiting) > room:
                del waiting[next(iter(waiting))]
        if known or alike or (len(self._waiting) < _FLOWS and _SHARE * len(copies) >= span.stop - span.start):
            kept[copies] = False
            self.counts[flow] += len(copies)
            self.alike += len(copies) if alike else 0
            if known or len(self._waiting) < _FLOWS:
                self._waiting[flow] = {what: seen for what, seen in waiting.items() if last - seen[1] < near}


def _again(times: int, ttls: bytes, ttl: int) -> bool:
    """Whether it is one of so many, behind the first, as alike as they are."""
    return ttls.count(ttl) % times > 0


def _further(ttls: bytes, ttl: int) -> bool:
    """Whether one that was sent as often as others of these were seen may have come here."""
    return any(ttls.count(other) > ttls.count(ttl) for other in set(ttls))


def _told(packets: Sorted, rows: slice | Ints) -> list[list[int]]:
    """What copies have in common, then TTL and time."""
    columns = (
        packets.psn,
        packets.opcode,
        packets.syndrome,
        packets.msn,
        packets.payload,
        packets.ident,
        packets.ttl,
        packets.time,
    )
    return [column[rows].tolist() for column in columns]


def _how_often(packets: Sorted, rows: Ints) -> int:
    """How often these packets of a link, in the order of the file, are there; 1 where that differs."""
    waiting: dict[_What, list[int]] = {}  # place of the first, how many, and when the last one was there
    alike = []
    for place, (flow, *what, time) in enumerate(zip(packets.flow[rows].tolist(), *_told(packets, rows), strict=True)):
        seen = waiting.get((flow, *what))
        if seen is None or abs(time - seen[2]) >= _ALIKE:
            seen = waiting[flow, *what] = [place, 0, time]
            alike.append(seen)
        seen[1:] = [seen[1] + 1, time]
    settled = len(rows) - (_UNSETTLED if len(rows) == _SAMPLE else 0)  # of the last ones the copies are still to come
    counts = [count for place, count, _ in alike if place < settled]
    if len(counts) < _DIFFERENT:
        return 1
    strays = ((times, sum(count % times > 0 for count in counts)) for times in _OFTEN)
    return next((times for times, alone in strays if _ALONE * alone <= settled), 1)


def _only(packets: Sorted, kept: Flags) -> Sorted:
    *columns, _ = packets
    flow, *others = (column[kept] for column in columns)
    return Sorted(flow, *others, value_runs.starts(flow))  # type: ignore[arg-type, call-arg]  # each is what it was
