"""Find the hop that changes DSCP or ECN, in a file with one link that has each packet several times.

Mirrors of several routers put the copies of a packet into one file. Each router lowers the TTL, so the TTL orders the
copies. Only copies are compared: packets whose other fields are equal, and that are close in time.
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
    """Copies before and after a hop: by what they had before it, their number, and how many of them it changed."""

    dscps: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    ect: int = 0
    ect_lost: int = 0
    ce: int = 0
    ce_lost: int = 0


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
        at = np.flatnonzero(
            of_flows & ~ops.CNP[packets.opcode]
        )  # CNPs have no PSN, by which to find the copies of one
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
        before, after = at[:-1][alike], at[1:][alike]
        hops = (packets.flow[after], packets.ttl[before], packets.ttl[after])
        marks = (packets.tos[before], packets.tos[after])
        for flow, higher, lower, *tos in zip(*(column.tolist() for column in (*hops, *marks)), strict=True):
            self._compare((flow, higher, lower), *tos)

    def _compare(self, hop: _Hop, before: int, after: int) -> None:
        self._copies[hop[0]] += 1
        if hop not in self.hops:
            if len(self.hops) >= _HOPS:
                return
            self.hops[hop] = _Compared()
        compared, dscps, ecns = self.hops[hop], (before >> 2, after >> 2), (before & CE, after & CE)
        if dscps in compared.dscps or len(compared.dscps) < _CLASSES:
            compared.dscps[dscps] += 1
        compared.ect += ecns[0] > 0
        compared.ect_lost += ecns[0] > 0 and ecns[1] == 0
        compared.ce += ecns[0] == CE
        compared.ce_lost += ecns[0] == CE and ecns[1] != CE

    def changes(self, flows: Flows, links: Sequence[str]) -> Iterator[ClassChange]:
        """Yield what hops changed, in the order of flows and of the path."""
        for number, before, after in sorted(self.hops, key=lambda hop: (hop[0], -hop[1], -hop[2])):
            if _SHARE * self._copies[number] < self._packets[number]:
                continue
            compared, key = self.hops[number, before, after], flows.key(number)
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
