"""Per flow sums: every flow is one direction to one QP as one interface saw it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.analysis import opcode_tables as ops
from lab.analysis.columns import CE
from lab.analysis.keys import Keys

if TYPE_CHECKING:
    from lab.analysis.batch import Batch, Flags, Ints
    from lab.analysis.columns import Columns, Roce
    from lab.analysis.rounds import Sorted

MAX_FLOWS: Final = 32768
"""Flows that are told apart; packets of others are only counted. Sorting needs their numbers in 16 bits."""
_KEY: Final = 12  # interface, VNI, source, destination, destination QP, transport
_NO_VNI: Final = 2**32 - 1
_SUMS: Final = ("packets", "octets", "payload", "read", "cnps", "ce", "ect")


class FlowKey(NamedTuple):
    """Which flow: the interface's number, VNI or -1, addresses as four words each, and BTH's DestQP and transport."""

    interface: int
    vni: int
    src: tuple[int, ...]
    dst: tuple[int, ...]
    destqp: int
    transport: int


class Flows:
    """All flows of a capture; the arrays are indexed by flow number.

    ``payload`` is what the receiver took, ``read`` what of it answers READs. ``seen`` is the first time, the last
    time, TTL and direction.
    """

    def __init__(self, limit: int = MAX_FLOWS) -> None:
        self.untracked = 0
        self.sums: dict[str, Ints] = {name: np.zeros(0, np.int64) for name in _SUMS}
        self.acks = np.zeros((0, len(ops.ACKS)), np.uint32)
        self.seen = np.zeros((0, 4), np.int64)
        self._keys = Keys(_KEY, limit)

    def __len__(self) -> int:
        return len(self.seen)

    def key(self, flow: int) -> FlowKey:
        """The key of a flow."""
        interface, vni, *words, destqp, transport = self._keys.rows[flow].tolist()
        return FlowKey(
            interface, -1 if vni == _NO_VNI else vni, tuple(words[:4]), tuple(words[4:]), destqp, transport
        )

    def interfaces(self, first: int, end: int) -> Ints:
        """The interfaces of the flows from ``first`` to before ``end``."""
        return self._keys.rows[first:end, 0].astype(np.int64)

    def stream(self, flow: int) -> bytes:
        """All of a flow's key but the interface, as octets."""
        return self._keys.rows[flow, 1:].tobytes()

    def alike(self) -> list[list[int]]:
        """Flows that differ in nothing but interface and VNI, where there are two or more; in the order of flows."""
        _, group, count = np.unique(self._keys.rows[:, 2:], axis=0, return_inverse=True, return_counts=True)
        group = group.reshape(-1)
        several = np.flatnonzero(count[group] > 1)
        order = several[np.argsort(group[several], kind="stable")]
        parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
        return sorted(part.tolist() for part in parts if len(part))

    def number(self, batch: Batch, columns: Columns, roce: Roce) -> Ints:
        """The flow of each RoCEv2 packet; -1 where there are too many."""
        row = roce.row
        words = [array[index, row] for array in (columns.src, columns.dst) for index in range(4)]
        transport = np.where(ops.CNP[roce.opcode], 0, roce.opcode >> 5)  # what CNPs slow down is RC
        flow = self._keys.numbers([batch.interface[row], columns.vni[row], *words, roce.destqp, transport])
        self.untracked += int((flow < 0).sum())
        self._grow(len(self._keys))
        return flow

    def _grow(self, count: int) -> None:
        more = count - len(self)
        if more > 0:
            for name, array in self.sums.items():
                self.sums[name] = np.concatenate([array, np.zeros(more, np.int64)])
            self.acks = np.concatenate([self.acks, np.zeros((more, len(ops.ACKS)), np.uint32)])
            self.seen = np.concatenate([self.seen, np.zeros((more, 4), np.int64)])
            self.seen[-more:, 0] = -1

    def add(self, packets: Sorted) -> None:
        """Sum a round up: all that does not depend on what a receiver takes."""
        starts, ends, opcode = packets.starts, packets.ends, packets.opcode
        flows = packets.flow[starts]
        fresh = self.seen[flows, 0] < 0
        self.seen[flows[fresh], 0] = packets.time[starts[fresh]]
        self.seen[flows, 1:] = np.stack([packets.time, packets.ttl, packets.direction], 1)[ends]
        columns: dict[str, Ints | Flags] = {
            "octets": packets.length,
            "cnps": ops.CNP[opcode],
            "ce": packets.ecn == CE,
            "ect": packets.ecn > 0,
        }
        self.sums["packets"][flows] += ends + 1 - starts
        for name, column in columns.items():
            self.sums[name][flows] += np.add.reduceat(column, starts, dtype=np.int64)
        answers = np.flatnonzero(packets.syndrome >= 0)
        np.add.at(self.acks, (packets.flow[answers], ops.ACK[packets.syndrome[answers]]), 1)
