"""Per flow sums over batches: every flow is one direction to one QP as one interface saw it.

All flows of a batch are summed at once, on columns sorted by flow. Only a flow whose PSNs are out of order is looked
at packet by packet, by a ``Sequence``; what all others did is proven with one comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.analysis import opcode_tables as ops
from lab.analysis import runs
from lab.analysis.columns import CE
from lab.analysis.keys import Keys
from lab.analysis.sequence import MASK, PATH_MTUS, Sequence

if TYPE_CHECKING:
    from lab.analysis.batch import Batch, Flags, Ints
    from lab.analysis.columns import Columns, Roce

MAX_FLOWS: Final = 32768
"""Flows that are told apart; packets of others are only counted. Sorting needs their numbers in 16 bits."""
_KEY: Final = 12  # interface, VNI, source, destination, destination QP, transport
SIZES: Final = 41
"""Classes of message sizes: 0 bytes, then up to each power of two from 1 on."""
_SUMS: Final = ("packets", "octets", "payload", "cnps", "ce", "ect", "resp_gaps", "open")


class FlowKey(NamedTuple):
    """Which flow: the interface's number, VNI or -1, addresses as four words each, and BTH's DestQP and transport."""

    interface: int
    vni: int
    src: tuple[int, ...]
    dst: tuple[int, ...]
    destqp: int
    transport: int

    @property
    def hosts(self) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
        """All but the QP."""
        return self.interface, self.vni, self.src, self.dst

    @property
    def reverse_hosts(self) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
        """Those of the other direction."""
        return self.interface, self.vni, self.dst, self.src


class Sorted(NamedTuple):
    """The RoCEv2 packets of a batch, sorted by flow, in each flow in the order of the file.

    ``taken`` marks packets that the receiver would take: responses, and requests with the PSN it expects.
    """

    flow: Ints
    time: Ints
    opcode: Ints
    psn: Ints
    payload: Ints
    dmalen: Ints
    syndrome: Ints
    ackreq: Flags
    ecn: Ints
    length: Ints
    starts: Ints
    taken: Flags


class Flows:
    """All flows of a capture; the arrays are indexed by flow number."""

    def __init__(self, limit: int = MAX_FLOWS) -> None:
        self.untracked = 0
        self.sequences: dict[int, Sequence] = {}
        self.sums: dict[str, Ints] = {name: np.zeros(0, np.int64) for name in _SUMS}
        self.messages = np.zeros((0, len(ops.MESSAGES)), np.int64)
        self.sizes = np.zeros((0, SIZES), np.int64)
        self.acks = np.zeros((0, len(ops.ACKS)), np.int64)
        self.smallest, self.largest, self.volume = (np.zeros(0, np.int64) for _ in range(3))  # of messages, in bytes
        self.seen = np.zeros((0, 4), np.int64)  # first time, last time, TTL, direction
        self.last_psn = np.zeros(0, np.int64)  # of requests in order; -1 before the first
        self._last_read = np.zeros(0, np.int64)  # DMALen when that was a READ, else -1
        self._last_response = np.zeros(0, np.int64)
        self._keys = Keys(_KEY, limit)

    def __len__(self) -> int:
        return len(self.last_psn)

    def key(self, flow: int) -> FlowKey:
        """The key of a flow."""
        interface, vni, *words, destqp, transport = self._keys.keys[flow]
        return FlowKey(interface, vni, tuple(words[:4]), tuple(words[4:]), destqp, transport)

    def add(self, batch: Batch, columns: Columns, roce: Roce) -> Sorted | None:
        """Sum a batch up; None when there is nothing of RoCEv2 in it."""
        row = roce.row
        if not len(row):
            return None
        flow = self._number(batch, columns, roce)
        order = np.argsort(flow.astype(np.uint16), kind="stable")
        order = order[flow[order] >= 0]  # the others came last: -1 is the largest number of 16 bits
        if not len(order):
            return None
        flow, row = flow[order], row[order]
        starts = runs.starts(flow)
        time, opcode = batch.time[row], roce.opcode[order]
        packets = Sorted(
            flow=flow,
            time=time,
            opcode=opcode,
            psn=roce.psn[order],
            payload=roce.payload[order],
            dmalen=roce.dmalen[order],
            syndrome=roce.syndrome[order],
            ackreq=roce.ackreq[order],
            ecn=columns.ecn[row],
            length=batch.length[row],
            starts=starts,
            taken=np.ones(len(flow), np.bool_),
        )
        fresh = self.seen[flow[starts], 0] < 0
        self.seen[flow[starts[fresh]], 0] = time[starts[fresh]]
        self.seen[flow[starts], 1:] = np.stack([time, columns.ttl[row], batch.direction[row]], 1)[_ends(starts, flow)]
        self._sequence(packets)
        self._follow_responses(packets)
        self._sum(packets)
        return packets

    def _number(self, batch: Batch, columns: Columns, roce: Roce) -> Ints:
        row = roce.row
        words = [array[index, row] for array in (columns.src, columns.dst) for index in range(4)]
        transport = np.where(ops.CNP[roce.opcode], 0, roce.opcode >> 5)  # what CNPs slow down is RC
        flow = self._keys.numbers([batch.interface[row], columns.vni[row], *words, roce.destqp, transport])
        self.untracked += int((flow < 0).sum())
        self._grow(len(self._keys.keys))
        return flow

    def _grow(self, count: int) -> None:
        more = count - len(self)
        if more > 0:
            for name, array in self.sums.items():
                self.sums[name] = np.concatenate([array, np.zeros(more, np.int64)])
            self.messages, self.sizes, self.acks, self.seen = (
                np.concatenate([array, np.zeros((more, array.shape[1]), np.int64)])
                for array in (self.messages, self.sizes, self.acks, self.seen)
            )
            self.seen[-more:, 0] = -1
            self.smallest = np.concatenate([self.smallest, np.full(more, np.iinfo(np.int64).max)])
            self.largest, self.volume = (
                np.concatenate([array, np.zeros(more, np.int64)]) for array in (self.largest, self.volume)
            )
            self.last_psn, self._last_read, self._last_response = (
                np.concatenate([array, np.full(more, -1)])
                for array in (self.last_psn, self._last_read, self._last_response)
            )

    # PSNs

    def _sequence(self, packets: Sorted) -> None:
        """Judge the requests' PSNs: flows in order at once, each other one by its own sequence."""
        at = np.flatnonzero(ops.SEQUENCED[packets.opcode])
        if not len(at):
            return
        flow, psn = packets.flow[at], packets.psn[at]
        read = np.where(ops.READ_REQUEST[packets.opcode[at]], packets.dmalen[at], -1)
        starts = runs.starts(flow)
        before, before_read = runs.before(psn), runs.before(read)
        before[starts], before_read[starts] = self.last_psn[flow[starts]], self._last_read[flow[starts]]
        step = psn - before & MASK
        good = step == 1
        if (before_read >= 0).any():
            for mtu in PATH_MTUS:
                good |= (before_read >= 0) & (step == np.maximum(1, -(-before_read // mtu)))
        good[starts] |= before[starts] < 0
        bad = ~np.logical_and.reduceat(good, starts)
        if troubled := [number for number, sequence in self.sequences.items() if not sequence.clean]:
            bad |= np.isin(flow[starts], troubled)
        ends = _ends(starts, flow)
        for index in np.flatnonzero(bad).tolist():
            span = slice(int(starts[index]), int(ends[index]) + 1)
            self._story(int(flow[span.start]), packets, at[span], (before, before_read, span.start))
        in_order = flow[starts[~bad]]
        self.last_psn[in_order], self._last_read[in_order] = psn[ends[~bad]], read[ends[~bad]]

    def _story(self, flow: int, packets: Sorted, at: Ints, before: tuple[Ints, Ints, int]) -> None:
        """Tell a flow's story packet by packet."""
        psns = packets.psn[at].tolist()
        reads = np.where(ops.READ_REQUEST[packets.opcode[at]], packets.dmalen[at], -1).tolist()
        sequence = self.sequences.get(flow)
        last, last_read = int(before[0][before[2]]), int(before[1][before[2]])
        if sequence is None:
            reliable = int(packets.opcode[at[0]]) < 0x20
            sequence = self.sequences[flow] = Sequence(reliable=reliable)
        if sequence.clean:
            sequence.start(psns[0] - 1 & MASK if last < 0 else last, last_read)
        feed = sequence.feed
        packets.taken[at] = [
            feed(psn, read, time) for psn, read, time in zip(psns, reads, packets.time[at].tolist(), strict=True)
        ]
        self.last_psn[flow], self._last_read[flow] = sequence.last

    def _follow_responses(self, packets: Sorted) -> None:
        """Count READ responses that do not follow the one before."""
        reads = (packets.opcode >= 0x0D) & (packets.opcode <= 0x10)
        at = np.flatnonzero(reads)
        if not len(at):
            return
        flow, psn = packets.flow[at], packets.psn[at]
        starts = runs.starts(flow)
        before = runs.before(psn)
        before[starts] = self._last_response[flow[starts]]
        broken = ops.CONTINUED[packets.opcode[at]] & (before >= 0) & (psn - before & MASK != 1)
        self.sums["resp_gaps"][flow[starts]] += np.add.reduceat(broken, starts, dtype=np.int64)
        self._last_response[flow[starts]] = psn[_ends(starts, flow)]

    # Sums

    def _sum(self, packets: Sorted) -> None:
        starts, opcode = packets.starts, packets.opcode
        flows = packets.flow[starts]
        taken = np.where(packets.taken, packets.payload, 0)
        columns: dict[str, Ints | Flags] = {
            "octets": packets.length,
            "payload": taken,
            "cnps": ops.CNP[opcode],
            "ce": packets.ecn == CE,
            "ect": packets.ecn > 0,
        }
        self.sums["packets"][flows] += np.diff(starts, append=len(opcode))
        for name, column in columns.items():
            self.sums[name][flows] += np.add.reduceat(column, starts, dtype=np.int64)
        answers = np.flatnonzero(packets.syndrome >= 0)
        np.add.at(self.acks, (packets.flow[answers], ops.ACK[packets.syndrome[answers]]), 1)
        self._sum_messages(packets, np.where(ops.REQUEST[opcode], taken, 0))

    def _sum_messages(self, packets: Sorted, taken: Ints) -> None:
        """Messages by kind, and their sizes: payloads since the message before, or what a READ asks for."""
        kind = ops.MESSAGE[packets.opcode]
        ends = np.flatnonzero((kind >= 0) & packets.taken)
        upto = np.cumsum(taken)
        flows, begun = packets.flow[packets.starts], (upto - taken)[packets.starts]
        base = np.repeat(begun - self.sums["open"][flows], np.diff(packets.starts, append=len(taken)))
        flow = packets.flow[ends]
        first = runs.are_starts(flow)
        size = upto[ends] - np.where(first, base[ends], runs.before(upto[ends]))
        size = np.where(kind[ends] == 2, packets.dmalen[ends], size)
        np.add.at(self.messages, (flow, kind[ends]), 1)
        np.add.at(self.sizes, (flow, _size_class(size)), 1)
        np.minimum.at(self.smallest, flow, size)
        np.maximum.at(self.largest, flow, size)
        np.add.at(self.volume, flow, size)
        last = _ends(packets.starts, packets.flow)
        rest = upto[last] - base[last]
        final = runs.ends(flow)
        ended = np.searchsorted(flows, flow[final])
        rest[ended] = upto[last[ended]] - upto[ends[final]]
        self.sums["open"][flows] = rest


def _size_class(size: Ints) -> Ints:
    """0 for 0 bytes, else n where 2**(n - 1) is the least power of two that is not less."""
    power = np.ceil(np.log2(np.maximum(size, 1))).astype(np.int64)
    return np.where(size > 0, np.minimum(power + 1, SIZES - 1), 0)


def _ends(starts: Ints, flow: Ints) -> Ints:
    """Where the segments end that begin at ``starts``."""
    return np.append(starts[1:], len(flow)) - 1
