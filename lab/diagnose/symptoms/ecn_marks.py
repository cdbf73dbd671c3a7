"""Symptoms of ECN: marks compared with queue depth, thresholds, and the ECN bits of packets."""

from __future__ import annotations

from collections import Counter
from math import sqrt
from typing import TYPE_CHECKING, Final

from lab.diagnose.symptom import Evidence, Sign, counted
from lab.telemetry.read import measures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import Lane, WindowFacts
    from lab.model.qos.port import EcnQos

_ENOUGH: Final = 100
"""Packets that a queue must have sent before its share of marks is meaningful."""
_DEEP: Final = 1.25
"""Multiple of Kmin. A queue whose mean depth is larger must mark."""
_LOW: Final = 0.8
"""Multiple of Kmin. A queue whose maximum depth is smaller has nothing to mark."""
_MOST: Final = 0.5
"""Share of a queue's packets. If more are marked, half of the depth samples must be above Kmin."""
_SAME_DEPTH: Final = 3_500
"""Bytes: less than a packet of 4 KB."""
_STANDING: Final = 12_500
"""Bytes: three packets of 4 KB. A queue is steady if the middle 80% of its depths span less."""
_APART: Final = 0.12
"""Difference of two shares of marks that one profile cannot cause. One packet more in a queue makes 7%."""
_MARKS: Final = 0.02
"""Share of marked packets from which on a queue counts as marking."""
_SIGMAS: Final = 5
_CONFIGURED: Final = 0.5
"""A queue does not mark although its configuration is that of others: something else may be the reason."""
_NEAR: Final = 0.4
"""Share of a sibling's Kmin. A larger difference is another symptom."""


def _egress(facts: WindowFacts) -> Iterator[Lane]:
    """Yield the lossless lanes of switches that have sent enough packets."""
    for lane in facts.lanes.values():
        if not facts.is_host(lane.port) and lane.priority in facts.lossless(lane.port) and lane.tx_packets >= _ENOUGH:
            yield lane


def _usual(facts: WindowFacts, lane: Lane) -> EcnQos | None:
    """Return the most common ECN profile of a lane's class among switch ports."""
    profiles = Counter(
        qos.ports[interface].queues[lane.priority].ecn
        for node, qos in facts.qos.items() if node in facts.switches
        for interface in qos.ports
    )  # fmt: skip
    return profiles.most_common(1)[0][0] if profiles else None


def _own(facts: WindowFacts, lane: Lane) -> EcnQos | None:
    """Return the lane's own ECN profile, if the configuration is that of the window."""
    config = facts.config(lane.port) if facts.current else None
    return config.queues[lane.priority].ecn if config else None


def deep_and_unmarked(facts: WindowFacts) -> Iterator[Sign]:
    """A queue is deep enough to mark and has markable packets, but marks none."""
    for lane in _egress(facts):
        usual = _usual(facts, lane)
        if (
            lane.marked
            or lane.not_ect
            or _marked_before(facts, lane)
            or usual is None
            or lane.depth < _DEEP * usual.kmin
        ):
            continue
        if not usual.enabled and not _sibling_marks(facts, lane):
            continue
        seen = [
            counted(facts, lane, "bytes of average queue depth", measures.QUEUE_BYTES, round(lane.depth)),
            counted(facts, lane, f"of {lane.tx_packets} packets marked", measures.ECN_MARKED, 0),
            *_sibling_marks(facts, lane),
            *_pausing(facts, lane),
        ]
        weight = _CONFIGURED if _own(facts, lane) == usual else 0.9
        yield Sign(place=lane.port, evidence=tuple(seen), weight=weight, priority=lane.priority)


def _marked_before(facts: WindowFacts, lane: Lane) -> bool:
    """Return whether the lane's packets were marked by earlier switches, and no host sends unmarked ones to it."""
    before = [facts.lane(facts.peer(port.name), lane.priority) for port in facts.ports_of(facts.ports[lane.port].node)
              if facts.lane(port.name, lane.priority).rx_packets >= _ENOUGH]  # fmt: skip
    sending = [each for each in before if each.tx_bytes > lane.tx_bytes / 10]
    return any(each.marked for each in sending) and not any(facts.is_host(each.port) for each in sending)


def _sibling_marks(facts: WindowFacts, lane: Lane) -> tuple[Evidence, ...]:
    """Return evidence of a queue on another switch that is no deeper and marks."""
    node = lane.port.partition(":")[0]
    for other in _egress(facts):
        elsewhere = other.port.partition(":")[0] != node and other.priority == lane.priority
        if elsewhere and other.share_marked > _MARKS and other.depth <= lane.depth * _DEEP:
            says = f"packets marked by a sibling at an average depth of {other.depth / 1000:.0f} KB"
            return (counted(facts, other, says, measures.ECN_MARKED, other.marked),)
    return ()


def _pausing(facts: WindowFacts, lane: Lane) -> Iterator[Evidence]:
    """Yield evidence of pauses that the lane's node sends in the window."""
    node = facts.ports[lane.port].node
    for port in facts.ports_of(node):
        if count := facts.lane(port.name, lane.priority).pauses_out:
            yield Evidence(
                says="pauses sent in the same time",
                of=port.name,
                source=measures.XOFF_TX.series(lane.priority),
                value=count,
                at=facts.end,
            )
            return


def no_profile_bound(facts: WindowFacts) -> Iterator[Sign]:
    """The configuration of a port has ECN off for a lossless class, while most ports have it on."""
    for port, lane in _configured(facts):
        usual, own = _usual(facts, lane), _own(facts, lane)
        if usual and own and usual.enabled and not own.enabled:
            yield Sign(
                place=port,
                evidence=(
                    Evidence(
                        says="has no ECN profile; other ports have one",
                        of=port,
                        source="qos ecn.enabled",
                        value=0,
                        at=facts.end,
                    ),
                ),
                weight=0.75,
                priority=lane.priority,
            )


def kmin_beyond_reach(facts: WindowFacts) -> Iterator[Sign]:
    """The configured Kmin is above XOFF, so that PFC acts first (Kmin < Kmax < XOFF is needed)."""
    for port, lane in _configured(facts):
        own = _own(facts, lane)
        node = facts.qos.get(port.partition(":")[0])
        if own is None or node is None or not own.enabled:
            continue
        config = node.ports[port.partition(":")[2]]
        xoff = config.groups[config.priority_to_group[lane.priority]].alone(node.shared)
        if own.kmin > xoff:
            seen = Evidence(
                says=f"bytes of Kmin; XOFF is at most {xoff}",
                of=port,
                source="qos ecn.kmin",
                value=own.kmin,
                at=facts.end,
            )
            yield Sign(place=port, evidence=(seen,), weight=0.8, priority=lane.priority)


def thresholds_differ(facts: WindowFacts) -> Iterator[Sign]:
    """The marking curve of a port, Kmin, Kmax or Pmax, differs slightly from that of its siblings."""
    for port, lane in _configured(facts):
        own = _own(facts, lane)
        siblings = [
            each for other, each_lane in _configured(facts)
            if other != port and facts.rate(other) == facts.rate(port) and (each := _own(facts, each_lane))
        ]  # fmt: skip
        if own is None or not own.enabled or own in siblings or not siblings:
            continue
        near = next((each for each in siblings if each.enabled and _is_near(own, each)), None)
        usual = _usual(facts, lane)
        if near is None or usual is None:
            continue
        lines = tuple(
            Evidence(
                says=f"for {name.title()}, where siblings have {common}",
                of=port,
                source=f"qos ecn.{name}",
                value=mine,
                at=facts.end,
            )
            for name, mine, common, most in _curve_values(own, near, usual)
            if mine not in {common, most}
        )
        if lines:
            yield Sign(place=port, evidence=lines, weight=0.7, priority=lane.priority)


def _is_near(own: EcnQos, other: EcnQos) -> bool:
    return abs(other.kmin - own.kmin) < _NEAR * other.kmin


def _curve_values(own: EcnQos, near: EcnQos, usual: EcnQos) -> Iterator[tuple[str, float, float, float]]:
    """Yield the name of each value of a marking curve, and the value in each of the three profiles."""
    yield "kmin", own.kmin, near.kmin, usual.kmin
    yield "kmax", own.kmax, near.kmax, usual.kmax
    yield "pmax", own.pmax, near.pmax, usual.pmax


def _configured(facts: WindowFacts) -> Iterator[tuple[str, Lane]]:
    """Yield each switch port with known configuration, with each of its lossless lanes."""
    for name, port in facts.ports.items():
        if not port.host and facts.current and facts.config(name):
            for priority in facts.lossless(name):
                yield name, facts.lane(name, priority)


def marks_though_shallow(facts: WindowFacts) -> Iterator[Sign]:
    """A queue marks many packets although its depth stays well below its siblings' Kmin, or most while below it."""
    for lane in _egress(facts):
        usual = _usual(facts, lane)
        near = 1.0 if lane.share_marked > _MOST else _LOW
        if usual and usual.enabled and lane.share_marked > 0.1 and lane.deepest < near * usual.kmin:
            seen = [
                counted(facts, lane, f"of {lane.tx_packets} packets marked", measures.ECN_MARKED, lane.marked),
                counted(
                    facts,
                    lane,
                    f"bytes of peak queue depth; siblings mark above {usual.kmin}",
                    measures.QUEUE_BYTES,
                    lane.deepest,
                ),
            ]
            if (own := _own(facts, lane)) and own.kmin < usual.kmin:
                seen.append(
                    Evidence(says="bytes of Kmin", of=lane.port, source="qos ecn.kmin", value=own.kmin, at=facts.end)
                )
            yield Sign(place=lane.port, evidence=tuple(seen), weight=0.95, priority=lane.priority)


def marks_otherwise_at_the_same_depth(facts: WindowFacts) -> Iterator[Sign]:
    """Two queues have the same steady depth, and one marks a far larger share of its packets."""
    standing = [lane for lane in _egress(facts) if _stands(facts, lane)]
    for one in standing:
        for other in standing:
            if (
                one.port >= other.port
                or one.priority != other.priority
                or facts.rate(one.port) != facts.rate(other.port)
            ):
                continue
            apart = abs(one.share_marked - other.share_marked)
            chance = _SIGMAS * sqrt(
                sum(s * (1 - s) / n for s, n in ((lane.share_marked, lane.tx_packets) for lane in (one, other)))
            )
            if abs(one.depth - other.depth) < _SAME_DEPTH and apart > _APART + chance / 5 and apart > chance:
                guilty, weight = _guilty(facts, one, other)
                seen = tuple(
                    Evidence(
                        says=f"of its packets marked, at an average depth of {lane.depth / 1000:.1f} KB",
                        of=lane.port,
                        source=measures.ECN_MARKED.series(lane.priority),
                        value=round(lane.share_marked, 3),
                        at=facts.end,
                    )
                    for lane in (one, other)
                )
                for lane in guilty:
                    yield Sign(place=lane.port, evidence=seen, weight=weight, priority=lane.priority)


def _stands(facts: WindowFacts, lane: Lane) -> bool:
    """Return whether a queue has a steady depth that decides its marks, and is not paused.

    Above Kmax every packet is marked that was not marked before. There the share reflects marks of other switches.
    """
    usual = _usual(facts, lane)
    between = lane.depth > _SAME_DEPTH and (usual is None or lane.deepest <= usual.kmax)
    return between and lane.spread < _STANDING and lane.paused < _MARKS and bool(lane.marked) and not lane.not_ect


def _guilty(facts: WindowFacts, one: Lane, other: Lane) -> tuple[list[Lane], float]:
    """Return which of two queues is misconfigured, and the confidence.

    The configuration decides, or else the marking probability of the most common profile at that depth.
    """
    off = {sign.place for sign in thresholds_differ(facts)}
    known = [lane for lane in (one, other) if lane.port in off]
    if len(known) == 1:
        return known, 0.97
    usual = _usual(facts, one)
    if usual is None or not usual.enabled:
        return [one, other], 0.5
    due = [abs(lane.share_marked - usual.probability(round(lane.depth))) for lane in (one, other)]
    return ([one] if due[0] > due[1] else [other]), 0.8


def not_capable(facts: WindowFacts) -> Iterator[Sign]:
    """A queue selected packets for marking that are not ECN-capable: ECN bits 00 (RFC 3168 section 5)."""
    for lane in _egress(facts):
        if lane.not_ect > lane.tx_packets / 100:
            seen = (
                Evidence(says=f"of {lane.tx_packets} packets selected for marking, but not ECT", of=lane.port,
                         source=measures.NOT_ECT.series(lane.priority), value=lane.not_ect, at=facts.end),
                counted(facts, lane, "packets marked", measures.ECN_MARKED, lane.marked),
            )  # fmt: skip
            for place in _senders(facts, lane):
                yield Sign(
                    place=place, evidence=seen, weight=0.95 if facts.is_host(place) else 0.85, priority=lane.priority
                )


def _senders(facts: WindowFacts, lane: Lane) -> list[str]:
    """Return the NICs that send to a lane: from the known transfers, or else the senders at its switch."""
    end = facts.peer(lane.port)
    if not facts.is_host(end) or lane.marked:
        return [lane.port]
    nics = dict.fromkeys(each.src for each in facts.transfers if each.dst == facts.nic_of(end))
    ports = [port.name for nic in nics for port in facts.links_of(nic)]
    near = [
        port.peer
        for port in facts.ports_of(facts.ports[lane.port].node)
        if facts.is_host(port.peer) and facts.lane(port.name, lane.priority).rx_packets >= _ENOUGH
    ]
    return ports or near or [lane.port]
