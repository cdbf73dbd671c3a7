"""Sums per flow. A flow is one direction to one QP, as captured at one interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.flows.flow_keys import Keys
from lab.analysis.flows.sparse_arrays import several, table, zeros
from lab.wire.header_fields import CE, OpcodeFields, UdpFields
from lab.wire.opcodes import RC

if TYPE_CHECKING:
    from collections.abc import Collection

    from lab.analysis.decode.columns import Columns, Roce
    from lab.analysis.flows.flow_batches import Sorted
    from lab.analysis.read.packet_batch import Flags, Ints, PacketBatch

MAX_FLOWS: Final = 32768
"""Flows that are analysed; packets of further flows are only counted. Sorting needs flow numbers of 16 bits."""
_KEY: Final = 12  # interface, VNI, source, destination, destination QP, transport
_NO_VNI: Final = 2**32 - 1
_MIXED: Final = 4096
"""Flows with several DSCPs for which all of them are kept."""
_SUMS: Final = ("packets", "octets", "payload", "read", "responses", "cnps", "ce", "ect")


class FlowKey(NamedTuple):
    """Identifies a flow: interface number, VNI or -1, addresses as four words each, DestQP, transport service."""

    interface: int
    vni: int
    src: tuple[int, ...]
    dst: tuple[int, ...]
    destqp: int
    transport: int


class Flows:
    """All flows of a capture; the arrays are indexed by flow number.

    ``payload`` is the bytes that the receiver accepted, and ``read`` the part of them in READ responses. ``seen`` is
    the time of the first and the last packet. ``newest`` is TTL and direction of the last packet, and ``port`` the
    UDP source port of the first.
    """

    def __init__(self, limit: int = MAX_FLOWS) -> None:
        self.untracked = 0
        self.sums: dict[str, Ints] = dict(zip(_SUMS, several(len(_SUMS), limit), strict=True))
        self.acks = table(limit, len(ops.ACKS), np.uint32)
        self.seen = table(limit, 2)
        self.newest = table(limit, 2, np.uint8)
        self.port = zeros(limit, np.uint16)
        self.opening = zeros(limit, np.uint16)
        """Bytes of payload of each flow's first packet. ``goodput`` leaves them out, because they have no interval.
        """
        self.dscp, self.pcp = several(2, limit, np.uint8)
        """1 + DSCP and PCP of the first packet that is no CNP; 0 before it, and for PCP without a VLAN tag."""
        self.other_dscps: dict[int, set[int]] = {}
        """By flow: the DSCPs of its packets other than the first one."""
        self._keys = Keys(_KEY, limit)

    def __len__(self) -> int:
        return len(self._keys)

    def key(self, flow: int) -> FlowKey:
        """Return the key of a flow."""
        interface, vni, *words, destqp, transport = self._keys.rows[flow].tolist()
        return FlowKey(
            interface, -1 if vni == _NO_VNI else vni, tuple(words[:4]), tuple(words[4:]), destqp, transport
        )

    def interfaces(self, flows: Ints) -> Ints:
        """Return the interface number of each flow."""
        links: Ints = self._keys.rows[flows, 0].astype(np.int64)
        return links

    def goodput(self, flow: int) -> float:
        """Return payload in bit/s from first to last packet, without the first: n packets have n - 1 intervals."""
        first, last = self.seen[flow].tolist()
        payload = max(0, int(self.sums["payload"][flow]) - int(self.opening[flow]))
        return payload * 8e9 / (last - first) if last > first else 0.0

    def streams(self, first: int, end: int) -> list[Ints]:
        """Return the keys of flows ``first`` to ``end`` - 1 without the interface, by column."""
        return list(self._keys.rows[first:end, 1:].T.astype(np.int64))

    def alike(self) -> list[list[int]]:
        """Return groups of two or more flows that differ only in interface and VNI, in the order of flows."""
        interfaces = self._keys.rows[:, :2]
        if (interfaces == interfaces[:1]).all():
            return []
        order = np.lexsort(self._keys.rows[:, 2:].T)
        rows = self._keys.rows[order, 2:]
        again = (rows[1:] == rows[:-1]).all(axis=1)
        bounds = np.flatnonzero(np.concatenate([[True], ~again, [True]]))
        several = np.flatnonzero(np.diff(bounds) > 1)
        parts = zip(bounds[several].tolist(), bounds[several + 1].tolist(), strict=True)
        return sorted(order[begin:end].tolist() for begin, end in parts)

    def refusing(self, flows: Collection[int]) -> set[int]:
        """Return those of some flows that contain a NAK, at whatever link or in whatever tunnel it was captured."""
        rows = self._keys.rows[:, 2:]
        naks = np.flatnonzero(self.acks[: len(self), 1:].any(axis=1))
        found = {row.tobytes() for row in rows[naks]} if flows else set()
        return {flow for flow in flows if rows[flow].tobytes() in found}

    def number(self, batch: PacketBatch, columns: Columns, roce: Roce) -> Ints:
        """Return the flow number of each RoCEv2 packet, -1 if there are too many flows."""
        row = roce.row
        words = [array[index, row] for array in (columns.src, columns.dst) for index in range(4)]
        transport = np.where(ops.CNP[roce.opcode], RC, OpcodeFields.TRANSPORT.of(roce.opcode))  # CNPs slow down RC
        known = len(self)
        flow = self._keys.numbers([batch.interface[row], columns.vni[row], *words, roce.destqp, transport])
        self.untracked += int((flow < 0).sum())
        if len(self) > known:
            fresh = np.flatnonzero(flow >= known)[::-1]  # reversed: of several writes to one flow, the last counts
            self.port[flow[fresh]] = UdpFields.SPORT.gather(batch.data, columns.bth[row[fresh]] - UdpFields.SIZE)
        self._add_classes(columns, roce, flow)
        return flow

    def dscps(self, flow: int) -> tuple[int, ...]:
        """Return all DSCPs of a flow's packets except CNPs, that of the first packet first."""
        first = int(self.dscp[flow])
        return (first - 1, *sorted(self.other_dscps.get(flow, ()))) if first else ()

    def _add_classes(self, columns: Columns, roce: Roce, flow: Ints) -> None:
        dscp = columns.dscp[roce.row]
        at = np.flatnonzero((self.dscp[flow] != dscp + 1) & (flow >= 0))
        at = at[~ops.CNP[roce.opcode[at]]]
        if not len(at):
            return
        fresh = at[self.dscp[flow[at]] == 0][::-1]  # reversed: of several writes to one flow, the last counts
        self.dscp[flow[fresh]] = dscp[fresh] + 1
        self.pcp[flow[fresh]] = columns.pcp[roce.row[fresh]] + 1
        others = at[self.dscp[flow[at]] != dscp[at] + 1]
        for number, other in set(zip(flow[others].tolist(), dscp[others].tolist(), strict=True)):
            if number in self.other_dscps or len(self.other_dscps) < _MIXED:
                self.other_dscps.setdefault(number, set()).add(other)

    def add(self, packets: Sorted) -> None:
        """Add a round to all sums that do not depend on what the receiver accepts."""
        starts, ends, opcode = packets.starts, packets.ends, packets.opcode
        flows = packets.flow[starts]
        fresh = self.sums["packets"][flows] == 0
        self.seen[flows[fresh], 0] = packets.time[starts[fresh]]
        self.opening[flows[fresh]] = np.minimum(packets.payload[starts[fresh]], 0xFFFF)
        self.seen[flows, 1] = packets.time[ends]
        for place, newest in enumerate((packets.ttl, packets.direction)):
            self.newest[flows, place] = newest[ends]
        columns: dict[str, Ints | Flags] = {
            "octets": packets.length,
            "cnps": ops.CNP[opcode],
            "ce": packets.ecn == CE,
            "ect": packets.ecn > 0,
        }
        self.sums["packets"][flows] += ends + 1 - starts
        for name, column in columns.items():
            if column.any():
                self.sums[name][flows] += np.add.reduceat(column, starts, dtype=np.int64)
        answers = np.flatnonzero(packets.syndrome >= 0)
        np.add.at(self.acks, (packets.flow[answers], ops.ACK[packets.syndrome[answers]]), 1)
