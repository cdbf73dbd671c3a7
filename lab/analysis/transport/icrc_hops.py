"""Find the hop that changes packets, in a file with one link that has each packet several times.

Mirrors of several switches put the copies of a packet into one capture file. A router lowers the TTL, which the ICRC
leaves out (IBA annex A17), so the TTL says at which hop a copy was captured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.results.icrc_facts import IcrcHop
from lab.analysis.results.number_format import mac
from lab.analysis.transport.mirror_duplicates import TOGETHER
from lab.wire.header_fields import EthernetFields

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.analysis.decode.columns import Columns, Roce
    from lab.analysis.read.packet_batch import Ints, PacketBatch

_TRACED: Final = 64
"""Wrong packets of a flow, at most, that are traced, and flows at most: to bound time and memory."""
_FLOWS: Final = 1000


class CheckedPackets(NamedTuple):
    """The RoCE packets of a batch: the flow of each, the indices of wrong ones, and a check of any, by its index.

    The flow is -1 if there are too many to tell apart.
    """

    flow: Ints
    wrong: Ints
    is_right: Callable[[int], bool]


class IcrcHops:
    """``found``, by flow: the hops at which its packets became wrong. Only copies in the same batch are compared."""

    def __init__(self) -> None:
        self.found: dict[int, set[IcrcHop]] = {}
        self._traced: dict[int, int] = {}

    def add(self, batch: PacketBatch, columns: Columns, roce: Roce, result: CheckedPackets) -> None:
        """Trace the packets with a wrong ICRC."""
        flow, wrong, is_right = result
        wrong = wrong[~ops.CNP[roce.opcode[wrong]]]  # CNPs have no PSN, by which to find the copies of one
        ttl, time = columns.ttl[roce.row], batch.time[roce.row]
        alike = roce.psn, roce.opcode, roce.payload, columns.ident[roce.row]
        for number in np.unique(flow[wrong]).tolist():
            left = _TRACED - self._traced.get(number, 0)
            members = np.flatnonzero(flow == number)
            if number < 0 or not left or len(np.unique(ttl[members])) == 1 or self._full(number):
                continue
            places = wrong[flow[wrong] == number][:left].tolist()
            self._traced[number] = self._traced.get(number, 0) + len(places)
            for place in places:
                same = np.all([column[members] == column[place] for column in alike], axis=0)
                age = time[place] - time[members]
                earlier = members[same & (age >= 0) & (age <= TOGETHER) & (ttl[members] > ttl[place])]
                # of a packet that was sent again, the newest copy at each hop
                copies = {int(ttl[copy]): copy for copy in earlier[np.argsort(time[earlier], kind="stable")].tolist()}
                if copies and all(map(is_right, copies.values())):
                    sender = EthernetFields.SRC.gather(batch.data, batch.start[roce.row[[place]]])
                    hop = IcrcHop(min(copies), int(ttl[place]), mac(int(sender[0])))
                    self.found.setdefault(number, set()).add(hop)

    def _full(self, number: int) -> bool:
        return number not in self._traced and len(self._traced) >= _FLOWS
