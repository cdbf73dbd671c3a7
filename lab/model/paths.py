"""Shortest paths through a fabric."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.model.topology import Endpoint, Topology


def on_shortest_paths(topology: Topology, start: str, goal: str) -> tuple[Endpoint, ...]:
    """Return the links on all shortest paths between two nodes, each by its end nearer to ``start``, nearest first.

    Hosts do not forward, so no path leads through a third host. The result is empty if there is no path.
    """
    passable = {node.name for node in topology.switches} | {start, goal}
    here, there = _distances(topology, start, passable), _distances(topology, goal, passable)
    found = [
        (here[end.node], end)
        for link in topology.links
        for end in link.ends
        if end.node in here and here[end.node] + 1 + there.get(link.other(end).node, len(there)) == here.get(goal)
    ]
    return tuple(end for _, end in sorted(found, key=lambda item: item[0]))


def _distances(topology: Topology, start: str, passable: set[str]) -> dict[str, int]:
    """Return the number of links from ``start`` to each node that is reachable over ``passable`` nodes."""
    distance = {start: 0}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for link in topology.links_of(node):
            other = link.other(link.end_at(node)).node
            if other in passable and other not in distance:
                distance[other] = distance[node] + 1
                waiting.append(other)
    return distance
