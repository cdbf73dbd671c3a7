"""A capture from first packet to last: every batch is decoded, summed up and forgotten."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lab.analysis import opcode_tables as ops
from lab.analysis.answers import Answers
from lab.analysis.batch import CHUNK
from lab.analysis.capture import Capture
from lab.analysis.columns import CE, FAULTS, Fault, Kind, decode
from lab.analysis.flows import Flows
from lab.analysis.keys import Keys
from lab.analysis.pauses import Pauses
from lab.analysis.timeline import Channel, Timeline
from lab.wire import icrc

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.analysis.batch import Batch, Flags, Ints
    from lab.analysis.columns import Columns, Roce
    from lab.analysis.flows import Sorted
    from lab.analysis.sequence import Gap, Resend

    Choose: TypeAlias = Callable[[Batch], Flags]

_REUSED: Final = 24 * 2**20
MAX_TUNNELS: Final = 4096
"""Pairs of inner addresses that are told apart."""
MAX_EVENTS: Final = 1000
"""Gaps, and steps back, that are kept one by one."""


class Analyser:
    """The state of an analysis; ``run`` fills it. ``rate`` in bit/s stands in where a link's is not in the file.

    ``choose`` marks the packets of a batch that are analysed; of the others only the number is known.
    """

    def __init__(self, *, rate: int | None = None, check_icrc: bool = False, choose: Choose | None = None) -> None:
        self.flows = Flows()
        self.answers = Answers(self.flows)
        self.pauses = Pauses(self._rate_of)
        self.timeline = Timeline()
        self.tunnels = Keys(10, MAX_TUNNELS)
        self.tunnel_sums = np.zeros((MAX_TUNNELS, 3), np.int64)  # packets, bytes, RoCEv2
        self.gaps: list[tuple[int, Gap]] = []
        self.resends: list[tuple[int, Resend, str]] = []
        self.go_backs: dict[int, int] = {}
        self.gap_counts: dict[int, int] = {}
        self.icrcs = np.zeros(3, np.int64)  # right, wrong, unknown
        self.packets = self.roce = 0
        self.first: int | None = None
        self.last = 0
        self.check_icrc = check_icrc
        self.capture: Capture
        self._rate = rate
        self._choose = choose

    def run(self, stream: IO[bytes], source: str, chunk: int = CHUNK) -> None:
        """Analyse a capture file; InvalidInput when it is none. Damage in it is in ``capture.damages``."""
        _reuse_memory()
        self.capture = Capture(stream, source, chunk)
        for read in self.capture:
            batch = read if self._choose is None else read.select(self._choose(read))
            if len(batch.start):
                self._add(batch)
        self.timeline.cover(self.last)
        self.answers.finish()
        self.pauses.finish(self.last)
        self._collect_pauses()
        for sequence in self.flows.sequences.values():
            sequence.finish()
        self._collect()

    def _rate_of(self, interface: int) -> int | None:
        return self._rate or self.capture.interfaces[interface].speed

    def _add(self, batch: Batch) -> None:
        columns, roce = decode(batch)
        if self.first is None:
            self.first = self.timeline.start = int(batch.time[0])
        self.packets += len(batch.start)
        self.last = max(self.last, int(batch.time.max()))
        if columns.fault.any():
            self._note_faults(batch, columns)
        control = np.flatnonzero(columns.kind == Kind.CONTROL)
        if len(control):
            self.pauses.add(batch, control, columns.ip[control])
            self._collect_pauses()
        if (columns.vni >= 0).any():
            self._add_tunnels(batch, columns)
        if len(roce.row):
            self.roce += len(roce.row)
            self._add_roce(batch, columns, roce)

    def _add_roce(self, batch: Batch, columns: Columns, roce: Roce) -> None:
        if self.check_icrc:
            self._check(batch, columns, roce.row)
        packets = self.flows.add(batch, columns, roce)
        if packets is not None:
            self.answers.add(packets)
            self._collect()
            self._add_over_time(packets)

    def _add_over_time(self, packets: Sorted) -> None:
        payload = np.where(packets.taken, packets.payload, 0)
        self.timeline.add(Channel.PAYLOAD, packets.flow, packets.time, payload)
        marks = {
            Channel.MARKED: packets.ecn == CE,
            Channel.NAKS: (packets.syndrome >= 0) & (ops.ACK[packets.syndrome] > 0),
            Channel.CNPS: ops.CNP[packets.opcode],
        }
        for channel, marked in marks.items():
            at = np.flatnonzero(marked)
            self.timeline.add(channel, packets.flow[at], packets.time[at], np.ones(len(at), np.int64))

    def _note_faults(self, batch: Batch, columns: Columns) -> None:
        """What ends early because the capture kept no more of it is no damage."""
        cut = (columns.fault == Fault.CUT) & (batch.length > batch.captured)
        for fault, text in FAULTS.items():
            numbers = batch.number[(columns.fault == fault) & ~cut]
            if len(numbers):
                self.capture.damages.add_packets(numbers, text)

    def _add_tunnels(self, batch: Batch, columns: Columns) -> None:
        row = np.flatnonzero(columns.vni >= 0)
        words = [array[index, row] for array in (columns.src, columns.dst) for index in range(4)]
        tunnel = self.tunnels.numbers([batch.interface[row], columns.vni[row], *words])
        known = tunnel >= 0
        tunnel, row = tunnel[known], row[known]
        sums = np.stack([np.ones(len(row), np.int64), batch.length[row], columns.kind[row] == Kind.ROCE], axis=1)
        np.add.at(self.tunnel_sums, tunnel, sums)

    def _collect(self) -> None:
        """Take what sequences have found, so that they remember no more than they need."""
        for flow, sequence in self.flows.sequences.items():
            for gap in sequence.gaps[: MAX_EVENTS - len(self.gaps)]:
                self.gaps.append((flow, gap))
            if sequence.gaps:
                self.gap_counts[flow] = self.gap_counts.get(flow, 0) + len(sequence.gaps)
            for resend in sequence.resends:
                cause = self.answers.cause(flow, resend)
                self.go_backs[flow] = self.go_backs.get(flow, 0) + 1
                again = (np.array([value]) for value in (flow, resend.time, resend.packets))
                self.timeline.add(Channel.RESENT, *again)
                if len(self.resends) < MAX_EVENTS:
                    self.resends.append((flow, resend, cause))
            sequence.gaps.clear()
            sequence.resends.clear()

    def _collect_pauses(self) -> None:
        """Take the spells that have ended, for the same reason."""
        for row, port in enumerate(self.pauses.ports.values()):
            for begin, end in port.spells:
                self.timeline.span(Channel.PAUSED, row, begin, end)
            port.spells.clear()

    def _check(self, batch: Batch, columns: Columns, row: Ints) -> None:
        """Compute every ICRC: this is the one thing that takes time for each byte."""
        place = (columns.ip[row], columns.udp[row], columns.udp_end[row], batch.start[row] + batch.captured[row])
        wrong = []
        for number, ip, udp, end, captured in zip(
            batch.number[row].tolist(), *(p.tolist() for p in place), strict=True
        ):
            if end > captured:
                self.icrcs[2] += 1
                continue
            packet = batch.data[ip:end].tobytes()
            good = icrc.compute(packet[: -icrc.SIZE], udp - ip) == packet[-icrc.SIZE :]
            self.icrcs[0 if good else 1] += 1
            if not good:
                wrong.append(number)
        if wrong:
            self.capture.damages.add_packets(wrong, "has a wrong ICRC")


def _reuse_memory() -> None:
    """Have the allocator keep what one batch frees for the next, instead of having the kernel clear it anew.

    glibc learns from a large piece that is freed (mallopt(3), M_MMAP_THRESHOLD); a third of the time is saved by it.
    Elsewhere it does nothing.
    """
    np.empty(_REUSED, np.uint8)
