"""Figures of a fabric: counts, oversubscription, bisection bandwidth, diameter.

Oversubscription of a switch is the total rate of its downlinks divided by that of its uplinks (2.0 is 2:1). Bisection
bandwidth is the maximum flow from the first half of the hosts to the second. Every link carries its rate each way,
and traffic goes up, turns once and comes down, as routed. Hosts are halved in the order of the text, and an odd host
belongs to the second half. A generated fabric with an even number of pods, units or leaves is halved between them, so
that this is the classical bisection width.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from lab.model.flow import FlowNetwork
from lab.model.graph import TierGraph
from lab.model.topology import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.model.topology import Topology


@dataclass(frozen=True, slots=True)
class Tier:
    """All nodes of one role."""

    role: Role
    nodes: int
    rate_down: int
    """bit/s of all links down."""
    rate_up: int
    """bit/s of all links up."""
    oversubscription: tuple[float, float] | None
    """The lowest and the highest ratio; None if no node has links both up and down."""


@dataclass(frozen=True, slots=True)
class LinkClass:
    """Links with the same tiers, rate, MTU and delay."""

    lower: Role
    upper: Role
    rate: int
    """bit/s."""
    mtu: int
    delay: float
    """Seconds, one way."""
    links: int


@dataclass(frozen=True, slots=True)
class FabricSummary:
    """A fabric in numbers."""

    name: str
    description: str
    nodes: int
    links: int
    pods: int
    hosts: int
    rdma_nics: int
    tiers: tuple[Tier, ...]
    link_classes: tuple[LinkClass, ...]
    oversubscription: Mapping[str, float]
    """By switch: the rate of its downlinks divided by that of its uplinks."""
    bisection_bandwidth: int
    """bit/s from the first half of the hosts to the second."""
    host_bandwidth: int
    """bit/s that all hosts can send."""
    diameter: int
    """Links between the two hosts farthest apart."""


def format_ratio(ratios: tuple[float, float] | None) -> str:
    """Format a range of oversubscription as ``2:1``, ``1:4`` or ``1:1 to 2:1``; "" for None."""
    if ratios is None:
        return ""
    low, high = (f"{value:.3g}:1" if value >= 1 else f"1:{1 / value:.3g}" for value in ratios)
    return low if low == high else f"{low} to {high}"


def summarise(topology: Topology) -> FabricSummary:
    """Return the figures; ``oversubscription`` has every switch with links both up and down."""
    ratios = {
        node.name: down / up
        for node in topology.switches
        for down, up in [_rates(topology, node.name)]
        if up and down
    }
    return FabricSummary(
        name=topology.name,
        description=topology.description,
        nodes=len(topology.nodes),
        links=len(topology.links),
        pods=len({node.pod for node in topology.having(Role.LEAF)} - {0}),
        hosts=len(topology.hosts),
        rdma_nics=sum(len(topology.links_of(host.name)) for host in topology.hosts if host.rdma),
        tiers=tuple(_tier(topology, role, ratios) for role in Role if topology.having(role)),
        link_classes=_link_classes(topology),
        oversubscription=ratios,
        bisection_bandwidth=bisection_bandwidth(topology),
        host_bandwidth=sum(_rates(topology, host.name)[1] for host in topology.hosts),
        diameter=diameter(topology),
    )


def _rates(topology: Topology, name: str) -> tuple[int, int]:
    """Return the total rates of a node's links down and up."""
    tier = topology.node(name).role.tier
    down = up = 0
    for link in topology.links_of(name):
        other = link.other(link.end_at(name)).node
        if topology.node(other).role.tier < tier:
            down += link.rate
        else:
            up += link.rate
    return down, up


def _tier(topology: Topology, role: Role, ratios: Mapping[str, float]) -> Tier:
    members = topology.having(role)
    rates = [_rates(topology, node.name) for node in members]
    of_tier = [ratios[node.name] for node in members if node.name in ratios]
    return Tier(
        role=role,
        nodes=len(members),
        rate_down=sum(down for down, _ in rates),
        rate_up=sum(up for _, up in rates),
        oversubscription=(min(of_tier), max(of_tier)) if of_tier else None,
    )


def _link_classes(topology: Topology) -> tuple[LinkClass, ...]:
    counts: Counter[tuple[Role, Role, int, int, float]] = Counter()
    for link in topology.links:
        lower, upper = (topology.node(end.node).role for end in topology.lower_first(link))
        counts[lower, upper, link.rate, link.mtu, link.delay] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[0][1].tier, -item[0][2], item[0]))
    return tuple(LinkClass(*kind, count) for kind, count in ordered)


def bisection_bandwidth(topology: Topology) -> int:
    """Return the bit/s from the first half of the hosts to the second; 0 with fewer than two hosts."""
    hosts = [host.name for host in topology.hosts]
    first = set(hosts[: len(hosts) // 2])
    network: FlowNetwork[tuple[str, str]] = FlowNetwork()
    for link in topology.links:
        low, high = (end.node for end in topology.lower_first(link))
        network.add((low, "up"), (high, "up"), link.rate)
        network.add((high, "down"), (low, "down"), link.rate)
    everything = sum(link.rate for link in topology.links) + 1
    for switch in topology.switches:
        network.add((switch.name, "up"), (switch.name, "down"), everything)
    source, sink = ("", "source"), ("", "sink")
    for host in hosts:
        if host in first:
            network.add(source, (host, "up"), everything)
        else:
            network.add((host, "down"), sink, everything)
    return network.consume_maximum(source, sink)


def diameter(topology: Topology) -> int:
    """Return the links between the two hosts farthest apart, on shortest paths; 0 with fewer than two hosts."""
    graph = TierGraph(topology)
    below = {host.name: 1 << number for number, host in enumerate(topology.hosts)}
    everyone = (1 << len(below)) - 1
    for role in (Role.LEAF, Role.SPINE, Role.SUPERSPINE):
        for node in topology.having(role):
            below[node.name] = reduce(or_, (below[name] for name in graph.below[node.name]), 0)
    farthest = 0
    for host in topology.hosts:
        climbed, reached, height = {host.name}, below[host.name], 0
        while reached != everyone and climbed:
            climbed = {name for low in climbed for name in graph.above[low]}
            reached |= reduce(or_, (below[name] for name in climbed), 0)
            height += 1
        farthest = max(farthest, height)
    return 2 * farthest
