"""Turn the sums of an analyser into facts."""

from __future__ import annotations

from collections import Counter
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from lab.analysis.analyser import Analyser
from lab.analysis.decode import opcode_tables as ops
from lab.analysis.decode.header_walk_columns import other_name
from lab.analysis.flows.icmp import icmp_errors
from lab.analysis.flows.marked_hops import paths
from lab.analysis.flows.path_spread import captured_beside, spread
from lab.analysis.flows.routing_loops import loops
from lab.analysis.pfc.pause_tree import pause_trees
from lab.analysis.read.linktypes import link_name
from lab.analysis.read.packet_batch import CHUNK
from lab.analysis.results.analysis_facts import (
    AnalysisFacts,
    CapturedNic,
    CnpSpacing,
    FlowFacts,
    OddControl,
    PausedPort,
    Percentiles,
    TunnelFacts,
)
from lab.analysis.results.capture_verdict import findings
from lab.analysis.results.filter_effect import hidden_by
from lab.analysis.results.histogram import Times
from lab.analysis.results.lazy_sequence import LazySequence
from lab.analysis.results.loss_facts import GoBackN, MissingPsns
from lab.analysis.results.number_format import DIRECTIONS, address, class_or_none, mac, vni_or_none
from lab.analysis.results.timeline_facts import over_time
from lab.analysis.transport.icrc_checks import icrc_errors
from lab.analysis.transport.loss_causes import causes
from lab.analysis.transport.loss_places import losses
from lab.analysis.transport.loss_sizes import size_losses
from lab.analysis.transport.messages import SIZES
from lab.analysis.transport.naks import TIMEOUT
from lab.analysis.transport.psn_tracker import COUNTS
from lab.wire.opcodes import TRANSPORT_NAMES
from lab.wire.pcapng import APPLICATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

    from lab.analysis.analyser import Choose
    from lab.analysis.pfc.pause_intervals import Oddity, Port
    from lab.analysis.read.packet_batch import Ints
    from lab.wire.filter.expression import Expression

Name = TypeVar("Name", str, int)
_EVENTS: Final = 1000
"""Gaps and retransmission episodes that are listed one by one."""
_NO_TIMES: Final = Times()


def analyse(  # noqa: PLR0913 - the options of an analysis, all of them by name
    stream: IO[bytes],
    source: str,
    *,
    rate: int | None = None,
    check_icrc: bool = False,
    wanted: Expression | None = None,
    chunk: int = CHUNK,
) -> AnalysisFacts:
    """Return all facts of a capture file, or of its packets that match ``wanted``; InvalidInput if it is no capture.

    ``rate`` (bit/s) is used for links without a speed in the file. Pause quanta have no duration without it.
    ``check_icrc`` checks every ICRC instead of a sample. Memory is bounded: about 38 MB for a few flows, most of it
    Python and NumPy, and 55 MB for 32,768 flows that all lost packets. The command line takes 8 MB more.
    """
    analyser = Analyser(rate=rate, check_icrc=check_icrc, choose=None if wanted is None else chooser(wanted))
    analyser.run(stream, source, chunk)
    return _Report(analyser).facts(source, wanted)


def chooser(wanted: Expression) -> Choose:
    """Return ``wanted`` as a function that marks the packets of a batch."""
    from lab.analysis.decode.filter_columns import chosen  # noqa: PLC0415 - a twentieth of start-up, and most analyses need none

    return partial(chosen, wanted)


class _Report:
    def __init__(self, analyser: Analyser) -> None:
        self._of = analyser
        self._start = analyser.first or 0
        self._seconds = (analyser.last - self._start) / 1e9 if analyser.first is not None else 0.0
        self._links = analyser.capture.names
        self._by_hosts: dict[int, tuple[bool, bool]] = {}

    def _filters(self) -> list[str]:
        """Return the capture filters of all interfaces, or nothing if one of them had no filter."""
        filters = [interface.filter for interface in self._of.capture.interfaces]
        return filters if all(filters) else []

    def facts(self, source: str, wanted: Expression | None) -> AnalysisFacts:
        of = self._of
        flows = LazySequence(self._flow, len(of.flows))
        found: dict[str, Any] = {
            "file": source,
            "packets": of.packets,
            "left_out": of.capture.packets - of.packets,
            "seconds": self._seconds,
            "backwards": of.backwards / 1e9,
            "roce": of.roce,
            "rocev1": of.rocev1,
            "not_decoded": _by_name(of.not_decoded, {} if wanted else of.capture.foreign),
            "short": of.short,
            "cut": of.cut,
            "mirrored": of.capture.mirrored,
            "copies_alike": of.copies.alike,
            "pause_frames": of.pauses.frames,
            "pause_frames_hidden": hidden_by(wanted, self._filters()),
            "emulated": of.capture.applications == {APPLICATION},
            "nics": tuple(self._nics()),
            "cnp_spacing": tuple(
                CnpSpacing(
                    link=self._links[path.interface],
                    src=address(path.src),
                    dst=address(path.dst),
                    least=least / 1e9,
                )
                for path, least in sorted(of.cnp_times.least.items())
            ),
            "untracked": of.flows.untracked,
            "broken_off": of.order.broken_off,
            "untimed": of.answers.untimed,
            "dropped": {
                self._links[number]: counted.dropped
                for number, counted in of.capture.statistics.items()
                if counted.dropped
            },
            "flows": flows,
            "go_back_n": tuple(self._go_back_n(*event) for event in of.events.resends[:_EVENTS]),
            "gaps": tuple(self._gap(*event) for event in of.events.gaps(_EVENTS)),
            "over_time": over_time(of, self._links, self._seconds),
            "pauses": tuple(self._pause(key) for key in sorted(of.pauses.ports)),
            "odd_control": self._odd_control(),
            "pause_trees": pause_trees(of.pauses.ports, of.capture, self._start, self._seconds),
            "spread": spread(of.flows, self._missing, self._links),
            "paths": paths(of.flows, self._links, self._start),
            "class_changes": tuple(of.hop_classes.changes(of.flows, self._links)),
            "loops": loops(of.loops, of.flows, self._links),
            "size_losses": (
                *size_losses(of.sizes, of.streams, of.flows, self._links),
                *of.read_sizes.losses(of.flows, self._links),
            ),
            "icmp_errors": icmp_errors(of.icmp, self._links),
            "unanswered_requests": tuple(of.handshakes.unanswered(self._links)),
            "rejected_connections": tuple(of.handshakes.rejected(self._links)),
            "tunnels": tuple(self._tunnel(number) for number in range(len(of.tunnels))),
            "icrc": of.icrc_checks.totals,
            "icrc_errors": icrc_errors(of.icrc_checks, of.flows, self._links),
            "damages": tuple(of.capture.damages.kept),
            "damage_count": of.capture.damages.count,
            "losses": (lost := losses(of, self._links)),
            "causes": causes(lost),
        }
        return AnalysisFacts(**found, findings=findings(AnalysisFacts(**found, findings=())))

    def _nics(self) -> Iterator[CapturedNic]:
        for link, interface in zip(self._links, self._of.capture.interfaces, strict=True):
            if (nic := interface.nic) is not None:
                yield CapturedNic(
                    link=link,
                    port=nic.port,
                    address=nic.address,
                    np=nic.np,
                    rp=nic.rp,
                    min_time_between_cnps=nic.apart,
                    scope=nic.scope,
                    rate=interface.speed,
                )

    def _since_start(self, time: int) -> float:
        return (time - self._start) / 1e9

    def _flow(self, number: int) -> FlowFacts:
        flows, answers, told, events = self._of.flows, self._of.answers, self._of.messages, self._of.events
        key = flows.key(number)
        sums = {name: int(column[number]) for name, column in flows.sums.items()}
        first, last = flows.seen[number].tolist()
        peer = int(self._of.streams.answers[number])
        messages = int(told.counts[number].sum())
        before, after = self._of.cnp_times.rates(number)
        marked_at = int(answers.first_mark[number])
        seconds = max(0, last - first) / 1e9
        return FlowFacts(
            link=self._links[key.interface],
            vni=vni_or_none(key.vni),
            src=address(key.src),
            dst=address(key.dst),
            qp=key.destqp,
            transport=TRANSPORT_NAMES.get(key.transport, "reserved"),
            peer=None if peer < 0 else flows.key(peer).destqp,
            dscps=flows.dscps(number),
            pcp=int(flows.pcp[number]) - 1 if flows.pcp[number] else None,
            packets=sums["packets"],
            copies=self._of.copies.counts.get(number, 0),
            looped=self._of.loops.packets.get(number, 0),
            beside=self._beside.get(number, 0),
            bytes=sums["octets"],
            payload=sums["payload"],
            goodput=flows.goodput(number),
            read_goodput=self._read_goodput(number, peer) if peer >= 0 else 0.0,
            seconds=seconds,
            messages=_named(ops.MESSAGES, told.counts[number]),
            sizes=_named((0, *(2**power for power in range(SIZES - 1))), told.sizes[number]),
            message_bytes=int(told.volume[number]),
            partial=int(told.partial[number]),
            smallest=int(told.smallest[number]) if messages else 0,
            largest=int(told.largest[number]),
            gaps=int(events.gap_counts[number]),
            go_back_n=int(events.go_backs[number]),
            repeats=int(events.repeats[number]),
            rnr_retries=int(events.rnr_retries[number]),
            rnr_resent=int(events.rnr_resent[number]),
            paused_timeouts=self._paused_timeouts.get(number, (0, 0))[0],
            paused_resent=self._paused_timeouts.get(number, (0, 0))[1],
            unanswered=self._unanswered(number) if peer >= 0 else 0.0,
            never_answered=self._never_answered(number) if peer < 0 else 0.0,
            without_answers=self._without_answers(number) if peer < 0 else 0.0,
            response_gaps=self._of.responses.gaps.get(number, 0),
            responses=sums["responses"],
            answers=_named(ops.ACKS, flows.acks[number]),
            marked=sums["ce"],
            marked_share=sums["ce"] / sums["packets"],
            marked_for=max(0, last - marked_at) / 1e9 if marked_at else 0.0,
            not_ect=sums["packets"] - sums["ect"],
            cnps=sums["cnps"],
            displaced=self._of.order.displaced.get(number, 0) + self._of.responses.displaced.get(number, 0),
            **dict(zip(COUNTS, self._of.order.counts[number].tolist(), strict=True)),
            cnp_spacing=_percentiles(answers.cnp_spacing.get(number, _NO_TIMES)),
            cnp_delay=_percentiles(answers.cnp_delay.get(number, _NO_TIMES)),
            rate_before_cnps=before,
            rate_after_cnps=after,
            round_trip=_percentiles(answers.round_trips.get(number, _NO_TIMES)),
        )

    def _unanswered(self, number: int) -> float:
        """Return seconds since the last packet in reverse on any link, if the flow resent twice since; else 0."""
        seen, streams = self._of.flows.seen, self._of.streams
        back = streams.members(int(streams.peer[streams.of[number]]))
        heard = int(seen[back, 1].max())
        return (int(seen[number, 1]) - heard) / 1e9 if self._of.events.stepped_twice(number, heard) else 0.0

    @cached_property
    def _paused_timeouts(self) -> dict[int, tuple[int, int]]:
        """By flow: timeouts during which a link was mostly paused, and the packets resent."""
        spells, found = self._of.long_pauses, dict[int, tuple[int, int]]()
        for flow, resend in self._of.events.resends if spells else ():
            if resend.cause != TIMEOUT or resend.alone:
                continue
            stopped = max(min(end, resend.time) - max(begin, resend.since) for begin, end in spells)
            if 2 * stopped > resend.time - resend.since:
                times, packets = found.get(flow, (0, 0))
                found[flow] = times + 1, packets + resend.packets
        return found

    def _never_answered(self, number: int) -> float:
        """Return seconds for which a requester resent one PSN unanswered, although answers are captured; else 0.

        Answers count as captured if other packets reach the requester on this link, or if other answers pass between
        the hosts.
        """
        answered, unpaired = self._answered(number)
        if unpaired:  # it may belong to this flow
            return 0.0
        return self._stuck(number) if answered or self._arrives(number) else 0.0

    def _without_answers(self, number: int) -> float:
        """Return seconds for which a requester resent one PSN, if the capture has nothing that reaches it; else 0."""
        answered, _ = self._answered(number)
        return 0.0 if answered or self._arrives(number) else self._stuck(number)

    def _stuck(self, number: int) -> float:
        """Return seconds from first to last packet, if the flow ended with two retransmissions of one PSN; else 0."""
        first, last = self._of.flows.seen[number].tolist()
        return (last - first) / 1e9 if self._of.events.stuck(number, last) else 0.0

    def _answered(self, number: int) -> tuple[bool, bool]:
        """Return whether the destination host answers any flow of the source host, and one that is not known.

        All flows between two hosts share the result: each may have thousands in the reverse direction.
        """
        of, streams = self._of, self._of.streams
        stream = int(streams.of[number])
        hosts = int(streams.hosts(np.array([stream]))[0])
        if hosts not in self._by_hosts:
            back = [flow for other in streams.back(stream) for flow in streams.members(other)]
            answering = [flow for flow in back if of.flows.acks[flow].any()]
            self._by_hosts[hosts] = bool(answering), any(streams.answers[flow] < 0 for flow in answering)
        return self._by_hosts[hosts]

    def _arrives(self, number: int) -> bool:
        """Return whether any packet to the source host of a flow was captured on the flow's link."""
        key = self._of.flows.key(number)
        return (key.interface, key.src) in self._arriving

    @property
    def _missing(self) -> list[int]:
        """The missing PSNs of each flow."""
        missing: list[int] = self._of.order.counts[: len(self._of.flows), COUNTS.index("missing")].tolist()
        return missing

    @cached_property
    def _beside(self) -> dict[int, int]:
        counts = self._of.order.counts[: len(self._of.flows)]
        again = counts[:, [COUNTS.index("late"), COUNTS.index("resent")]].sum(axis=1)
        return captured_beside(self._of.flows, self._missing, again.tolist())

    @cached_property
    def _arriving(self) -> set[tuple[int, tuple[int, ...]]]:
        keys = map(self._of.flows.key, range(len(self._of.flows)))
        return {(key.interface, key.dst) for key in keys}

    def _read_goodput(self, number: int, peer: int) -> float:
        """Return READ goodput in bit/s, from the first request to the last packet of either direction."""
        seen, read = self._of.flows.seen, int(self._of.flows.sums["read"][peer])
        lasted = int(max(seen[number, 1], seen[peer, 1])) - int(min(seen[number, 0], seen[peer, 0]))
        return read * 8e9 / lasted if lasted > 0 else 0.0

    def _go_back_n(self, flow: int, event: Any) -> GoBackN:
        key = self._of.flows.key(flow)
        return GoBackN(
            link=self._links[key.interface],
            src=address(key.src),
            dst=address(key.dst),
            qp=key.destqp,
            time=self._since_start(event.time),
            seconds=(event.end - event.time) / 1e9,
            psn=event.psn,
            back=event.back,
            packets=event.packets,
            cause=event.cause,
            alone=event.alone,
        )

    def _gap(self, flow: int, event: Any) -> MissingPsns:
        key = self._of.flows.key(flow)
        return MissingPsns(
            link=self._links[key.interface],
            src=address(key.src),
            dst=address(key.dst),
            qp=key.destqp,
            time=self._since_start(event.time),
            psn=event.psn,
            count=event.count,
        )

    def _pause(self, key: Port) -> PausedPort:
        interface, direction, sender, cls = key
        port = self._of.pauses.ports[key]
        paused, longest = (None if time is None else time / 1e9 for time in port.known)
        return PausedPort(
            link=self._links[interface],
            direction=DIRECTIONS[direction],
            sender=mac(sender),
            cls=class_or_none(cls),
            xoff=port.xoff,
            xon=port.xon,
            pairs=port.pairs,
            expired=port.expired,
            paused=paused,
            longest=longest,
            share=paused / self._seconds if paused is not None and self._seconds else None,
            least=port.least[0] / 1e9,
            most=port.most[0] / 1e9,
            longest_least=port.least[1] / 1e9,
            longest_most=port.most[1] / 1e9,
        )

    def _odd_control(self) -> tuple[OddControl, ...]:
        return tuple(
            OddControl(link=self._links[interface], sender=mac(sender), why=why.value, number=number, frames=frames)
            for (interface, sender, why, number), frames in sorted(self._of.pauses.odd.items(), key=_by_place)
        )

    def _tunnel(self, number: int) -> TunnelFacts:
        interface, vni, *words = self._of.tunnels.rows[number].tolist()
        packets, size, roce = self._of.tunnel_sums[number].tolist()
        return TunnelFacts(
            link=self._links[interface],
            vni=vni,
            src=address(words[:4]),
            dst=address(words[4:]),
            packets=packets,
            bytes=size,
            roce=roce,
        )


def _by_name(others: dict[int, int], foreign: dict[int, int]) -> dict[str, int]:
    """Return packets that are not decoded by name, most frequent first; ``foreign`` is by link type."""
    found = Counter({link_name(linktype): count for linktype, count in foreign.items()})
    for other, count in others.items():
        found[other_name(other)] += count
    return dict(found.most_common())


def _by_place(odd: tuple[tuple[int, int, Oddity, int], int]) -> tuple[int, int, str, int]:
    (interface, sender, why, number), _ = odd
    return interface, sender, why.value, number


def _named(names: Sequence[Name], counts: Ints) -> dict[Name, int]:
    """Return the counts that are not zero, by name."""
    return {name: count for name, count in zip(names, counts.tolist(), strict=True) if count}


def _percentiles(times: Times) -> Percentiles:
    return Percentiles(
        count=times.count, least=times.least, p50=times.quantile(0.5), p99=times.quantile(0.99), most=times.most
    )
