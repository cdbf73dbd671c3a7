"""Find the hop that changes DSCP or ECN, in a file with one link that has each packet several times.

Mirrors of several routers put the copies of a packet into one file. Each router lowers the TTL, so the TTL orders the
copies. Only copies are compared: packets whose other fields are equal, and that are close in time.

Requests that are sent again on a longer path look alike. But all of them follow those of the shorter path.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.results.analysis_facts import ClassChange
from lab.analysis.results.number_format import address
from lab.analysis.transport.mirror_duplicates import TOGETHER
from lab.wire.header_fields import CE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.analysis.flows.flow_batches import Sorted
    from lab.analysis.flows.flow_sums import Flows
    from lab.analysis.read.packet_batch import Flags, Ints

_HOPS: Final = 4096
"""Pairs of a flow and a hop that are kept, to bound memory."""
_SHARE: Final = 4
"""At least one of four packets must be a copy. Otherwise the path has changed its length."""
_CLASSES: Final = 64
_Hop = tuple[int, int, int]


@dataclass(slots=True)
class _Compared:
    """Copies before and after a hop: by what they had before it, their number, and how many of them it changed.

    ``last_before`` is the time (ns) of the last one before the hop, and ``first_after`` that of the first after it.
    """

    last_before: int
    first_after: int
    dscps: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    ect: int = 0
    ect_lost: int = 0
    ce: int = 0
    ce_lost: int = 0

    @property
    def interleaved(self) -> bool:
        """Whether packets before the hop follow those after it. After a change of the path, none does."""
        return self.first_after < self.last_before

    def add(self, before: int, after: int, packets: int) -> None:
        """Add packets with these DSCPs and ECNs before the hop and after it."""
        dscps, ecns = (before >> 2, after >> 2), (before & CE, after & CE)
        if dscps in self.dscps or len(self.dscps) < _CLASSES:
            self.dscps[dscps] += packets
        if ecns[0]:
            self.ect += packets
            self.ect_lost += packets * (ecns[1] == 0)
        if ecns[0] == CE:
            self.ce += packets
            self.ce_lost += packets * (ecns[1] != CE)


class HopClasses:
    """Compares copies. Only those in the same round are compared."""

    def __init__(self) -> None:
        self.hops: dict[_Hop, _Compared] = {}
        """By flow, and the TTLs before and after the hop."""
        self._packets: dict[int, int] = defaultdict(int)
        self._copies: dict[int, int] = defaultdict(int)

    def add(self, packets: Sorted) -> None:
        """Compare the packets of a round whose TTL, and DSCP or ECN, are not those of their whole flow."""
        mixed = _mixed(packets.ttl, packets.starts)
        if not mixed.any():  # the case in nearly all captures
            return
        mixed &= _mixed(packets.tos, packets.starts)
        of_flows = np.repeat(mixed, np.diff(packets.starts, append=len(packets.flow)))
        at = np.flatnonzero(of_flows & ~ops.CNP[packets.opcode])  # CNPs have no PSN, by which copies are found
        if not len(at):
            return
        flows, counts = np.unique(packets.flow[at], return_counts=True)
        for number, count in zip(flows.tolist(), counts.tolist(), strict=True):
            self._packets[number] += count
        same = (
            packets.flow, packets.psn, packets.opcode, packets.payload, packets.syndrome, packets.msn, packets.ident
        )  # fmt: skip
        at = at[np.lexsort([packets.time[at], *(column[at] for column in reversed(same))])]
        alike = np.all([np.diff(column[at]) == 0 for column in same], axis=0)
        alike &= (np.diff(packets.time[at]) <= TOGETHER) & (np.diff(packets.ttl[at]) < 0)
        if alike.any():
            self._compare(packets, at[:-1][alike], at[1:][alike])

    def _compare(self, packets: Sorted, before: Ints, after: Ints) -> None:
        """Compare each packet before a hop with its copy after it."""
        columns = (
            packets.flow[after], packets.ttl[before], packets.ttl[after], packets.tos[before], packets.tos[after]
        )  # fmt: skip
        order = np.lexsort(columns[::-1])
        changed = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
        starts = np.append(0, 1 + np.flatnonzero(changed))
        counts = np.diff(starts, append=len(order))
        last_before = np.maximum.reduceat(packets.time[before[order]], starts)
        first_after = np.minimum.reduceat(packets.time[after[order]], starts)
        alike = (*(column[order[starts]] for column in columns), counts, last_before, first_after)
        for flow, higher, lower, old, new, count, last, first in zip(*(each.tolist() for each in alike), strict=True):
            self._copies[flow] += count
            hop = (flow, higher, lower)
            if hop not in self.hops and len(self.hops) < _HOPS:
                self.hops[hop] = _Compared(last_before=last, first_after=first)
            if hop in self.hops:
                compared = self.hops[hop]
                compared.last_before = max(compared.last_before, last)
                compared.first_after = min(compared.first_after, first)
                compared.add(old, new, count)

    def changes(self, flows: Flows, links: Sequence[str]) -> Iterator[ClassChange]:
        """Yield what hops changed, in the order of flows and of the path."""
        for number, before, after in sorted(self.hops, key=lambda hop: (hop[0], -hop[1], -hop[2])):
            if _SHARE * self._copies[number] < self._packets[number]:
                continue
            compared, key = self.hops[number, before, after], flows.key(number)
            if not compared.interleaved:  # requests that were sent again, on a longer path
                continue
            for what, old, new, packets in _changes(compared):
                yield ClassChange(
                    link=links[key.interface],
                    src=address(key.src),
                    dst=address(key.dst),
                    qp=key.destqp,
                    before=before,
                    after=after,
                    what=what,
                    old=old,
                    new=new,
                    packets=packets,
                )


def _changes(compared: _Compared) -> Iterator[tuple[str, int, int, int]]:
    """Yield what a hop changed: the field, its value before and after, and the number of packets."""
    for (old, new), packets in compared.dscps.items():
        if old != new and packets > compared.dscps.get((old, old), 0):
            yield "DSCP", old, new, packets
    if compared.ect_lost and compared.ect_lost == compared.ect:
        yield "ECT", 1, 0, compared.ect
    elif compared.ce_lost and compared.ce_lost == compared.ce:
        yield "CE", 1, 0, compared.ce


def _mixed(column: Ints, starts: Ints) -> Flags:
    """Return, by run, whether its values differ."""
    mixed: Flags = np.minimum.reduceat(column, starts) != np.maximum.reduceat(column, starts)
    return mixed
