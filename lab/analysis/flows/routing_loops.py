"""Find loops of routers, and of switches: one link sees the same transmission repeatedly.

Routers decrement the TTL each time.

Routers of the underlay decrement the outer TTL of a tunnelled packet, and routers of the overlay, such as leaves, its
inner TTL. The sum of both decreases either way.

A mirror of several routers also shows one packet with several TTLs. But each router writes its own MAC addresses (RFC
1812 section 5.2). A packet that repeats with the same two addresses has come back.

Switches change nothing. So a request is in a loop of switches if it repeats more often than any mirror shows it, each
time sooner than a requester could have retransmitted it. A slower loop is one if the responder's ACKs were captured
while it repeats, and no NAK: without RNR NAKs, a requester retries seven times at most: its retry counter has three
bits. It counts anew after each ACK that confirms something, so a window may be resent often if its ACKs arrive one by
one.

UD has no retransmissions: a datagram that repeats more often than any mirror shows it is in a loop, too.

Answers and CNPs repeat more often than packets cause them: a responder answers a request once, and a packet has one
CE mark. If the file lacks packets that can cause them, answers may be those to retransmitted requests. It lacks some
if the responder ACKs newer PSNs than those in the file, or if most requests are on other links.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.flows.flow_sums import MAX_FLOWS
from lab.analysis.flows.path_spread import SPRAYED
from lab.analysis.flows.sparse_arrays import zeros
from lab.analysis.results.analysis_facts import Loop, LoopLink
from lab.analysis.results.number_format import address, mac
from lab.analysis.transport.mirror_duplicates import AT_ONCE
from lab.analysis.transport.psn_tracker import distance
from lab.wire.header_fields import EthernetFields

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from lab.analysis.decode.columns import Columns, Roce
    from lab.analysis.flows.flow_batches import Sorted
    from lab.analysis.flows.flow_sums import Flows
    from lab.analysis.flows.streams import Streams
    from lab.analysis.read.packet_batch import Ints, PacketBatch
    from lab.analysis.transport.psn_order import Order

_WITHIN: Final = 1_000_000_000
"""ns from one pass to the next, at most. A saturated loop queues for long."""
_TRACKED: Final = 2048
"""Packets that are tracked, to bound memory: the most recent ones."""
_KEPT: Final = 4096
"""Flows whose loop is kept."""
_FARTHEST: Final = 8
"""This many different TTLs of a packet at one link are a loop: a path through five stages has six."""
_CNP_RETURNS: Final = _FARTHEST - 1
"""Returns that are a loop of CNPs, which have no PSN: different ones, on paths of different lengths, look alike."""
_ALIKE: Final = 16
"""Identical requests that are a loop, each ``AT_ONCE`` after the one before. Mirrors show up to four."""
_SLOW: Final = 1_000_000
"""ns from one pass to the next of a slow loop, at most."""
_RETRIED: Final = 33
"""Identical requests that are a slow loop: a request and its seven retries, each on four ports of mirrors, are 32."""
_PORTS: Final = 4
"""Ports of mirrors that show a packet, at most."""
_UNASKED: Final = 256
"""Identical answers in a file without any request: more than the retransmitted messages of a usual window."""
_ROUND: Final = 2
"""Routers in the smallest loop: the TTL of a returning packet is smaller by at least this."""
_EFFECTS: Final = ops.RESPONSE & ~ops.READ_RESPONSE | ops.CNP
"""By opcode: packets that cause no answer, and no CNP."""
Acked: TypeAlias = "Callable[[int, int, int, int], AckedMeanwhile]"
"""Returns what the responder of a flow answered from one time to another, in ns since 1970, by a PSN of the flow."""


class AckedMeanwhile(NamedTuple):
    """How many PSNs before a packet's own were ACKed while it repeated, and how many answers there were.

    ACKs of PSNs before it are answers only in the later half: others can be those of packets that were in flight.
    """

    psns: int
    answers: int


class Macs(NamedTuple):
    """The MAC addresses of a frame, as 48-bit numbers."""

    src: int
    dst: int


class _Pass(NamedTuple):
    """The only pass of a packet so far."""

    ttl: int
    inner: int
    macs: Macs


@dataclass(slots=True)
class Passes:
    """One transmission at one link: the number of passes, and the MAC addresses of each.

    ``hops`` is the decrease of the TTL between two passes with the same MAC addresses, 0 before it repeats. A packet
    that is sent again, over paths of different lengths, has the same few TTLs again: only lower ones count. ``top``
    is the first TTL, and ``step`` the decrease from one pass to the next. TTLs are sums of the outer and the inner
    one; ``inner`` has the inner ones. ``certain``: nothing else than a loop explains the passes.
    """

    count: int = 0
    top: int = 0
    step: int = 0
    hops: int = 0
    returned: int = 0
    lowest: dict[Macs, int] = field(default_factory=dict)
    ttls: set[int] = field(default_factory=set)
    inner: set[int] = field(default_factory=set)
    certain: bool = True
    enough: int = 2
    """Returns that are a loop, if it was seen in one direction."""

    def add(self, ttl: int, macs: Macs, inner: int = 0) -> None:
        """Add one pass."""
        self.inner.add(inner)
        if self.count:
            self.step = min(self.ttls) - ttl
        else:
            self.top = ttl
        self.count += 1
        before = self.lowest.get(macs, ttl)
        if before - ttl >= _ROUND:
            self.returned += 1
            self.hops = before - ttl
        self.lowest[macs] = min(before, ttl)
        self.ttls.add(ttl)

    @property
    def switched(self) -> bool:
        """Whether the packet repeats with the same TTL, so that switches forward it in a circle."""
        return len(self.ttls) == 1

    @property
    def turned(self) -> bool:
        """Whether the packet also passed in the reverse direction, between the same MAC addresses."""
        return turns(self.lowest)

    @property
    def circles(self) -> bool:
        """Whether the packet is in a loop.

        If it was seen in both directions, one repetition between the same MAC addresses is enough. Otherwise two are
        needed, because a retransmission may have taken a longer path, and more for CNPs. Without known addresses, the
        number of TTLs decides.
        """
        return self.returned >= (1 if self.turned else self.enough) or len(self.ttls) >= _FARTHEST


class _Run(NamedTuple):
    """A packet that repeats unchanged: its flow, how often, from when to when (ns).

    ``answer``: an ACK, no NAK. ``cnp``: a CNP.
    """

    flow: int
    psn: int
    ttl: int
    times: int
    begin: int
    end: int
    answer: bool
    cnp: bool
    certain: bool = True


def _runs(packets: Sorted, rows: Ints, near: int, least: int) -> Iterator[_Run]:
    """Yield the packets at ``rows`` that repeat at least ``least`` times, each within ``near`` ns."""
    if len(rows) < least:
        return
    same = (
        packets.flow, packets.psn, packets.opcode, packets.syndrome, packets.msn, packets.ident, packets.length,
        packets.ttl,
    )  # fmt: skip
    rows = rows[np.lexsort([column[rows] for column in reversed(same)])]  # stable: in file order
    changed = np.any([np.diff(column[rows]) != 0 for column in same], axis=0)
    starts = np.append(0, 1 + np.flatnonzero(changed | (np.abs(np.diff(packets.time[rows])) >= near)))
    counts = np.diff(np.append(starts, len(rows)))
    first, last = rows[starts], rows[starts + counts - 1]
    lasted = packets.time[last] > packets.time[first]  # else one file several times
    for run in np.flatnonzero((counts >= least) & lasted).tolist():
        at = first[run]
        syndrome = int(packets.syndrome[at])
        yield _Run(
            flow=int(packets.flow[at]),
            psn=int(packets.psn[at]),
            ttl=int(packets.ttl[at]),
            times=int(counts[run]),
            begin=int(packets.time[at]),
            end=int(packets.time[last[run]]),
            answer=syndrome >= 0 and not ops.ACK[syndrome],
            cnp=bool(ops.CNP[packets.opcode[at]]),
        )


def turns(passes: Iterable[Macs]) -> bool:
    """Return whether some of the passes are in the reverse direction of others, between the same MAC addresses."""
    known = set(passes)
    return any(Macs(macs.dst, macs.src) in known for macs in known)


def circle(passes: Iterable[tuple[int, Macs]]) -> Passes:
    """Return the passes of one transmission at one link, from its TTLs and MAC addresses in order of time."""
    found = Passes()
    for ttl, macs in passes:
        found.add(ttl, macs)
    return found


class Causes(NamedTuple):
    """The packets that may have caused answers and CNPs: their number, and the newest PSN of requests.

    The PSN is -1 if it is unknown. The file lacks the requests of answers to newer PSNs.
    """

    packets: int
    newest: int


class LoopCauses:
    """Counts the packets that may have caused answers and CNPs, by stream."""

    def __init__(self, streams: Streams, flows: Flows, order: Order) -> None:
        self._streams, self._flows, self._order = streams, flows, order
        self._now = self._before = np.zeros(0, np.uint16)  # by packet: its flow

    def add(self, packets: Sorted) -> None:
        """Add a round."""
        causes = packets.flow[~_EFFECTS[packets.opcode]]
        self._before, self._now = self._now, causes.astype(np.uint16)

    def of(self, flow: int) -> Causes | None:
        """Return the packets of this round and the one before that may have caused those of a flow.

        None if the file has none at all, or lacks some of them. Answers may come a round later than their requests.
        """
        stream = int(self._streams.of[flow])
        back = self._back(stream)
        members = [member for other in back for member in self._streams.members(other)]
        sums = self._flows.sums
        others = sums["packets"][members] + sums["responses"][members] - sums["cnps"][members]
        if not (others > self._flows.acks[members].sum(axis=1)).any():  # READ responses are among both
            return None
        newest = self._newest(stream)
        acked = int(self._order.acked[stream]) - 1
        if self._is_part(members) or (min(newest, acked) >= 0 and distance(acked, newest) > 0):
            return None
        packets = sum(int(np.isin(self._streams.of[each], back).sum()) for each in (self._now, self._before))
        return Causes(packets, newest)

    def _back(self, stream: int) -> list[int]:
        """Return the streams whose packets a stream may answer: unpaired ones, too, as its QP may be used again."""
        back = self._streams.back(stream)
        if self._streams.peer[stream] < 0:
            return back
        return [other for other in back if self._streams.peer[other] in {stream, -1}]

    def _newest(self, stream: int) -> int:
        """Return the newest PSN of the requests that a stream answers, -1 if it is unknown."""
        peer, found = int(self._streams.peer[stream]), -1
        for psn in map(self._order.newest, self._streams.members(peer) if peer >= 0 else ()):
            if psn >= 0 and (found < 0 or distance(psn, found) > 0):
                found = psn
        return found

    def _is_part(self, members: Sequence[int]) -> bool:
        """Return whether at each link many requests of some flows are missing, as those of a sprayed flow."""
        asking = [flow for flow in members if self._order.newest(flow) >= 0]
        packets = self._flows.sums["packets"]
        return bool(asking) and all(SPRAYED * self._order.missing(flow) > packets[flow] for flow in asking)


class Loops:
    """Finds routing loops. ``passes`` holds, by flow, the packet with the most passes."""

    def __init__(self) -> None:
        self.passes: dict[int, tuple[int, Passes]] = {}
        """By flow: a PSN, and its passes."""
        self.packets: dict[int, int] = defaultdict(int)
        """By flow: the number of different packets that looped."""
        self._ttl = zeros(MAX_FLOWS, np.uint16)  # 1 + TTL of each flow's first packet; 0 before it
        # The newest packets, each with the time of its last pass. One that passed once is a tuple: most are, and the
        # sets of ``Passes`` take ten times the memory.
        self._seen: dict[tuple[int, ...], tuple[int, _Pass | Passes]] = {}

    def add(self, batch: PacketBatch, columns: Columns, roce: Roce, flow: Ints) -> None:
        """Check the RoCEv2 packets of a batch: each flow's first packet, and those whose TTL differs from it."""
        inner = columns.inner_ttl[roce.row]
        ttl = columns.ttl[roce.row] + inner
        known = flow >= 0
        fresh = np.flatnonzero(known & (self._ttl[flow] == 0))
        if len(fresh):
            fresh = fresh[np.unique(flow[fresh], return_index=True)[1]]
            self._ttl[flow[fresh]] = ttl[fresh] + 1
        looked = known & (ttl + 1 != self._ttl[flow])
        looked[fresh] = True
        at = np.flatnonzero(looked)
        if not len(at):  # the case in nearly all captures
            return
        row = roce.row[at]
        macs = (bits.gather(batch.data, batch.start[row]) for bits in (EthernetFields.SRC, EthernetFields.DST))
        what = (flow[at], roce.psn[at], roce.opcode[at], columns.ident[row], roce.payload[at], roce.msn[at])
        others = (batch.time[row], ttl[at], inner[at], *macs)
        for *key, time, hops, inside, src, dst in zip(*(column.tolist() for column in (*what, *others)), strict=True):
            self._pass(tuple(key), time, hops, inside, Macs(src, dst))

    def add_alike(self, packets: Sorted, flows: Collection[int], only_acked: Collection[int], acked: Acked) -> None:
        """Find the requests of some flows that repeat unchanged in a round, as no requester retransmits them.

        The responders of ``only_acked``, a part of ``flows``, answer with ACKs, and have sent no NAK.
        """
        slow = self._add_alike(packets, only_acked, acked, _SLOW, _RETRIED)
        self._add_alike(packets, set(flows) - slow, acked, AT_ONCE, _ALIKE)

    def _add_alike(self, packets: Sorted, flows: Collection[int], acked: Acked, near: int, least: int) -> set[int]:
        """Add requests that repeat at least ``least`` times, each within ``near`` ns; return their flows.

        They may repeat as often again after each ACK that confirms requests before them. A slow one is certain if the
        responder was heard meanwhile: otherwise its NAKs may have taken another path.
        """
        rows = np.flatnonzero(np.isin(packets.flow, list(flows)) & ops.SEQUENCED[packets.opcode])
        runs: list[_Run] = []
        quick = {(run.flow, run.psn) for run in _runs(packets, rows, AT_ONCE, _ALIKE)}
        for run in _runs(packets, rows, near, least):
            meanwhile = acked(run.flow, run.psn, run.begin, run.end)
            if run.times >= least * (1 + meanwhile.psns):
                runs.append(run._replace(certain=(run.flow, run.psn) in quick or meanwhile.answers > 0))
        return self._add_runs(runs)

    def add_datagrams(self, packets: Sorted, is_management: Callable[[int], bool]) -> None:
        """Find datagrams that repeat unchanged in a round: UD has no retransmissions.

        Those of some flows are management datagrams, which programs repeat, each of them with the same PSN.
        """
        datagrams = ops.DATAGRAM[packets.opcode]
        if datagrams.sum() < _RETRIED:
            return
        runs = _runs(packets, np.flatnonzero(datagrams), _SLOW, _RETRIED)
        self._add_runs(run for run in runs if not is_management(run.flow))

    def add_answers(self, packets: Sorted, caused: Callable[[int], Causes | None]) -> None:
        """Find answers and CNPs that repeat unchanged in a round, more often than packets cause them.

        ``caused`` returns the packets that may have caused those of a flow, None if the file lacks them.
        """
        answers = ops.RESPONSE[packets.opcode] | ops.CNP[packets.opcode]
        if answers.sum() < _RETRIED:
            return
        many = np.add.reduceat(answers, packets.starts, dtype=np.int64) >= _RETRIED
        rows = np.flatnonzero(answers & np.repeat(many, np.diff(packets.starts, append=len(answers))))
        causes: dict[int, Causes | None] = {}
        runs: list[_Run] = []
        for run in _runs(packets, rows, _SLOW, _RETRIED):
            if run.flow not in causes:
                causes[run.flow] = caused(run.flow)
            known = causes[run.flow]
            if known is None or (not run.cnp and known.newest >= 0 and distance(run.psn, known.newest) > 0):
                if run.answer and run.times >= _UNASKED:
                    runs.append(run._replace(certain=False))
            elif run.times >= _RETRIED + _PORTS * known.packets:
                runs.append(run)
        self._add_runs(runs)

    def _add_runs(self, runs: Iterable[_Run]) -> set[int]:
        """Keep packets that repeat unchanged, and return their flows."""
        found: dict[int, int] = defaultdict(int)
        for run in runs:
            if run.flow not in self.passes and len(self.passes) >= _KEPT:
                continue
            found[run.flow] += 1
            self._switch(run)
        for flow, number in found.items():
            self.packets[flow] = max(self.packets[flow], number)
        return set(found)

    def _switch(self, run: _Run) -> None:
        """Keep a packet that repeats unchanged, if none of its flow has passed more often."""
        fresh = Passes(top=run.ttl, ttls={run.ttl}, certain=run.certain)
        kept, passes = self.passes.setdefault(run.flow, (run.psn, fresh))
        if not passes.switched:
            return
        if kept == run.psn:
            passes.count += run.times  # also those of earlier rounds
            passes.certain |= run.certain
        elif run.times > passes.count:
            fresh.count = run.times
            self.passes[run.flow] = run.psn, fresh

    def times(self, flow: int) -> int:
        """Return the passes of the packet in ``passes``, including that with the TTL of the flow's first packet."""
        passes = self.passes[flow][1]
        return passes.count + (int(self._ttl[flow]) - 1 - passes.top == passes.step > 0)

    def _pass(self, key: tuple[int, ...], time: int, ttl: int, inner: int, macs: Macs) -> None:
        only = _Pass(ttl, inner, macs)
        seen, kept = self._seen.pop(key, (time, only))
        self._seen[key] = time, only  # moved to the end: the newest are last
        if len(self._seen) > _TRACKED:
            del self._seen[next(iter(self._seen))]
        if kept is only or time - seen > _WITHIN:
            return
        if isinstance(kept, Passes):
            passes, before = kept, kept.circles
        else:
            passes, before = Passes(enough=_CNP_RETURNS) if ops.CNP[key[2]] else Passes(), False
            passes.add(kept.ttl, kept.macs, kept.inner)
        passes.add(ttl, macs, inner)
        self._seen[key] = time, passes
        flow = key[0]
        if not passes.circles or (flow not in self.passes and len(self.passes) >= _KEPT):
            return
        self.packets[flow] += not before
        if flow not in self.passes or passes.count > self.passes[flow][1].count:
            self.passes[flow] = key[1], passes


def loops(found: Loops, flows: Flows, links: Sequence[str]) -> tuple[Loop, ...]:
    """Return the loops by stream; ``links`` are interface names by number."""
    streams: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for flow in sorted(found.passes, key=lambda flow: int(flows.seen[flow, 0])):
        key = flows.key(flow)
        streams[key.src, key.dst, key.destqp].append(flow)
    return tuple(_loop(found, flows, members, links) for members in streams.values())


def _loop(found: Loops, flows: Flows, members: Sequence[int], links: Sequence[str]) -> Loop:
    key = flows.key(members[0])
    psn, passes = found.passes[members[0]]
    return Loop(
        src=address(key.src),
        dst=address(key.dst),
        qp=key.destqp,
        psn=psn,
        packets=max(found.packets[flow] for flow in members),
        hops=passes.hops,
        switched=passes.switched,
        certain=passes.certain,
        inner=len(passes.inner) > 1,
        vnis=tuple(sorted({key.vni for key in map(flows.key, members) if key.vni >= 0})),
        links=tuple(_links(found, flows, members, links)),
    )


def _links(found: Loops, flows: Flows, members: Sequence[int], links: Sequence[str]) -> Iterator[LoopLink]:
    """Yield each link once. A loop between VRFs passes a link in several VNIs."""
    by_link: dict[int, list[int]] = defaultdict(list)
    for flow in members:
        by_link[flows.key(flow).interface].append(flow)
    for interface, here in by_link.items():
        passes = [found.passes[flow][1] for flow in here]
        known = {macs: None for each in passes for macs in each.lowest if any(macs)}  # raw IP has none
        ends = dict.fromkeys(mac(end) for macs in known for end in macs)
        turned = turns(known)
        yield LoopLink(link=links[interface], times=sum(map(found.times, here)), turned=turned, macs=tuple(ends))
