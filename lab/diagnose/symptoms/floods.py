"""Symptoms of flooding: packets that leave a leaf more often than they entered it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.networks import share_a_network
from lab.diagnose.symptom import Evidence, Sign, counted
from lab.telemetry.read import measures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import Lane, WindowFacts

_TIMES: Final = 1.5
"""Ratio of packets sent to packets received. A packet that is not flooded leaves by one uplink only."""
_MANY: Final = 100
"""Packets per second. ARP and routing protocols send fewer."""

_HEARD: Final = 0.2
"""Share of one host's packets that each other host receives, if the uplinks cannot carry all copies."""


def more_leaves_than_came(facts: WindowFacts) -> Iterator[Sign]:
    """A leaf's uplinks are offered far more packets of a priority than its hosts send.

    The sign names the host whose packets all others of its network receive.
    """
    for uplinks, downlinks, loudest in _flooding(facts):
        came, left = sum(lane.rx_packets for lane in downlinks), sum(map(_offered, uplinks))
        most = max(uplinks, key=_offered)
        seen = (
            Evidence(
                says="packets received from its host",
                of=loudest.port,
                source=measures.RX_PACKETS.series(loudest.priority),
                value=loudest.rx_packets,
                at=facts.end,
            ),
            counted(facts, most, "packets queued for this uplink", measures.OFFERED_PACKETS, _offered(most)),
            Evidence(
                says=f"copies of each of {came} packets received",
                of=most.port.partition(":")[0],
                source=measures.OFFERED_PACKETS.series(most.priority),
                value=round(left / came, 2),
                at=facts.end,
            ),
        )
        yield Sign(place=facts.peer(loudest.port), evidence=seen, weight=0.9, priority=loudest.priority)


def an_uplink_drops(facts: WindowFacts) -> Iterator[Sign]:
    """An uplink of a flooding leaf drops packets of that priority. The sign names the flooding host."""
    for uplinks, _, loudest in _flooding(facts):
        for lane in uplinks:
            if lane.dropped:
                seen = counted(facts, lane, "packets dropped", measures.DROPPED, lane.dropped)
                yield Sign(facts.peer(loudest.port), (seen,))


def _flooding(facts: WindowFacts) -> Iterator[tuple[list[Lane], list[Lane], Lane]]:
    """Yield uplinks, downlinks and the flooding host's lane, for leaves with tunnels that flood a priority."""
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
    """Return whether a host shares its network with several others, and each receives a good part of its packets."""
    mine = facts.ports.get(facts.peer(lane.port))
    others = [
        facts.lane(port.name, lane.priority).rx_packets
        for port in facts.ports.values()
        if port.host and port.peer and mine is not None and share_a_network(facts, port, mine)
    ]  # fmt: skip
    return len(others) > 1 and lane.rx_packets > 0 and min(others) > _HEARD * lane.rx_packets


def _offered(lane: Lane) -> int:
    return max(lane.offered, lane.tx_packets)
