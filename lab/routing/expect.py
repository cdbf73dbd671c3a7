"""The routes that a converged underlay must have, computed from the topology alone.

With eBGP and one AS number per hop the AS path length is the hop count, so a switch uses every first link of every
shortest path of switches (RFC 7938 section 6.1). With OSPF the cost of a path is its hops too: links cost the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lab.kernel.routes import routes
from lab.model.topology import Role
from lab.routing.distance import distances, switch_links
from lab.routing.expect_evpn import expected_overlay
from lab.routing.gap import compare
from lab.routing.render import advertised
from lab.routing.render_ospf import by_ospf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.kernel.netns import Namespace
    from lab.model.addressing import NodePlan
    from lab.model.topology import Topology
    from lab.routing.gap import Expectation, Gap

Routes: TypeAlias = "dict[str, frozenset[str]]"
"""Interfaces of the next hops, by prefix."""


@dataclass(frozen=True)
class Underlay:
    """Every prefix of every other leaf, by all shortest paths."""

    routes: Routes
    protocol: str = "bgp"
    """By which they came, as iproute2 calls it."""

    def gaps(self, leaf: str, namespace: Namespace) -> list[Gap]:
        """Where the kernel's table differs."""
        return compare(leaf, self.routes, routes(namespace, self.protocol))


def expectations(topology: Topology, plan: Mapping[str, NodePlan]) -> dict[str, list[Expectation]]:
    """All that every leaf of a converged fabric must have, the underlay first."""
    overlay = expected_overlay(topology, plan)
    protocol = "ospf" if by_ospf(topology) else "bgp"
    underlay = expected_routes(topology, plan)
    return {leaf: [Underlay(wanted, protocol), *overlay.get(leaf, ())] for leaf, wanted in underlay.items()}


def expected_routes(topology: Topology, plan: Mapping[str, NodePlan]) -> dict[str, Routes]:
    """For every leaf: each other leaf's prefixes, by all its shortest paths."""
    leaves = [node.name for node in topology.having(Role.LEAF)]
    expected: dict[str, Routes] = {leaf: {} for leaf in leaves}
    for target in leaves:
        distance = distances(topology, target)
        prefixes = [str(prefix) for prefix in advertised(plan[target])]
        for leaf in leaves:
            if leaf != target:
                hops = _first_hops(topology, leaf, distance)
                expected[leaf].update(dict.fromkeys(prefixes, hops))
    return expected


def _first_hops(topology: Topology, leaf: str, distance: Mapping[str, int]) -> frozenset[str]:
    return frozenset(
        interface
        for interface, neighbour in switch_links(topology, leaf)
        if distance.get(neighbour, len(distance)) == distance.get(leaf, 0) - 1
    )
