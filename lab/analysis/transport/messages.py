"""Count messages of all flows: by kind and size, and those that the capture has only partly.

Flows in order are counted as columns, others packet by packet. ``psn_order`` decides which packets are accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.decode import value_runs
from lab.analysis.decode.columns import UNKNOWN
from lab.analysis.flows.flow_sums import MAX_FLOWS
from lab.analysis.flows.sparse_arrays import several, table, zeros

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.analysis.flows.flow_batches import Sorted
    from lab.analysis.read.packet_batch import Flags, Ints
    from lab.analysis.transport.psn_tracker import PsnRequest

SIZES: Final = 41
"""Classes of message sizes: 0 bytes, then up to each power of two from 1 on."""
_READ: Final = ops.MESSAGES.index("READ")


class Messages:
    """Counts by flow. A message is complete if all of its packets from the first one on were captured."""

    def __init__(self) -> None:
        # 32 bits are enough: 2**32 messages of 0 bytes are 300 GB of packets.
        self.counts = table(MAX_FLOWS, len(ops.MESSAGES), np.uint32)
        self.sizes = table(MAX_FLOWS, SIZES, np.uint32)
        self.volume, self.largest, self.smallest = several(3, MAX_FLOWS)
        self.partial = zeros(MAX_FLOWS, np.uint32)
        self._open = zeros(MAX_FLOWS)  # bytes so far of the current message
        self._broken: Flags = zeros(MAX_FLOWS, np.bool_)  # packets of that message are missing
        self._begun: Flags = zeros(MAX_FLOWS, np.bool_)  # a request was captured

    def begin(self, packets: Sorted, at: Ints) -> None:
        """Mark flows whose first request, of those at ``at``, continues a message: its beginning is missing."""
        flow = packets.flow[at]
        starts = value_runs.starts(flow)
        fresh = starts[~self._begun[flow[starts]]]
        self._begun[flow[fresh]] = True
        self._broken[flow[fresh]] = ~ops.BEGINS[packets.opcode[at[fresh]]]

    def add(self, packets: Sorted, taken: Flags) -> None:
        """Add packets of flows in order. A size is the payload since the last message, or a READ's DMALen."""
        payload = np.where(taken & ops.REQUEST[packets.opcode], packets.payload, 0)
        kind = ops.MESSAGE[packets.opcode]
        ends = np.flatnonzero((kind >= 0) & taken)
        upto = np.cumsum(payload)
        flows, begun = packets.flow[packets.starts], (upto - payload)[packets.starts]
        base = np.repeat(begun - self._open[flows], np.diff(packets.starts, append=len(payload)))
        flow = packets.flow[ends]
        first = value_runs.are_starts(flow)
        size = upto[ends] - np.where(first, base[ends], value_runs.before(upto[ends]))
        size = np.where(kind[ends] == _READ, packets.dmalen[ends], size)
        last, final = packets.ends, value_runs.ends(flow)
        rest = upto[last] - base[last]
        ended = np.searchsorted(flows, flow[final])
        rest[ended] = upto[last[ended]] - upto[ends[final]]
        anew = self._open[flows] != rest  # skipping entries that stay 0 saves memory
        self._open[flows[anew]] = rest[anew]
        cut = first & self._broken[flow]
        self._broken[flow[cut]] = False
        cut |= size == UNKNOWN
        np.add.at(self.partial, flow[cut], 1)
        self._count(flow[~cut], kind[ends[~cut]], size[~cut])

    def accept(self, flow: int, requests: Iterable[PsnRequest | None]) -> None:
        """Add requests of one flow that its responder accepted; None stands for packets that were not captured."""
        size, broken = int(self._open[flow]), bool(self._broken[flow])
        kinds, sizes = [], []
        for request in requests:
            if request is None:
                broken = True
                continue
            if ops.BEGINS[request.opcode]:
                self.partial[flow] += size > 0  # the end of the previous message is missing
                size, broken = 0, False
            size += request.payload
            kind = int(ops.MESSAGE[request.opcode])
            if kind < 0:
                continue
            if broken or request.read == UNKNOWN:
                self.partial[flow] += 1
            else:
                kinds.append(kind)
                sizes.append(request.read if kind == _READ else size)
            size, broken = 0, False
        self._open[flow], self._broken[flow] = size, broken
        self._count(np.full(len(kinds), flow), np.array(kinds, np.int64), np.array(sizes, np.int64))

    def _count(self, flow: Ints, kind: Ints, size: Ints) -> None:
        fresh = flow[~self.counts[flow].any(axis=1)]
        self.smallest[fresh] = np.iinfo(np.int64).max
        np.add.at(self.counts, (flow, kind), 1)
        np.add.at(self.sizes, (flow, _size_class(size)), 1)
        np.minimum.at(self.smallest, flow, size)
        np.maximum.at(self.largest, flow, size)
        np.add.at(self.volume, flow, size)


def _size_class(size: Ints) -> Ints:
    """Return 0 for 0 bytes, else n for which 2**(n - 1) is the smallest power of two that is not less."""
    power = np.ceil(np.log2(np.maximum(size, 1))).astype(np.int64)
    return np.where(size > 0, np.minimum(power + 1, SIZES - 1), 0)
