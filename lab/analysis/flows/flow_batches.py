"""Regroup RoCEv2 packets into rounds of a fixed size, so that results do not depend on the read buffer.

In a round, packets are sorted by flow, and within a flow by their order in the file.
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
"""Packets: enough to amortise loops over columns, and few enough for the columns to stay in the cache."""
_COLUMNS: Final = 14
_ECN_WIDTH: Final = 2
_NOT_DSCP: Final = (1 << _ECN_WIDTH) - 1


class Sorted(NamedTuple):
    """The packets of a round; the columns are those of ``PacketBatch``, ``Columns`` and ``Roce``.

    ``tos`` has DSCP and ECN. ``at`` is the position of each packet in the round, in file order. ``starts`` is where
    each flow begins.
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
    tos: Ints
    length: Ints
    ttl: Ints
    ident: Ints
    direction: Ints
    at: Ints
    starts: Ints

    @property
    def ecn(self) -> Ints:
        """The ECN of each packet."""
        return self.tos & _NOT_DSCP

    @property
    def dscp(self) -> Ints:
        """The DSCP of each packet."""
        return self.tos >> _ECN_WIDTH

    @property
    def ends(self) -> Ints:
        """The index of each flow's last packet."""
        return np.append(self.starts[1:], len(self.flow)) - 1


class Rounds:
    """Collects packets until a round is full."""

    def __init__(self, size: int = ROUND) -> None:
        self._size = size
        self._columns = np.empty((_COLUMNS, size), np.int64)
        self._filled = 0

    def add(self, batch: PacketBatch, columns: Columns, roce: Roce, flow: Ints) -> Iterator[Sorted]:
        """Add the packets of a batch, and yield the rounds that it fills. Packets with flow -1 are dropped."""
        row = roce.row
        several: tuple[Ints | Flags, ...] = (
            flow, batch.time[row], roce.opcode, roce.psn, roce.payload, roce.dmalen, roce.syndrome, roce.msn,
            roce.ackreq, columns.dscp[row] << _ECN_WIDTH | columns.ecn[row], batch.length[row], columns.ttl[row],
            columns.ident[row], batch.direction[row],
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
        """Yield the remaining packets as a last, partial round."""
        if self._filled:
            yield _sort(self._columns[:, : self._filled])
            self._filled = 0


def _sort(columns: Ints) -> Sorted:
    order = np.argsort(columns[0].astype(np.uint16), kind="stable")  # fewer than 2**16 flows, and this is faster
    flow, time, opcode, psn, payload, dmalen, syndrome, msn, ackreq, tos, length, ttl, ident, direction = (
        column.take(order) for column in columns
    )
    return Sorted(
        flow, time, opcode, psn, payload, dmalen, syndrome, msn, ackreq != 0, tos, length, ttl, ident, direction,
        order,
        value_runs.starts(flow),
    )  # fmt: skip
