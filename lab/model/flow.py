"""Maximum flow (Dinic's algorithm), for the bisection bandwidth of a fabric."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from itertools import pairwise
from typing import Generic, TypeVar

Place = TypeVar("Place", bound=Hashable)


class FlowNetwork(Generic[Place]):
    """A directed graph with integer capacities; parallel edges add up."""

    def __init__(self) -> None:
        self._room: dict[Place, dict[Place, int]] = {}

    def add(self, start: Place, end: Place, capacity: int) -> None:
        """Add ``capacity`` from ``start`` to ``end``."""
        room = self._room.setdefault(start, {})
        room[end] = room.get(end, 0) + capacity
        self._room.setdefault(end, {}).setdefault(start, 0)

    def consume_maximum(self, source: Place, sink: Place) -> int:
        """Return the largest flow from ``source`` to ``sink``, equal to the smallest cut.

        It uses up the capacities.
        """
        total = 0
        while sink in (depth := self._depths(source)):
            pending = {place: list(room) for place, room in self._room.items()}
            while pushed := self._push(source, sink, depth, pending):
                total += pushed
        return total

    def _depths(self, source: Place) -> dict[Place, int]:
        depth = {source: 0}
        queue = deque([source])
        while queue:
            here = queue.popleft()
            for neighbour, room in self._room.get(here, {}).items():
                if room and neighbour not in depth:
                    depth[neighbour] = depth[here] + 1
                    queue.append(neighbour)
        return depth

    def _push(self, source: Place, sink: Place, depth: dict[Place, int], pending: dict[Place, list[Place]]) -> int:
        """Push as much as fits along one shortest path; dead ends are removed from ``pending``."""
        path = [source]
        while path[-1] != sink:
            here = path[-1]
            while pending[here]:
                ahead = pending[here][-1]
                if self._room[here][ahead] and depth.get(ahead) == depth[here] + 1:
                    path.append(ahead)
                    break
                pending[here].pop()
            else:
                path.pop()
                if not path:
                    return 0
                pending[path[-1]].pop()
        hops = list(pairwise(path))
        amount = min(self._room[start][end] for start, end in hops)
        for start, end in hops:
            self._room[start][end] -= amount
            self._room[end][start] += amount
        return amount
