"""Routes of a converged underlay, computed from the topology alone.

With eBGP and one AS number per hop, the AS path length is the hop count. So a switch uses the first links of all
shortest paths (RFC 7938 section 6.1). With OSPF and IS-IS all links cost the same, so the cost is the hop count, too.
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
"""The routing protocol of an underlay, as iproute2 names it."""
Routes: TypeAlias = "dict[str, frozenset[str]]"
"""Interfaces of the next hops, by prefix."""


@dataclass(frozen=True)
class UnderlayRoutes:
    """Routes to every prefix of every other leaf, by all shortest paths that its neighbours advertise."""

    routes: Routes
    protocol: str = "bgp"
    """The routing protocol, as iproute2 names it."""

    def gaps(self, router: Router) -> list[RouteGap]:
        """Return the differences of the kernel's routing table."""
        return compare(router.name, self.routes, routes(router.namespace, self.protocol))


@dataclass(frozen=True)
class Speakers:
    """A BGP session between loopbacks is up with each neighbouring switch.

    Routes do not show this: a table is complete with one of several sessions.
    """

    peers: frozenset[str]

    def gaps(self, router: Router) -> list[RouteGap]:
        """Return the peers whose sessions are not Established (RFC 4271 section 8.2.2)."""
        up = frozenset(each.description for each in sessions(router) if each.established)
        return compare(router.name, {"EVPN": self.peers}, {"EVPN": self.peers & up}, "session with")


def expectations(topology: Topology, plan: Mapping[str, NodePlan]) -> dict[str, list[RouteExpectation]]:
    """Return all expectations of every switch of a converged fabric, the underlay first."""
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
    """Return the prefixes of all other leaves for every switch, by all its shortest paths.

    Switches above the leaves are included: a missing session between super-spine and spine costs no leaf a path.
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
    """Return interface, neighbour and advertised leaves (one bit each) of each link, by switch."""
    everyone = sum(graph.leaf_bits.values())
    is_igp = topology.routing.underlay.is_igp
    return {
        switch.name: [
            (interface, neighbour, everyone if is_igp else graph.told(neighbour, switch.name))
            for interface, neighbour in switch_links(topology, switch.name)
        ]
        for switch in topology.switches
    }
