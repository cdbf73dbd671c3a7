"""The routes that a converged underlay must have, computed from the topology alone.

With eBGP and one AS number per hop the AS path length is the hop count, so a switch uses every first link of every
shortest path of switches (RFC 7938 section 6.1). With OSPF and IS-IS the cost of a path is its hops
too: links cost the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from lab.kernel.netlink.routes import routes
from lab.model.graph import TierGraph
from lab.model.topology import Underlay
from lab.routing.frr_config.render import advertised
from lab.routing.paths.distance import distances, switch_links
from lab.routing.show import sessions
from lab.routing.wait.evpn_expectations import expected_overlay
from lab.routing.wait.unconverged import compare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.model.addressing import NodePlan
    from lab.model.topology import Topology
    from lab.routing.daemons import Router
    from lab.routing.wait.unconverged import RouteExpectation, RouteGap

PROTOCOLS: Final = {Underlay.EBGP: "bgp", Underlay.OSPF: "ospf", Underlay.ISIS: "isis"}
"""By which underlay routes come, as iproute2 calls it."""
Routes: TypeAlias = "dict[str, frozenset[str]]"
"""Interfaces of the next hops, by prefix."""


@dataclass(frozen=True)
class UnderlayRoutes:
    """Every prefix of every other leaf, by all shortest paths that it is told of."""

    routes: Routes
    protocol: str = "bgp"
    """By which they came, as iproute2 calls it."""

    def gaps(self, router: Router) -> list[RouteGap]:
        """Where the kernel's table differs."""
        return compare(router.name, self.routes, routes(router.namespace, self.protocol))


@dataclass(frozen=True)
class Speakers:
    """A BGP session between loopbacks with each neighbouring switch: a table is whole when one of several is up."""

    peers: frozenset[str]

    def gaps(self, router: Router) -> list[RouteGap]:
        """Which of them are not Established (RFC 4271 section 8.2.2)."""
        up = frozenset(each.description for each in sessions(router) if each.established)
        return compare(router.name, {"EVPN": self.peers}, {"EVPN": self.peers & up}, "session with")


def expectations(topology: Topology, plan: Mapping[str, NodePlan]) -> dict[str, list[RouteExpectation]]:
    """All that every switch of a converged fabric must have, the underlay first."""
    overlay = expected_overlay(topology, plan)
    protocol = PROTOCOLS[topology.routing.underlay]
    underlay = expected_routes(topology, plan)
    found: dict[str, list[RouteExpectation]] = {
        switch: [UnderlayRoutes(wanted, protocol), *overlay.get(switch, ())] for switch, wanted in underlay.items()
    }
    if topology.overlay is not None and topology.overlay.design.of_loopbacks:
        for switch, wanted in found.items():
            wanted.append(Speakers(frozenset(neighbour for _, neighbour in switch_links(topology, switch))))
    return found


def expected_routes(topology: Topology, plan: Mapping[str, NodePlan]) -> dict[str, Routes]:
    """For every switch: each other leaf's prefixes, by all its shortest paths.

    Those above leaves count, too: a session that a super-spine and a spine lack costs no leaf a path.
    """
    graph = TierGraph(topology)
    heard = _heard(topology, graph)
    expected: dict[str, Routes] = {switch: {} for switch in heard}
    for target, bit in graph.leaf_bits.items():
        distance = distances(topology, target)
        prefixes = [str(prefix) for prefix in advertised(plan[target])]
        for switch, links in heard.items():
            if switch != target:
                near = distance.get(switch, 0) - 1
                hops = (each for each, nbr, told in links if told & bit and distance.get(nbr) == near)
                expected[switch].update(dict.fromkeys(prefixes, frozenset(hops)))
    return expected


def _heard(topology: Topology, graph: TierGraph) -> dict[str, list[tuple[str, str, int]]]:
    """By switch: the interface and the neighbour of each link, and the leaves, a bit each, that it tells of."""
    everyone = sum(graph.leaf_bits.values())
    is_igp = topology.routing.underlay.is_igp
    return {
        switch.name: [
            (interface, neighbour, everyone if is_igp else graph.told(neighbour, switch.name))
            for interface, neighbour in switch_links(topology, switch.name)
        ]
        for switch in topology.switches
    }
