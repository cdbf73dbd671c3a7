"""Remove duplicates of packets that mirrors captured several times, on the way in and on the way out.

Duplicates have equal PSNs and other fields, at almost the same time. After a router their TTLs differ, and further
hops may follow. Switches change no header, but may add or remove a VLAN tag. Each packet is counted once.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.decode import value_runs
from lab.analysis.flows.flow_batches import Sorted
from lab.analysis.flows.flow_sums import MAX_FLOWS
from lab.analysis.flows.sparse_arrays import zeros

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.analysis.read.packet_batch import Flags, Ints

_What: TypeAlias = tuple[int, ...]
_Seen: TypeAlias = tuple[bytes, int]  # TTLs of all packets with these fields, and the time of the last one
TOGETHER: Final = 10_000_000
"""ns between two duplicates with different TTLs, at most. A retransmission on another path comes later."""
_ALIKE: Final = 1_000_000
"""ns between two identical duplicates, at most. Only time and number distinguish them from a retransmission."""
_WAITING: Final = 2048  # packets of one flow between the first link and the last: 80 us of a queue at 800 Gb/s
_FLOWS: Final = 4096
_ALL_WAITING: Final = 16384
"""Flows that are checked, and pending packets of all of them, to bound memory; others are not deduplicated."""
_SIGHTINGS: Final = 24
_FORGOTTEN: Final = 12
"""Remembered sightings of identical packets, like CNPs. At the limit the oldest 12 are dropped.

12 is a multiple of 2, 3 and 4, so the counts of two, three or four links stay in step.
"""
_SHARE: Final = 4
"""At least one of four packets must be a duplicate. With fewer, the path has changed its length."""
_SAMPLE: Final = 256
_UNSETTLED: Final = 64
_ENOUGH: Final = 8
"""The first packets of a link decide how often it has each packet. Duplicates of the last 64 may still follow; at
least 8 are needed."""
_OFTEN: Final = (4, 3, 2)
"""How often a link may have each packet: both sides of two switches. ``_FORGOTTEN`` is a multiple of each."""
_DIFFERENT: Final = 4
"""Distinct packets needed, at least. An RNR NAK and the request that it rejects repeat equally often, too."""
AT_ONCE: Final = 10_000
"""ns within which no sender retransmits a packet: the shortest RNR timer (IBA vol. 1 table 47)."""
_STEP: Final = 1000
"""ns between two times of clocks that count microseconds."""
_ALONE: Final = 20
"""At most one of 20 packets may occur another number of times. Go-back-N repeats no NAK, and rarely repeats
everything else exactly once. A packet that is retried often is still one packet."""


class Copies:
    """Finds duplicates; ``counts`` is by flow, and ``alike`` counts those with the TTL of their original.

    ``links_of`` returns the interfaces of flows.
    """

    def __init__(self, links_of: Callable[[Ints], Ints]) -> None:
        self.counts: dict[int, int] = defaultdict(int)
        self.alike = 0
        self._links_of = links_of
        self._times: dict[int, int] = {}  # per link: how often it has each packet, once decided
        self._ttl = zeros(MAX_FLOWS, np.uint16)  # 1 + TTL of each flow's first packet; 0 before it
        self._waiting: dict[int, dict[_What, _Seen]] = {}

    def sift(self, packets: Sorted) -> Sorted:
        """Return the round without duplicates."""
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
        """Return, by flow of the round, how often its link has every packet."""
        links = self._links_of(flows)
        few: dict[int, int] = {}
        present = np.flatnonzero(np.bincount(links)).tolist()
        if undecided := [link for link in present if link not in self._times]:
            by_packet = self._links_of(packets.flow)
            for link in undecided:
                rows = np.flatnonzero((by_packet == link) & ~ops.CNP[packets.opcode])  # CNPs have no PSN
                if len(rows) >= _ENOUGH:
                    rows = rows[np.argsort(packets.at[rows])[:_SAMPLE]]
                    self._times[link] = _how_often(packets, rows)
                elif len(rows):
                    few[link] = _how_often_of_few(packets, rows[np.argsort(packets.at[rows])])
        return np.array([self._times.get(link, few.get(link, 1)) for link in links.tolist()], np.int64)

    def _sift(self, packets: Sorted, span: slice, kept: Flags, times: int) -> None:
        alike = times > 1
        flow = int(packets.flow[span.start])
        known = flow in self._waiting
        waiting = self._waiting.get(flow, {})
        room = min(_WAITING, _ALL_WAITING // max(1, len(self._waiting)))
        near, copies, last = (_ALIKE if alike else TOGETHER), [], 0
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
                waiting.pop(key, None)  # moved to the end: the newest are last
            waiting[key] = (ttls + bytes([ttl]), time)
            while len(waiting) > room:
                del waiting[next(iter(waiting))]
        if known or alike or (len(self._waiting) < _FLOWS and _are_copies(packets, span, copies)):
            kept[copies] = False
            self.counts[flow] += len(copies)
            self.alike += len(copies) if alike else 0
            if known or len(self._waiting) < _FLOWS:
                self._waiting[flow] = {what: seen for what, seen in waiting.items() if last - seen[1] < near}


def _are_copies(packets: Sorted, span: slice, copies: Sequence[int]) -> bool:
    """Return whether packets that differ from earlier ones by their TTL alone are copies from further on.

    CNPs have no PSN: on paths of several lengths, different ones look alike. So the other packets of the flow decide.
    Without any, the CNPs are copies if each TTL follows the one above it at the same distance.
    """
    cnps = ops.CNP[packets.opcode[span]]
    others = len(cnps) - int(cnps.sum())
    if others:
        return _SHARE * sum(not cnps[place - span.start] for place in copies) >= others
    ttls, times = packets.ttl[span], packets.time[span]
    hops = [np.sort(times[ttls == ttl]) for ttl in np.unique(ttls)[::-1].tolist()]
    return all(_follows(before, behind) for before, behind in pairwise(hops))


def _follows(before: Ints, behind: Ints) -> bool:
    """Return whether nearly all packets behind a router come at one distance in time after those before it."""
    number = min(len(before), len(behind))
    if _ALONE * abs(len(before) - len(behind)) > number + _ALONE:
        return False
    gaps = behind[:number] - before[:number]
    usual = int(np.median(gaps))
    odd = int((np.abs(gaps - usual) > max(usual // 2, _STEP)).sum())
    return usual >= 0 and _ALONE * odd <= number


def _again(times: int, ttls: bytes, ttl: int) -> bool:
    """Return whether the packet is another copy of one that occurs ``times`` times with the same TTL."""
    return ttls.count(ttl) % times > 0


def _further(ttls: bytes, ttl: int) -> bool:
    """Return whether the packet is a copy: another TTL has been seen more often than its own."""
    return any(ttls.count(other) > ttls.count(ttl) for other in set(ttls))


def _told(packets: Sorted, rows: slice | Ints) -> list[list[int]]:
    """Return the fields that duplicates have in common, then TTL and time."""
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
    """Return how often each of these packets of a link occurs, in file order; 1 if that varies."""
    occurrences = _occurrences(packets, rows)
    settled = len(rows) - (_UNSETTLED if len(rows) == _SAMPLE else 0)  # duplicates of the last ones may still follow
    counts = [count for place, count, _ in occurrences if place < settled]
    if len(counts) < _DIFFERENT:
        return _how_often_of_few(packets, rows) if len(rows) < _SAMPLE else 1
    for times in _OFTEN:
        alone = sum(count % times > 0 for count in counts)
        exact = counts.count(times)  # more often: it was also retransmitted, as most packets are not
        if _ALONE * alone <= min(settled, times * len(counts)) and 2 * exact >= len(counts):
            return times
    return 1


def _how_often_of_few(packets: Sorted, rows: Ints) -> int:
    """Return how often each of a few packets of a link occurs, if nothing else can have repeated them; else 1.

    A NAK may have. Without any answer in the file, copies are those that come at once.
    """
    syndromes = packets.syndrome[rows]
    answered = syndromes >= 0
    if (ops.ACK[syndromes[answered]] > 0).any():
        return 1
    occurrences = _occurrences(packets, rows, _ALIKE if answered.any() else AT_ONCE)
    counts = {count for _, count, _ in occurrences}
    return counts.pop() if len(counts) == 1 and counts <= set(_OFTEN) else 1


def _occurrences(packets: Sorted, rows: Ints, near: int = _ALIKE) -> list[list[int]]:
    """Return, of each distinct packet, the index of the first, the count, and the time of the last one."""
    waiting: dict[_What, list[int]] = {}
    found = []
    for place, (flow, *what, time) in enumerate(zip(packets.flow[rows].tolist(), *_told(packets, rows), strict=True)):
        seen = waiting.get((flow, *what))
        if seen is None or abs(time - seen[2]) >= near:
            seen = waiting[flow, *what] = [place, 0, time]
            found.append(seen)
        seen[1:] = [seen[1] + 1, time]
    return found


def _only(packets: Sorted, kept: Flags) -> Sorted:
    *columns, _ = packets
    flow, *others = (column[kept] for column in columns)
    return Sorted(flow, *others, value_runs.starts(flow))  # type: ignore[arg-type, call-arg]  # each is what it was
