"""Who pauses whom, from the queue that is too full to the hosts that have to wait: trees made of two readings.

A port's buffer is charged where packets come in, not where they go. So a node's pauses are put down to the queue that
was its fullest: when that queue is paused itself, to whoever pauses it, and when it is not, it is a root.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lab.dataplane.counters import moved
from lab.dataplane.numbering import drained_interface
from lab.dataplane.port_layout import EventKind
from lab.model.topology import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lab.dataplane.counters import CounterReading, Movement
    from lab.dataplane.events import PortEvent
    from lab.model.qos.port import NodeQos, PortQos

_APART: Final = 1.0
"""Seconds without an XOFF after which the next one begins something new."""


@dataclass(frozen=True, slots=True)
class PortPause:
    """``end`` paused ``peer``: so many XOFFs, for this share of the time; ``since``, of CLOCK_MONOTONIC, if known.

    ``forged``: the peer was paused, and ``end`` has sent nothing that would. ``behind`` are the pauses at the paused
    node that it leads to.
    """

    end: Endpoint
    peer: Endpoint
    xoffs: int
    share: float
    since: float | None = None
    forged: bool = False
    behind: tuple[PortPause, ...] = ()


@dataclass(frozen=True, slots=True)
class Root:
    """Where a tree begins: the queue of ``end`` that held up to ``depth`` bytes, and the pauses that are its.

    Without ``end`` the pauses go round in a circle, or come from nowhere.
    """

    priority: int
    end: Endpoint | None
    depth: int
    pauses: tuple[PortPause, ...]


@dataclass(frozen=True)
class Observation:
    """What was seen of a fabric for a while: readings of all nodes, at least two, and its events."""

    readings: Sequence[Mapping[str, CounterReading]]
    events: Sequence[PortEvent]
    qos: Mapping[str, NodeQos]
    peers: Mapping[Endpoint, Endpoint]
    movements: Mapping[str, Movement] = field(init=False)

    def __post_init__(self) -> None:
        first, last = self.readings[0], self.readings[-1]
        object.__setattr__(self, "movements", {name: moved(last[name], first[name]) for name in last})

    def port(self, end: Endpoint) -> PortQos:
        """The QoS of a port."""
        return self.qos[end.node].ports[end.interface]

    def share(self, end: Endpoint, priority: int) -> float:
        """Of the time, how much of it a port was paused."""
        movement = self.movements[end.node]
        return float(movement.port(end.interface)["priority"]["paused_ns"][priority]) / 1e9 / movement.seconds

    def xoffs(self, end: Endpoint, priority: int) -> int:
        """XOFFs that a port sent."""
        return int(self.movements[end.node].port(end.interface)["priority"]["tx_pause"][priority])

    def holds(self, end: Endpoint, priority: int) -> bool:
        """Whether a port's group is in XOFF now: one long pause needs no further frame."""
        group = self.port(end).priority_to_group[priority]
        counted = self.readings[-1][end.node].port(end.interface)["group"][group]
        return bool(counted["xoff"] > counted["xon"])

    def fullest(self, node: str, priority: int) -> tuple[Endpoint, int] | None:
        """The queue of a node that held most at any reading, with its bytes; a host's drain is one of them."""
        deepest: dict[str, int] = {}
        for reading in self.readings:
            for device in reading[node].node.devices:
                queue = self.port(Endpoint(node, drained_interface(device))).priority_to_queue[priority]
                depth = int(reading[node].port(device)["queue"]["depth_bytes"][queue])
                deepest[device] = max(depth, deepest.get(device, 0))
        device, depth = max(deepest.items(), key=lambda item: item[1], default=("", 0))
        return (Endpoint(node, device), depth) if depth else None

    def since(self, end: Endpoint, priority: int) -> float | None:
        """When the pauses that a port sends now began."""
        group = self.port(end).priority_to_group[priority]
        times = [
            event.boot_seconds
            for event in self.events
            if (event.kind, event.number) == (EventKind.XOFF_SENT, group)
            and (event.node, event.interface) == (end.node, end.interface)
        ]
        began: float | None = None
        for when in reversed(times):
            if began is not None and began - when > _APART:
                break
            began = when
        return began


def trees(seen: Observation, priorities: Iterable[int]) -> list[Root]:
    """The trees of each priority, the fullest queue first; empty when nobody was paused."""
    return [root for priority in priorities for root in _of_priority(seen, priority)]


def _of_priority(seen: Observation, priority: int) -> list[Root]:
    pausing: dict[str, list[PortPause]] = {}
    for pause in _pauses(seen, priority):
        pausing.setdefault(pause.end.node, []).append(pause)
    reached: set[str] = set()
    roots = []
    for node in pausing:
        fullest = seen.fullest(node, priority)
        if fullest is not None and not _is_paused(seen, fullest[0], priority):
            roots.append(Root(priority, *fullest, _behind(seen, node, priority, pausing, reached)))
    roots.sort(key=lambda root: -root.depth)
    forgers = [node for node, pauses in pausing.items() if any(pause.forged for pause in pauses)]
    rootless = (  # what no full queue leads to; each adds to what is reached before the next is asked for
        Root(priority, None, 0, _behind(seen, node, priority, pausing, reached))
        for node in [*forgers, *pausing]
        if node not in reached
    )
    return [*roots, *rootless]


def _is_paused(seen: Observation, end: Endpoint, priority: int) -> bool:
    return end in seen.peers and seen.share(end, priority) > 0


def _pauses(seen: Observation, priority: int) -> Iterator[PortPause]:
    for end, peer in seen.peers.items():
        xoffs, share = seen.xoffs(end, priority), seen.share(peer, priority)
        sends = xoffs > 0 or seen.holds(end, priority)
        if sends or share > 0:
            yield PortPause(end, peer, xoffs, share, seen.since(end, priority), forged=not sends)


def _behind(
    seen: Observation, node: str, priority: int, pausing: Mapping[str, list[PortPause]], reached: set[str]
) -> tuple[PortPause, ...]:
    """The pauses of a node, each with those that it leads to; ``reached`` ends what goes round in a circle."""
    reached.add(node)
    found = []
    for pause in pausing.get(node, ()):
        there = pause.peer.node
        fullest = seen.fullest(there, priority)
        leads_on = there not in reached and fullest is not None and fullest[0] == pause.peer
        behind = _behind(seen, there, priority, pausing, reached) if leads_on else ()
        found.append(PortPause(pause.end, pause.peer, pause.xoffs, pause.share, pause.since, pause.forged, behind))
    return tuple(found)
