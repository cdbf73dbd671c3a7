"""RoCEv2 packets in rounds of a fixed number, whatever pieces the file is read in: no answer depends on a buffer.

In a round packets are sorted by flow, in each flow in the order of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.analysis.decode import value_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.analysis.decode.columns import Columns, Roce
    from lab.analysis.read.packet_batch import Flags, Ints, PacketBatch

ROUND: Final = 8192
"""Packets: so many that loops over columns pay, so few that these stay in the cache."""
_COLUMNS: Final = 14


class Sorted(NamedTuple):
    """The packets of a round; the columns are those of ``Batch``, ``Columns`` and ``Roce``.

    ``at`` is each one's place in the round, in the order of the file; ``starts`` is where each flow begins.
    """

    flow: Ints
    time: Ints
    opcode: Ints
    psn: Ints
    payload: Ints
    dmalen: Ints
    syndrome: Ints
    msn: Ints
    ackreq: Flags
    ecn: Ints
    length: Ints
    ttl: Ints
    ident: Ints
    direction: Ints
    at: Ints
    starts: Ints

    @property
    def ends(self) -> Ints:
        """Where each flow has its last packet."""
        return np.append(self.starts[1:], len(self.flow)) - 1


class Rounds:
    """Gathers packets until a round is full."""

    def __init__(self, size: int = ROUND) -> None:
        self._size = size
        self._columns = np.empty((_COLUMNS, size), np.int64)
        self._filled = 0

    def add(self, batch: PacketBatch, columns: Columns, roce: Roce, flow: Ints) -> Iterator[Sorted]:
        """Take the packets of a batch, of which -1 is no flow; the rounds that this fills."""
        row = roce.row
        several: tuple[Ints | Flags, ...] = (
            flow, batch.time[row], roce.opcode, roce.psn, roce.payload, roce.dmalen, roce.syndrome, roce.msn,
            roce.ackreq, columns.ecn[row], batch.length[row], columns.ttl[row], columns.ident[row],
            batch.direction[row],
        )  # fmt: skip
        if (flow < 0).any():
            several = tuple(column[flow >= 0] for column in several)
        done, count = 0, len(several[0])
        while done < count:
            taken = min(self._size - self._filled, count - done)
            for target, column in zip(self._columns, several, strict=True):
                target[self._filled : self._filled + taken] = column[done : done + taken]
            done += taken
            self._filled += taken
            if self._filled == self._size:
                yield from self.rest()

    def rest(self) -> Iterator[Sorted]:
        """What is left, as a round."""
        if self._filled:
            yield _sort(self._columns[:, : self._filled])
            self._filled = 0


def _sort(columns: Ints) -> Sorted:
    order = np.argsort(columns[0].astype(np.uint16), kind="stable")  # fewer than 2**16 flows, and this is faster
    flow, time, opcode, psn, payload, dmalen, syndrome, msn, ackreq, ecn, length, ttl, ident, direction = (
        column.take(order) for column in columns
    )
    return Sorted(
        flow, time, opcode, psn, payload, dmalen, syndrome, msn, ackreq != 0, ecn, length, ttl, ident, direction,
        order,
        value_runs.starts(flow),
    )  # fmt: skip
