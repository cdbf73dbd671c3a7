"""Measure how evenly ECMP used parallel links, from packets alone.

Each router decrements the TTL. So packets between two hosts with equal TTL and direction on several links passed the
same hop on parallel paths. Two links without a router in between show the same packets. Then only the link that
captured a flow first counts.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from lab.analysis.results.analysis_facts import Spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.analysis.flows.flow_sums import Flows

SPRAYED: Final = 4
"""If each link of a flow lacks more than a quarter of the packets that it has, the flow was sprayed over them."""
_OVERLAP: Final = 1.125
"""Packets of the other links for each PSN that a link lacks, at most: more are the same packets again."""
_EDGES: Final = 8
"""Further packets for each link: those before its first packet, and after its last one."""
Link = tuple[int, int]


def jain(amounts: Sequence[float]) -> float:
    """Return Jain's fairness index: the square of the sum, over n times the sum of squares; 1 if all are zero."""
    squares = sum(amount * amount for amount in amounts)
    return sum(amounts) ** 2 / (len(amounts) * squares) if squares else 1.0


def spread(flows: Flows, missing: Sequence[int], names: Sequence[str]) -> tuple[Spread, ...]:
    """Return groups of two or more parallel links, and what each carried. ``missing`` is missing PSNs by flow."""
    octets: dict[Link, int] = defaultdict(int)
    count: dict[Link, int] = defaultdict(int)
    parallel: dict[object, set[Link]] = defaultdict(set)
    again = _again(flows, missing)
    for flow in range(len(flows)):
        key = flows.key(flow)
        ttl, direction = flows.newest[flow].tolist()
        link = (key.interface, direction)
        octets[link] += int(flows.sums["octets"][flow])
        count[link] += 1
        if flow not in again:
            parallel[key.src, key.dst, ttl, direction].add(link)
    groups = _merge(links for links in parallel.values() if len(links) > 1)
    return tuple(
        Spread(
            bytes={names[link[0]]: octets[link] for link in group},
            flows={names[link[0]]: count[link] for link in group},
            jain=jain([octets[link] for link in group]),
        )
        for group in groups
    )


def _again(flows: Flows, missing: Sequence[int]) -> set[int]:
    """Return the flows whose packets another link captured earlier with the same TTL."""
    found: set[int] = set()
    for alike in flows.alike():
        first: dict[tuple[int, int], int] = {}
        for flow in sorted(alike, key=lambda flow: int(flows.seen[flow, 0])):
            ttl, direction = flows.newest[flow].tolist()
            earlier = first.setdefault((ttl, direction), flow)
            sprayed = all(SPRAYED * missing[each] > flows.sums["packets"][each] for each in (earlier, flow))
            if earlier != flow and flows.seen[flow, 0] <= flows.seen[earlier, 1] and not sprayed:
                found.add(flow)
    return found


def captured_beside(flows: Flows, missing: Sequence[int], again: Sequence[int]) -> dict[int, int]:
    """Return, by flow that was sprayed over parallel links, its missing PSNs that the other links captured.

    ``again`` is the number of packets by flow that were late or retransmitted. If the other links have clearly more
    packets than a link lacks, they have the same ones, and each captured only some of them.
    """
    found: dict[int, int] = {}
    for alike in flows.alike():
        parallel: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for flow in alike:
            if SPRAYED * missing[flow] > flows.sums["packets"][flow]:
                parallel[(flows.key(flow).vni, *flows.newest[flow].tolist())].append(flow)
        for members in parallel.values():
            packets = {flow: int(flows.sums["packets"][flow]) for flow in members}
            everywhere = sum(packets.values())
            once = everywhere - sum(again[flow] for flow in members)
            if all(once - own <= _OVERLAP * missing[flow] + _EDGES * len(members) for flow, own in packets.items()):
                found |= {
                    flow: min(missing[flow], everywhere - own) for flow, own in packets.items() if everywhere > own
                }
    return found


def _merge(sets: Iterable[set[Link]]) -> list[list[Link]]:
    """Merge sets that share a link."""
    leader: dict[Link, Link] = {}

    def find(link: Link) -> Link:
        while leader.setdefault(link, link) != link:
            leader[link] = leader[leader[link]]
            link = leader[link]
        return link

    for links in sets:
        first, *others = sorted(links)
        for other in others:
            leader[find(other)] = find(first)
    groups: dict[Link, list[Link]] = defaultdict(list)
    for link in sorted(leader):
        groups[find(link)].append(link)
    return list(groups.values())
