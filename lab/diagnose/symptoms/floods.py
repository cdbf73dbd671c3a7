"""What is flooded: packets that leave a leaf more often than they came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.networks import share_a_network
from lab.diagnose.symptom import Evidence, Sign, counted
from lab.telemetry.read import measures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import Lane, WindowFacts

_TIMES: Final = 1.5
"""What is not flooded leaves by one uplink: packets that come once and leave so often are copies."""
_MANY: Final = 100
"""Packets a second; ARP, and what routers say themselves, are fewer."""

_HEARD: Final = 0.2
"""Share of what one sends that each of the others gets, where uplinks have no room for all of it."""


def more_leaves_than_came(facts: WindowFacts) -> Iterator[Sign]:
    """A leaf's uplinks are offered far more packets of a priority than its hosts send; told is whom all hear."""
    for uplinks, downlinks, loudest in _flooding(facts):
        came, left = sum(lane.rx_packets for lane in downlinks), sum(map(_offered, uplinks))
        most = max(uplinks, key=_offered)
        seen = (
            Evidence("packets came from its host", loudest.port, measures.RX_PACKETS.series(loudest.priority),
                     loudest.rx_packets, facts.end),
            counted(facts, most, "packets were given to this uplink", measures.OFFERED_PACKETS, _offered(most)),
            Evidence(f"copies of each that came, of {came} in all", most.port.partition(":")[0],
                     measures.OFFERED_PACKETS.series(most.priority), round(left / came, 2), facts.end),
        )  # fmt: skip
        yield Sign(facts.peer(loudest.port), seen, 0.9, loudest.priority)


def an_uplink_drops(facts: WindowFacts) -> Iterator[Sign]:
    """An uplink of such a leaf drops of that priority: it has no room for all copies; told is the host as above."""
    for uplinks, _, loudest in _flooding(facts):
        for lane in uplinks:
            if lane.dropped:
                seen = counted(facts, lane, "packets dropped", measures.DROPPED, lane.dropped)
                yield Sign(facts.peer(loudest.port), (seen,))


def _flooding(facts: WindowFacts) -> Iterator[tuple[list[Lane], list[Lane], Lane]]:
    """Of leaves with tunnels, lanes of a priority to switches and to hosts, where more leave than came; and whose."""
    for leaf in (name for name, node in facts.forwarding.items() if node.tunnels):
        ports = [port for port in facts.ports_of(leaf) if port.peer]
        for priority in range(8):
            up = [facts.lane(port.name, priority) for port in ports if not facts.is_host(port.peer)]
            down = [facts.lane(port.name, priority) for port in ports if facts.is_host(port.peer)]
            came = sum(lane.rx_packets for lane in down)
            if came > _MANY * facts.seconds and sum(map(_offered, up)) > _TIMES * came:
                heard = [lane for lane in down if _is_heard_by_all(facts, lane)]
                if heard:
                    yield up, down, max(heard, key=lambda lane: lane.rx_packets)


def _is_heard_by_all(facts: WindowFacts, lane: Lane) -> bool:
    """Whether several others are in the network of a port's host, and each gets a good part of what it sends."""
    mine = facts.ports.get(facts.peer(lane.port))
    others = [
        facts.lane(port.name, lane.priority).rx_packets
        for port in facts.ports.values()
        if port.host and port.peer and mine is not None and share_a_network(facts, port, mine)
    ]  # fmt: skip
    return len(others) > 1 and lane.rx_packets > 0 and min(others) > _HEARD * lane.rx_packets


def _offered(lane: Lane) -> int:
    return max(lane.offered, lane.tx_packets)
