"""Analyse a capture in one pass: decode each batch, add it to the sums, and drop it."""

from __future__ import annotations

from collections import defaultdict
from typing import IO, TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.decode import value_runs
from lab.analysis.decode.columns import FAULTS, PacketClass, decode
from lab.analysis.decode.header_walk_columns import ROCEV1
from lab.analysis.flows.flow_batches import Rounds
from lab.analysis.flows.flow_keys import Keys
from lab.analysis.flows.flow_sums import Flows
from lab.analysis.flows.handshakes import Handshakes
from lab.analysis.flows.hop_classes import HopClasses
from lab.analysis.flows.icmp import IcmpErrors
from lab.analysis.flows.pairing import Pairing
from lab.analysis.flows.routing_loops import AckedMeanwhile, LoopCauses, Loops
from lab.analysis.flows.streams import Streams
from lab.analysis.pfc.pause_intervals import Pauses
from lab.analysis.read.capture_file import CaptureFile
from lab.analysis.read.packet_batch import CHUNK
from lab.analysis.results.path_findings import WRONG_ICRC
from lab.analysis.results.timeline import Timeline, TimelineSeries
from lab.analysis.transport.cnp_times import CnpTimes
from lab.analysis.transport.flow_events import Events
from lab.analysis.transport.icrc_checks import IcrcChecks
from lab.analysis.transport.loss_sizes import Sizes
from lab.analysis.transport.messages import Messages
from lab.analysis.transport.mirror_duplicates import Copies
from lab.analysis.transport.naks import Naks
from lab.analysis.transport.psn_order import Order
from lab.analysis.transport.psn_tracker import PATH_MTUS, distance
from lab.analysis.transport.read_responses import Responses
from lab.analysis.transport.read_sizes import ReadSizes
from lab.analysis.transport.response_times import Answers
from lab.wire.header_fields import CE
from lab.wire.layers import WalkStop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.analysis.decode.columns import Columns, Roce
    from lab.analysis.flows.flow_batches import Sorted
    from lab.analysis.flows.routing_loops import Acked
    from lab.analysis.read.packet_batch import Flags, Ints, PacketBatch
    from lab.analysis.transport.psn_order import Heard
    from lab.analysis.transport.psn_tracker import Resend

    Choose: TypeAlias = Callable[[PacketBatch, Sequence[str]], Flags]

_MANAGEMENT_QP: Final = 1
"""QP 0 and QP 1 receive management datagrams (IBA vol. 1 section 3.9.1)."""
_REUSED: Final = 24 * 2**20
_LONG_PAUSE: Final = 1_000_000
"""ns. Shorter pauses cannot make a requester's timer expire."""
_PAUSES_KEPT: Final = 1024
MAX_TUNNELS: Final = 4096
"""Tunnels (link, VNI and inner addresses) that are counted; packets of further tunnels are not."""


class Analyser:
    """The state of an analysis; ``run`` fills it. ``rate`` (bit/s) is used for links without a speed in the file.

    ``check_icrc`` checks every ICRC instead of a sample. ``choose`` takes a batch and the interface names, and marks
    the packets to analyse. The others are only counted.
    """

    def __init__(self, *, rate: int | None = None, check_icrc: bool = False, choose: Choose | None = None) -> None:
        self.flows = Flows()
        self.copies = Copies(self.flows.interfaces)
        self.loops = Loops()
        self.hop_classes = HopClasses()
        self.streams = Streams(self.flows)
        self.messages = Messages()
        self.naks = Naks(self.streams)
        self.events = Events()
        self.order = Order(self.streams, self.messages, self.naks, gap=self.events.add_gap, resend=self._add_resend)
        self.loop_causes = LoopCauses(self.streams, self.flows, self.order)
        self.sizes = Sizes(self.streams, self.order.acked)
        self.icmp = IcmpErrors()
        self.responses = Responses(self.streams, self.naks, self.events.add_missed)
        self.read_sizes = ReadSizes(self.streams, self.responses)
        self.handshakes = Handshakes(self.streams)
        self.pairing = Pairing(self.streams)
        self.answers = Answers(self.streams)
        self.cnp_times = CnpTimes(self.flows, self.streams)
        self.pauses = Pauses(self.rate_of)
        self._resending: set[int] = set()  # flows with a retransmission in the current round
        self.long_pauses: list[tuple[int, int]] = []
        """Begin and end (ns) of pauses that are long enough for a requester's timer to expire."""
        self.timeline = Timeline()
        self.tunnels = Keys(10, MAX_TUNNELS)
        self.tunnel_sums = np.zeros((MAX_TUNNELS, 3), np.int64)  # packets, bytes, RoCEv2
        self.icrc_checks = IcrcChecks(every=check_icrc)
        self.packets = self.roce = self.rocev1 = self.short = self.cut = 0
        self.not_decoded: dict[int, int] = defaultdict(int)  # keyed by ``Strata.other``
        self.first: int | None = None
        self.last = self.backwards = 0  # backwards: by how much a packet is earlier than one before it, at most
        self.capture: CaptureFile
        self._rounds = Rounds()
        self._rate = rate
        self._choose = choose

    def run(self, stream: IO[bytes], source: str, chunk: int = CHUNK) -> None:
        """Analyse a capture file. Raise InvalidInput if it is not one; damage in it goes to ``capture.damages``."""
        _reuse_memory()
        self.capture = CaptureFile(stream, source, chunk)
        for read in self.capture:
            batch = read if self._choose is None else read.select(self._choose(read, self.capture.names))
            if len(batch.start):
                self._add(batch)
        for packets in self._rounds.rest():
            self._add_round(packets)
        self.timeline.cover(self.last)
        self.pairing.finish()
        self.pauses.finish(self.last)
        self._collect_pauses()
        self.order.finish()
        self._add_accepted()

    def rate_of(self, interface: int) -> int | None:
        """Return the rate of an interface's link in bit/s, None if neither the file nor the user gives it."""
        return self.capture.interfaces[interface].speed or self._rate

    def _add(self, batch: PacketBatch) -> None:
        columns, roce = decode(batch)
        if self.first is None:
            self.first = self.timeline.start = int(batch.time[0])
        self.packets += len(batch.start)
        newest = np.maximum.accumulate(np.maximum(batch.time, self.last))
        self.backwards = max(self.backwards, int((newest - batch.time).max()))
        self.last = int(newest[-1])
        if columns.fault.any():
            self._note_faults(batch, columns)
        control = np.flatnonzero(columns.kind == PacketClass.CONTROL)
        if len(control):
            self.pauses.add(batch, control, columns.ip[control], columns.l2[control])
            self._collect_pauses()
        if (columns.other >= 0).any():
            self._add_others(columns, roce)
            self.icmp.add(batch, columns)
        if (columns.vni >= 0).any():
            self._add_tunnels(batch, columns)
        if len(roce.row):
            self.roce += len(roce.row)
            self._add_roce(batch, columns, roce)

    def _add_roce(self, batch: PacketBatch, columns: Columns, roce: Roce) -> None:
        self.handshakes.add(batch, columns, roce)
        flow = self.flows.number(batch, columns, roce)
        self.loops.add(batch, columns, roce, flow)
        wrong = self.icrc_checks.check(batch, columns, roce, flow)
        self.capture.damages.add_packets(wrong, WRONG_ICRC)
        for packets in self._rounds.add(batch, columns, roce, flow):
            self._add_round(packets)

    def _add_round(self, packets: Sorted) -> None:
        """Add a full round. The order matters: PSN tracking uses the pairing and the NAKs of the same round."""
        self.events.round_began = int(packets.time.min())
        self.hop_classes.add(packets)
        captured, packets = packets, self.copies.sift(packets)
        if not len(packets.flow):
            return
        self.streams.grow(int(packets.flow[-1]) + 1)
        self.flows.add(packets)
        self._learn(packets)
        self.handshakes.settle()
        self.pairing.add(packets)
        self.naks.add(packets)
        fresh = self.responses.add(packets)
        self.read_sizes.add(packets)
        taken = self.order.add(packets) & fresh
        if self._resending:
            acking = self._only_acked(self._resending)
            self.loops.add_alike(captured, self._resending, acking, self._acked(packets))
            self._resending.clear()
        self.loops.add_datagrams(captured, lambda flow: self.flows.key(flow).destqp <= _MANAGEMENT_QP)
        self.loop_causes.add(captured)
        self.loops.add_answers(captured, self.loop_causes.of)
        self.sizes.add(packets)
        self.messages.add(packets, taken)
        self.answers.add(packets)
        self.cnp_times.add(packets)
        self._add_over_time(packets, np.where(taken, packets.payload, 0))

    def _only_acked(self, flows: set[int]) -> set[int]:
        """Return the flows whose responders were captured with ACKs, and at no link with a NAK."""
        peers = {flow: int(self.streams.answers[flow]) for flow in flows}
        acking = {flow: peer for flow, peer in peers.items() if peer >= 0 and self.flows.acks[peer, 0]}
        refusing = self.flows.refusing(set(acking.values()))
        return {flow for flow, peer in acking.items() if peer not in refusing}

    def _acked(self, packets: Sorted) -> Acked:
        """Return a function that counts what a flow's responder answered while a packet repeated."""
        heard: dict[int, list[Heard]] = {}

        def acked(flow: int, psn: int, begin: int, end: int) -> AckedMeanwhile:
            if flow not in heard:
                heard[flow] = self.order.heard(flow, packets)
            meanwhile = [ack for ack in heard[flow] if begin <= ack.time <= end]
            before = [ack for ack in meanwhile if distance(ack.psn, psn) < 0]
            early = sum(ack.time - begin < end - ack.time for ack in before)
            return AckedMeanwhile(len({ack.psn for ack in before}), len(meanwhile) - early)

        return acked

    def _learn(self, packets: Sorted) -> None:
        full = np.flatnonzero(ops.FULL[packets.opcode])
        full = full[value_runs.ends(packets.flow[full])]
        full = full[np.isin(packets.payload[full], PATH_MTUS)]
        self.streams.learn(self.streams.of[packets.flow[full]].astype(np.int64), packets.payload[full])

    def _add_over_time(self, packets: Sorted, payload: Ints) -> None:
        self.timeline.add(TimelineSeries.PAYLOAD, packets.flow, packets.time, payload)
        flows = packets.flow[packets.starts]
        self.flows.sums["payload"][flows] += np.add.reduceat(payload, packets.starts)
        read = np.where(ops.READ_RESPONSE[packets.opcode], payload, 0)
        if read.any():
            self.flows.sums["read"][flows] += np.add.reduceat(read, packets.starts)
            self.flows.sums["responses"][flows] += np.add.reduceat(read > 0, packets.starts, dtype=np.int64)
        self._add_accepted()
        marks = {
            TimelineSeries.MARKED: packets.ecn == CE,
            TimelineSeries.NAKS: (packets.syndrome >= 0) & (ops.ACK[packets.syndrome] > 0),
            TimelineSeries.CNPS: ops.CNP[packets.opcode],
        }
        for channel, marked in marks.items():
            at = np.flatnonzero(marked)
            self.timeline.add(channel, packets.flow[at], packets.time[at], np.ones(len(at), np.int64))

    def _add_accepted(self) -> None:
        """Add the payload that responders of flows with losses accepted since the last call."""
        flow, time, size = np.array(self.order.accepted, np.int64).reshape(-1, 3).T
        self.timeline.add(TimelineSeries.PAYLOAD, flow, time, size)
        np.add.at(self.flows.sums["payload"], flow, size)

    def _note_faults(self, batch: PacketBatch, columns: Columns) -> None:
        """Count short packets and report damaged ones. A packet that the capture truncated is not damaged."""
        cut = (columns.fault == WalkStop.CUT) & (batch.length > batch.captured)
        self.cut += int(cut.sum())
        self.short += int((columns.fault == WalkStop.SHORT).sum())
        told = np.flatnonzero((columns.fault != WalkStop.NONE) & (columns.fault != WalkStop.SHORT) & ~cut)
        for number, fault in zip(batch.number[told].tolist(), columns.fault[told].tolist(), strict=True):
            self.capture.damages.add(f"packet {number}", FAULTS[WalkStop(fault)])

    def _add_others(self, columns: Columns, roce: Roce) -> None:
        """Count the packets that are not decoded, by their innermost known header."""
        whole = (columns.fault == WalkStop.NONE) | (columns.fault == WalkStop.SHORT)
        others = columns.other[(columns.kind == PacketClass.OTHER) & (columns.other >= 0) & whole]
        for other, count in zip(*(column.tolist() for column in np.unique(others, return_counts=True)), strict=True):
            self.not_decoded[other] += count
        self.rocev1 += int((columns.other[roce.row] == ROCEV1).sum())

    def _add_tunnels(self, batch: PacketBatch, columns: Columns) -> None:
        row = np.flatnonzero(columns.vni >= 0)
        words = [array[index, row] for array in (columns.src, columns.dst) for index in range(4)]
        tunnel = self.tunnels.numbers([batch.interface[row], columns.vni[row], *words])
        known = tunnel >= 0
        tunnel, row = tunnel[known], row[known]
        sums = np.stack(
            [np.ones(len(row), np.int64), batch.length[row], columns.kind[row] == PacketClass.ROCE], axis=1
        )
        np.add.at(self.tunnel_sums, tunnel, sums)

    def _add_resend(self, flow: int, resend: Resend) -> None:
        """Add an episode of retransmission, but none of packets that are only in the wrong order in the file."""
        if resend.time < resend.since:
            return
        self.events.add_resend(flow, resend)
        self._resending.add(flow)
        self.sizes.add_resend(flow, resend)
        self.read_sizes.add_resend(flow, resend)
        self.timeline.add(
            TimelineSeries.RESENT, *(np.array([value]) for value in (flow, resend.time, resend.packets))
        )

    def _collect_pauses(self) -> None:
        """Move the pauses that have ended to the timeline, so that memory stays bounded."""
        for row, port in enumerate(self.pauses.ports.values()):
            for begin, end in port.spells:
                if end - begin >= _LONG_PAUSE and len(self.long_pauses) < _PAUSES_KEPT:
                    self.long_pauses.append((begin, end))
                self.timeline.span(TimelineSeries.PAUSED, row, begin, end)
            port.spells.clear()


def _reuse_memory() -> None:
    """Make glibc's allocator reuse the memory of one batch for the next, which saves a third of the time.

    Otherwise the kernel clears new pages for each batch. glibc raises its threshold when a large block is freed
    (mallopt(3), M_MMAP_THRESHOLD). With other allocators this has no effect.
    """
    np.empty(_REUSED, np.uint8)
