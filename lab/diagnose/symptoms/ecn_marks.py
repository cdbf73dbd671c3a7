"""What ECN marks tell: of a queue's depth, of its thresholds, and of the packets in it."""

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
"""Packets that a queue has sent before its share of marks means anything."""
_DEEP: Final = 1.25
"""Times Kmin that waits on average in a queue that has to mark."""
_LOW: Final = 0.8
"""Times Kmin that waits at most in a queue that has nothing to mark."""
_MOST: Final = 0.5
"""Of a queue's packets: where Kmin has so many marked, half of the samples are above it."""
_SAME_DEPTH: Final = 3_500
"""Bytes: less than a packet of 4 KB."""
_STANDING: Final = 12_500
"""Bytes by which the depth of a queue differs, four times in five, that stands still: three packets of 4 KB."""
_APART: Final = 0.12
"""By which shares of marks differ that one profile does not explain: a packet more at one of two queues is 7%."""
_MARKS: Final = 0.02
"""Share of its packets that a queue marks that has reason to."""
_SIGMAS: Final = 5


def _egress(facts: WindowFacts) -> Iterator[Lane]:
    """Lanes of switches that are lossless and have sent enough."""
    for lane in facts.lanes.values():
        if not facts.is_host(lane.port) and lane.priority in facts.lossless(lane.port) and lane.tx_packets >= _ENOUGH:
            yield lane


def _usual(facts: WindowFacts, lane: Lane) -> EcnQos | None:
    """What most switch ports do with the class of a lane, by their own configuration."""
    profiles = Counter(
        qos.ports[interface].queues[lane.priority].ecn
        for node, qos in facts.qos.items() if node in facts.switches
        for interface in qos.ports
    )  # fmt: skip
    return profiles.most_common(1)[0][0] if profiles else None


def _own(facts: WindowFacts, lane: Lane) -> EcnQos | None:
    """What the port itself does, where its configuration is of the window."""
    config = facts.config(lane.port) if facts.current else None
    return config.queues[lane.priority].ecn if config else None


def deep_and_unmarked(facts: WindowFacts) -> Iterator[Sign]:
    """A queue is so deep that its siblings mark, packets in it could be marked, and none is."""
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
            counted(facts, lane, "bytes waited on average", measures.QUEUE_BYTES, round(lane.depth)),
            counted(facts, lane, f"packets marked of {lane.tx_packets}", measures.ECN_MARKED, 0),
            *_sibling_marks(facts, lane),
            *_pausing(facts, lane),
        ]
        yield Sign(lane.port, tuple(seen), 0.9, lane.priority)


def _marked_before(facts: WindowFacts, lane: Lane) -> bool:
    """Whether what comes there was marked by the switches before, and no host sends any that was not."""
    before = [facts.lane(facts.peer(port.name), lane.priority) for port in facts.ports_of(facts.ports[lane.port].node)
              if facts.lane(port.name, lane.priority).rx_packets >= _ENOUGH]  # fmt: skip
    sending = [each for each in before if each.tx_bytes > lane.tx_bytes / 10]
    return any(each.marked for each in sending) and not any(facts.is_host(each.port) for each in sending)


def _sibling_marks(facts: WindowFacts, lane: Lane) -> tuple[Evidence, ...]:
    """A queue elsewhere that is no deeper and marks."""
    node = lane.port.partition(":")[0]
    for other in _egress(facts):
        elsewhere = other.port.partition(":")[0] != node and other.priority == lane.priority
        if elsewhere and other.share_marked > _MARKS and other.depth <= lane.depth * _DEEP:
            says = f"packets marked by a sibling, {other.depth / 1000:.0f} KB deep on average"
            return (counted(facts, other, says, measures.ECN_MARKED, other.marked),)
    return ()


def _pausing(facts: WindowFacts, lane: Lane) -> Iterator[Evidence]:
    """Pauses that its node sends meanwhile."""
    node = facts.ports[lane.port].node
    for port in facts.ports_of(node):
        if count := facts.lane(port.name, lane.priority).pauses_out:
            yield Evidence(
                "pauses sent meanwhile", port.name, measures.XOFF_TX.series(lane.priority), count, facts.end
            )
            return


def no_profile_bound(facts: WindowFacts) -> Iterator[Sign]:
    """ECN is off for a lossless class at a port, by its own configuration, and on at most others."""
    for port, lane in _configured(facts):
        usual, own = _usual(facts, lane), _own(facts, lane)
        if usual and own and usual.enabled and not own.enabled:
            yield Sign(
                port,
                (Evidence("has no ECN profile; others have", port, "qos ecn.enabled", 0, facts.end),),
                0.75,
                lane.priority,
            )


def kmin_beyond_reach(facts: WindowFacts) -> Iterator[Sign]:
    """Kmin lies above all that a group may hold before it pauses (Kmin < Kmax < XOFF), by its configuration."""
    for port, lane in _configured(facts):
        own = _own(facts, lane)
        node = facts.qos.get(port.partition(":")[0])
        if own is None or node is None or not own.enabled:
            continue
        config = node.ports[port.partition(":")[2]]
        xoff = config.groups[config.priority_to_group[lane.priority]].alone(node.shared)
        if own.kmin > xoff:
            seen = Evidence(f"is Kmin, and XOFF is {xoff} at most", port, "qos ecn.kmin", own.kmin, facts.end)
            yield Sign(port, (seen,), 0.8, lane.priority)


def thresholds_differ(facts: WindowFacts) -> Iterator[Sign]:
    """A port's Kmin or Kmax is a little off that of all its siblings, by its own configuration."""
    for port, lane in _configured(facts):
        own = _own(facts, lane)
        siblings = [
            each for other, each_lane in _configured(facts)
            if other != port and facts.rate(other) == facts.rate(port) and (each := _own(facts, each_lane))
        ]  # fmt: skip
        if own is None or not own.enabled or own in siblings or not siblings:
            continue
        near = [each for each in siblings if each.enabled and abs(each.kmin - own.kmin) < 0.4 * each.kmin]
        usual = _usual(facts, lane)
        if near and usual and own.kmin != usual.kmin and near[0].kmin != own.kmin:
            says = f"is Kmin, where siblings have {near[0].kmin}"
            yield Sign(port, (Evidence(says, port, "qos ecn.kmin", own.kmin, facts.end),), 0.7, lane.priority)


def _configured(facts: WindowFacts) -> Iterator[tuple[str, Lane]]:
    """Every switch port whose configuration is known, with each of its lossless classes."""
    for name, port in facts.ports.items():
        if not port.host and facts.current and facts.config(name):
            for priority in facts.lossless(name):
                yield name, facts.lane(name, priority)


def marks_though_shallow(facts: WindowFacts) -> Iterator[Sign]:
    """A queue marks much of what it sends, never near the Kmin of its siblings; or most, and never above that."""
    for lane in _egress(facts):
        usual = _usual(facts, lane)
        near = 1.0 if lane.share_marked > _MOST else _LOW
        if usual and usual.enabled and lane.share_marked > 0.1 and lane.deepest < near * usual.kmin:
            seen = [
                counted(facts, lane, f"packets marked of {lane.tx_packets}", measures.ECN_MARKED, lane.marked),
                counted(
                    facts,
                    lane,
                    f"bytes waited at most; siblings mark above {usual.kmin}",
                    measures.QUEUE_BYTES,
                    lane.deepest,
                ),
            ]
            if (own := _own(facts, lane)) and own.kmin < usual.kmin:
                seen.append(Evidence("is its Kmin", lane.port, "qos ecn.kmin", own.kmin, facts.end))
            yield Sign(lane.port, tuple(seen), 0.95, lane.priority)


def marks_otherwise_at_the_same_depth(facts: WindowFacts) -> Iterator[Sign]:
    """Two queues stand at the same depth, and one marks far more of what it sends than the other."""
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
                    Evidence(f"of its packets marked, at {lane.depth / 1000:.1f} KB on average", lane.port,
                             measures.ECN_MARKED.series(lane.priority), round(lane.share_marked, 3), facts.end)
                    for lane in (one, other)
                )  # fmt: skip
                for lane in guilty:
                    yield Sign(lane.port, seen, weight, lane.priority)


def _stands(facts: WindowFacts, lane: Lane) -> bool:
    """Whether a queue stands still where its depth decides what is marked, and nobody pauses it.

    Above Kmax everything is marked that was not before: there the share tells what other switches have marked.
    """
    usual = _usual(facts, lane)
    between = lane.depth > _SAME_DEPTH and (usual is None or lane.deepest <= usual.kmax)
    return between and lane.spread < _STANDING and lane.paused < _MARKS and bool(lane.marked) and not lane.not_ect


def _guilty(facts: WindowFacts, one: Lane, other: Lane) -> tuple[list[Lane], float]:
    """Which of two queues is off, and how sure that is: by configuration, or by what most mark at such a depth."""
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
    """A queue chose packets to mark that are not ECN-capable: ECN bits 00 (RFC 3168, section 5)."""
    for lane in _egress(facts):
        if lane.not_ect > lane.tx_packets / 100:
            seen = (
                Evidence(f"packets were to be marked of {lane.tx_packets}, and are not ECT", lane.port,
                         measures.NOT_ECT.series(lane.priority), lane.not_ect, facts.end),
                counted(facts, lane, "packets marked", measures.ECN_MARKED, lane.marked),
            )  # fmt: skip
            for place in _senders(facts, lane):
                yield Sign(place, seen, 0.95 if facts.is_host(place) else 0.85, lane.priority)


def _senders(facts: WindowFacts, lane: Lane) -> list[str]:
    """NICs whose packets wait there: by the transfers that are known, or else those at its switch that send."""
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
