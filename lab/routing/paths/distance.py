"""Distances between switches, in links between switches: the length of AS paths, and the cost of OSPF."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.model.topology import Topology


def switch_links(topology: Topology, node: str) -> list[tuple[str, str]]:
    """Return interface and neighbour of each link of ``node`` to a switch."""
    found = []
    for link in topology.links_of(node):
        here = link.end_at(node)
        there = link.other(here).node
        if topology.node(there).role.is_switch:
            found.append((here.interface, there))
    return found


def distances(topology: Topology, target: str) -> dict[str, int]:
    """Return the links from each switch to ``target`` on the shortest path; unconnected switches are left out."""
    distance = {target: 0}
    queue = deque([target])
    while queue:
        node = queue.popleft()
        for _, neighbour in switch_links(topology, node):
            if neighbour not in distance:
                distance[neighbour] = distance[node] + 1
                queue.append(neighbour)
    return distance
