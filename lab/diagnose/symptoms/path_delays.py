"""Symptoms from the delays of sweeps: paths that are slower than others of as many hops, and NICs with a slow link.

The delay that the configuration of a port gives its link is subtracted, and the time of a packet at its rate.
A link that is longer or has a lower rate by design is not slow.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.diagnose.conservation.late_links import late_link
from lab.diagnose.conservation.locations import is_resent, overtaken_acks
from lab.diagnose.symptom import Evidence, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.diagnose.conservation.hop_balance import HopBalance
    from lab.diagnose.facts import Swept, SweptPair, WindowFacts

Path = tuple[str, ...]
"""The egress ports of a path."""

_TIMES: Final = 2.0
_MORE: Final = 150e-6
"""A slow path has this many times the delay of its fastest sibling, and so many seconds more.

A path's delay is the least of a hundred packets: a busy machine does not add that much to all of them.
"""
_QUEUES: Final = 2.0
"""Queues explain a delay of at most so many times that of their mean depth: a standing one delays all packets."""
_OTHERS: Final = 2
"""The fewest other NICs to compare with."""
_SMALL_BITS: Final = 8 * (96 + 38)
"""A small packet of a sweep, with Ethernet's header, checksum, preamble and gap (IEEE 802.3 section 4.2.3)."""
_CERTAIN: Final = 0.9
_US: Final = 1e6
_HELD_SURE: Final = 0.7
"""The place is certain. The count is that of all packets, so that the delay of a few is not known."""
_NO_DEVICES: Final = 0.6
"""The same, if packets may be overtaken on the link, and no RDMA device would report that."""
_OVERTAKEN: Final = 0.35
"""Acknowledgements stay: they are late, or overtake each other. No port counts these."""
_ACKNOWLEDGEMENT: Final = 150
"""Bytes. The packets of a link without data are smaller on average: an acknowledgement has 62, and 112 in VXLAN."""


@dataclass(frozen=True, slots=True)
class _Slow:
    """A slow path, and the delay of its fastest sibling in seconds."""

    swept: Swept
    best: float


def a_path_is_slow(facts: WindowFacts) -> Iterator[Sign]:
    """Some paths of a sweep are slower than their siblings. Signs name what is common to slow paths.

    That is a link, or else a switch. Links in a direction that a fast path uses are ruled out. The place that most of
    the slow paths use is named first, then that of the rest. If several places fit the same paths, each is named,
    with less certainty.
    """
    slow, fast = _divided(facts)
    while slow:
        places, explained = _common(facts, slow, fast)
        if not places:
            return
        lines = tuple(_line(each) for each in slow if each.swept.path in explained)[:2]
        for place in places:
            yield Sign(place, lines, _CERTAIN / len(places))
        slow = [each for each in slow if each.swept.path not in explained]


def a_nic_has_a_slow_link(facts: WindowFacts) -> Iterator[Sign]:
    """All that a NIC sends, or all that it receives, takes longer than the same of most NICs.

    A pair's path between leaves is not known. So the fastest pair of a NIC counts, in each direction: it is slow by
    what all of its pairs have in common.
    """
    for sends in (True, False):
        best = _fastest_of_nics(facts, sends=sends)
        for nic, found in best.items():
            slow = []
            port = _first_link(facts, nic)
            queues = _QUEUES * _queueing(facts, (port, facts.peer(port)))
            for hops, (beyond, delay, pair) in found.items():
                others = [other[hops][:2] for name, other in best.items() if name != nic and hops in other]
                if len(others) < _OTHERS:
                    continue
                least, usual = (statistics.median(each[field] for each in others) for field in (0, 1))
                late = _is_slow(delay, usual, queues) and _is_slow(beyond, least, queues)
                slow.append((late, usual, pair))
            if slow and all(each[0] for each in slow):
                link = f"{port}--{facts.peer(port)}" if sends else f"{facts.peer(port)}--{port}"
                yield Sign(link, tuple(_line_of_pair(pair, usual) for _, usual, pair in slow), _CERTAIN)


def _fastest_of_nics(facts: WindowFacts, *, sends: bool) -> dict[str, dict[int, tuple[float, float, SweptPair]]]:
    """Return the least delay of each NIC, by the number of leaves: beyond that by design, in all, and its pair."""
    found: dict[str, dict[int, tuple[float, float, SweptPair]]] = {}
    for pair in facts.swept_pairs:
        ends = [_first_link(facts, nic) for nic in (pair.src, pair.dst)]
        if pair.delay is None or not all(ends):
            continue
        leaves = [facts.peer(end).partition(":")[0] for end in ends]
        hops = len(set(leaves))
        delay = pair.delay - sum(_designed(facts, end) for end in ends)
        if hops > 1:
            delay -= sum(_nearest_uplink(facts, leaf) for leaf in leaves)
        mine = found.setdefault(pair.src if sends else pair.dst, {})
        beyond, fastest, best = mine.get(hops, (delay, pair.delay, pair))
        mine[hops] = (
            max(0.0, min(beyond, delay)),
            min(fastest, pair.delay),
            pair if pair.delay < fastest else best,
        )
    return found


def _first_link(facts: WindowFacts, nic: str) -> str:
    """Return a NIC's cabled port; "" if it has none, or several."""
    links = facts.links_of(nic)
    return links[0].name if len(links) == 1 else ""


def _designed(facts: WindowFacts, port: str) -> float:
    """Return the seconds that a small packet takes on a port's link by configuration: the delay, and its rate."""
    config = facts.config(port)
    rate = facts.rate(port)
    return (config.delay if config else 0.0) + (_SMALL_BITS / rate if rate else 0.0)


def _nearest_uplink(facts: WindowFacts, leaf: str) -> float:
    ups = [port.name for port in facts.ports_of(leaf) if port.peer and not facts.is_host(port.peer)]
    return min((_designed(facts, port) for port in ups), default=0.0)


def slow_paths(facts: WindowFacts) -> Iterator[Sign]:
    """Some paths of a sweep are slower than their siblings, at whatever place."""
    slow, _ = _divided(facts)
    if slow:
        yield Sign("", tuple(map(_line, slow)))


def packets_stay_on_a_link(facts: WindowFacts) -> Iterator[Sign]:
    """Packets stay on a link longer than its load and length explain, and longer than on any other link.

    Without the configuration of its port, the length of a link is not known. Acknowledgements may overtake each
    other, because no RDMA device reports that. Ports do, except in recordings of earlier versions.
    """
    for hop, seen in _staying(facts):
        certain = bool(facts.devices) and not _may_be_overtaken(facts, hop)
        yield Sign(hop.place, (seen,), _HELD_SURE if certain else _NO_DEVICES)


def acknowledgements_stay_on_a_link(facts: WindowFacts) -> Iterator[Sign]:
    """The packets that stay on a link are acknowledgements: each may wait until others have overtaken it."""
    for hop, seen in _staying(facts):
        if _may_be_overtaken(facts, hop):
            yield Sign(hop.place, (seen,), _OVERTAKEN)


def _staying(facts: WindowFacts) -> Iterator[tuple[HopBalance, Evidence]]:
    late = None if is_resent(facts) else late_link(facts)
    if late is None or late.seconds < _MORE or late.hop.missing > late.hop.slack:
        return
    hop, sender = late.hop, late.hop.place.partition("--")[0]
    if facts.config(sender) is None or any(each.place == hop.place for each in overtaken_acks(facts)):
        return
    load = facts.port_load(sender)
    says = f"{hop.held:.2f} packets on the link at a load of {load:.0%}, so that each takes at least so many us more"
    seen = Evidence(says=says, of=hop.place, source=hop.kind.value, value=round(late.seconds * _US), at=facts.end)
    yield hop, seen


def _may_be_overtaken(facts: WindowFacts, hop: HopBalance) -> bool:
    """Return whether a link carries acknowledgements only, and its receiver does not count those out of order."""
    sender, _, receiver = hop.place.partition("--")
    if facts.ports[receiver].overtaken_acks_rx is not None:
        return False
    lanes = facts.by_port.get(sender, ())
    packets = sum(lane.tx_packets for lane in lanes)
    return 0 < sum(lane.tx_bytes for lane in lanes) < _ACKNOWLEDGEMENT * packets


def _divided(facts: WindowFacts) -> tuple[list[_Slow], list[Swept]]:
    """Return the slow paths, and the fast ones. Those that their queues may slow down are neither."""
    timed = [(each, each.delay, _beyond_design(facts, each)) for each in facts.swept if each.delay is not None]
    fastest: dict[int, float] = {}
    nearest: dict[int, float] = {}
    for each, delay, beyond in timed:
        hops = len(each.path)
        fastest[hops] = min(delay, fastest.get(hops, delay))
        nearest[hops] = min(beyond, nearest.get(hops, beyond))
    slow: list[_Slow] = []
    fast: list[Swept] = []
    for each, delay, beyond in timed:
        best, least = fastest[len(each.path)], nearest[len(each.path)]
        queues = _QUEUES * _queueing(facts, each.path)
        if not (_is_slow(delay, best, 0.0) and _is_slow(beyond, least, 0.0)):
            fast.append(each)
        elif _is_slow(delay, best, queues) and _is_slow(beyond, least, queues):
            slow.append(_Slow(each, best))
    return slow, fast


def _is_slow(delay: float, best: float, queues: float) -> bool:
    return delay > max(best * _TIMES, best + _MORE) + queues


def _beyond_design(facts: WindowFacts, swept: Swept) -> float:
    """Return a path's delay without that of its links by design, in seconds; 0.0 if it is faster than designed."""
    return max(0.0, (swept.delay or 0.0) - sum(_designed(facts, port) for port in swept.path))


def _queueing(facts: WindowFacts, ports: Sequence[str]) -> float:
    """Return the time that the queues of a path take to drain at their mean depth, in seconds."""
    return sum(
        lane.depth * 8 / rate for port in ports if (rate := facts.rate(port)) for lane in facts.by_port.get(port, ())
    )


def _common(facts: WindowFacts, slow: Sequence[_Slow], fast: Sequence[Swept]) -> tuple[list[str], frozenset[Path]]:
    """Return the places that most slow paths and no fast path use, and these paths. Links come before switches."""
    sound = {port for each in fast for port in each.path}
    passing = {node for each in fast for node in _switches(each.path)}
    names: dict[frozenset[str], str] = {}
    using: dict[str, set[Path]] = {}
    for path in (each.swept.path for each in slow):
        for port in path:
            if port not in sound:
                link = frozenset({port, facts.peer(port)})  # its direction does not matter
                using.setdefault(names.setdefault(link, f"{port}--{facts.peer(port)}"), set()).add(path)
    for path in (each.swept.path for each in slow):
        for node in _switches(path):
            if node not in passing:
                using.setdefault(node, set()).add(path)
    if not using:
        return [], frozenset()
    best = max(using, key=lambda place: len(using[place]))  # of equal ones the first: a link
    alike = [place for place in using if using[place] == using[best] and ("--" in place) is ("--" in best)]
    return alike, frozenset(using[best])


def _switches(path: Path) -> tuple[str, ...]:
    return tuple(port.partition(":")[0] for port in path[1:])


def _line(slow: _Slow) -> Evidence:
    swept = slow.swept
    says = f"us at least, and {slow.best * _US:.0f} us on the fastest path of as many hops: {' '.join(swept.path)}"
    return Evidence(
        says=says, of=swept.path[0], source="sweep", value=round((swept.delay or 0.0) * _US), at=swept.seconds
    )


def _line_of_pair(pair: SweptPair, usual: float) -> Evidence:
    says = f"us at least to {pair.dst}; the fastest pairs of most NICs take {usual * _US:.0f} us"
    return Evidence(says=says, of=pair.src, source="sweep", value=round((pair.delay or 0.0) * _US), at=pair.seconds)
