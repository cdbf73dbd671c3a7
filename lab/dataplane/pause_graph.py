"""Pause trees: which ports pause which, from a congested queue to the paused hosts, computed from counter readings.

Packets are charged to the ingress port, so a pause does not name the egress queue that caused it. A node's pauses are
therefore attributed to its fullest queue. If that queue is paused itself, the node that pauses it is the cause;
otherwise the queue is the root of a tree.
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
"""Seconds without an XOFF after which the next XOFF starts a new series of pauses."""


@dataclass(frozen=True, slots=True)
class PortPause:
    """The pauses of ``peer`` by ``end``; ``since`` is in seconds of CLOCK_MONOTONIC, None if it is not known."""

    end: Endpoint
    peer: Endpoint
    xoffs: int
    """XOFFs sent during the observation."""
    share: float
    """Share of the observation in which the peer was paused, 0 to 1."""
    since: float | None = None
    forged: bool = False
    """Whether the peer was paused although this end sent no XOFF and is not in XOFF."""
    behind: tuple[PortPause, ...] = ()
    """The pauses that the paused node sends as a consequence."""


@dataclass(frozen=True, slots=True)
class Root:
    """The root of a pause tree: the queue of ``end``, and the pauses that it causes.

    ``end`` is None for pauses without a congested queue: a cycle, or forged pauses.
    """

    priority: int
    end: Endpoint | None
    depth: int
    """Largest queue depth in bytes."""
    pauses: tuple[PortPause, ...]


@dataclass(frozen=True)
class Observation:
    """An observation of a fabric over a time: at least two readings of all nodes, and the events."""

    readings: Sequence[Mapping[str, CounterReading]]
    events: Sequence[PortEvent]
    qos: Mapping[str, NodeQos]
    peers: Mapping[Endpoint, Endpoint]
    movements: Mapping[str, Movement] = field(init=False)

    def __post_init__(self) -> None:
        first, last = self.readings[0], self.readings[-1]
        object.__setattr__(self, "movements", {name: moved(last[name], first[name]) for name in last})

    def port(self, end: Endpoint) -> PortQos:
        """Return the QoS of a port."""
        return self.qos[end.node].ports[end.interface]

    def share(self, end: Endpoint, priority: int) -> float:
        """Return the share of the time, 0 to 1, in which a port was paused."""
        movement = self.movements[end.node]
        return float(movement.port(end.interface)["priority"]["paused_ns"][priority]) / 1e9 / movement.seconds

    def xoffs(self, end: Endpoint, priority: int) -> int:
        """Return the number of XOFFs that a port sent."""
        return int(self.movements[end.node].port(end.interface)["priority"]["tx_pause"][priority])

    def holds(self, end: Endpoint, priority: int) -> bool:
        """Return whether a port's group is in XOFF now; during one long pause, it may send no further frame."""
        group = self.port(end).priority_to_group[priority]
        counted = self.readings[-1][end.node].port(end.interface)["group"][group]
        return bool(counted["xoff"] > counted["xon"])

    def fullest(self, node: str, priority: int) -> tuple[Endpoint, int] | None:
        """Return the queue of a node with the largest depth in any reading, and that depth; drains are included."""
        deepest: dict[str, int] = {}
        for reading in self.readings:
            for device in reading[node].node.devices:
                queue = self.port(Endpoint(node, drained_interface(device))).priority_to_queue[priority]
                depth = int(reading[node].port(device)["queue"]["depth_bytes"][queue])
                deepest[device] = max(depth, deepest.get(device, 0))
        device, depth = max(deepest.items(), key=lambda item: item[1], default=("", 0))
        return (Endpoint(node, device), depth) if depth else None

    def since(self, end: Endpoint, priority: int) -> float | None:
        """Return the begin of a port's latest series of XOFFs, in seconds of CLOCK_MONOTONIC; None without any."""
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
    """Return the pause trees of each priority, the fullest queue first; empty if no port was paused."""
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
    rootless = (  # pauses without a full queue; lazy, because each one extends ``reached`` for the next
        Root(priority=priority, end=None, depth=0, pauses=_behind(seen, node, priority, pausing, reached))
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
            yield PortPause(
                end=end, peer=peer, xoffs=xoffs, share=share, since=seen.since(end, priority), forged=not sends
            )


def _behind(
    seen: Observation, node: str, priority: int, pausing: Mapping[str, list[PortPause]], reached: set[str]
) -> tuple[PortPause, ...]:
    """Return the pauses of a node, each with the pauses that it causes; ``reached`` stops the walk at cycles."""
    reached.add(node)
    found = []
    for pause in pausing.get(node, ()):
        there = pause.peer.node
        fullest = seen.fullest(there, priority)
        leads_on = there not in reached and fullest is not None and fullest[0] == pause.peer
        behind = _behind(seen, there, priority, pausing, reached) if leads_on else ()
        found.append(
            PortPause(
                end=pause.end,
                peer=pause.peer,
                xoffs=pause.xoffs,
                share=pause.share,
                since=pause.since,
                forged=pause.forged,
                behind=behind,
            )
        )
    return tuple(found)
