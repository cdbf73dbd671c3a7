"""What happened at the emulated ports, and when: pauses sent and obeyed, storms, drops.

The kernel keeps the last ``EVENTS`` of a fabric in a ring. Time is CLOCK_MONOTONIC, the same for all nodes, so that a
pause can be followed from switch to switch.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.dataplane.port_layout import EVENT, EVENTS, Drop, EventKind
from lab.kernel.process import wall_clock
from lab.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from numpy.typing import NDArray

    from lab.dataplane.port_maps import PortMaps

_NS: Final = 10**9

MEANINGS: Final[Mapping[EventKind, str]] = {
    EventKind.XOFF_SENT: "XOFF sent",
    EventKind.XON_SENT: "XON sent",
    EventKind.PAUSED: "paused",
    EventKind.RESUMED: "resumed",
    EventKind.STORM: "storm",
    EventKind.RESTORED: "storm over",
    EventKind.EXPIRED: "pause ran out",
    EventKind.GROUP_DROPS: "drops what came in",
    EventKind.QUEUE_DROPS: "drops",
}
"""Each kind in a word or two."""
SUBJECTS: Final[Mapping[EventKind, str]] = {
    EventKind.XOFF_SENT: "group",
    EventKind.XON_SENT: "group",
    EventKind.PAUSED: "priority",
    EventKind.RESUMED: "priority",
    EventKind.STORM: "queue",
    EventKind.RESTORED: "queue",
    EventKind.EXPIRED: "priority",
    EventKind.GROUP_DROPS: "group",
    EventKind.QUEUE_DROPS: "queue",
}
"""What an event's number counts."""


REASONS: Final[Mapping[Drop, str]] = {
    Drop.LIMIT: "queue at its limit",
    Drop.SHARED: "group at its share",
    Drop.HEADROOM: "headroom full",
    Drop.SLOTS: "too many packets",
    Drop.WATCHDOG: "PFC watchdog",
    Drop.FLUSH: "link down",
}
"""Why packets are dropped, in a word or two."""


@dataclass(frozen=True, slots=True)
class PortEvent:
    """One event at ``node:interface``.

    ``boot_seconds`` since the machine started (CLOCK_MONOTONIC), ``seconds`` since the oldest event that is known.
    ``number`` is a priority group's, priority's or queue's (``SUBJECTS``). ``value``: of XOFF the bytes in the group,
    of a pause its quanta, of a storm the bytes held up, of drops in a queue why (``Drop``). ``towards``: of drops in
    a group the port by which the packet was to leave. A burst of drops is one event.
    """

    boot_seconds: float
    seconds: float
    node: str
    interface: str
    kind: EventKind
    number: int
    value: int
    towards: str = ""


def read_events(maps: PortMaps, names: Mapping[int, tuple[str, str]]) -> list[PortEvent]:
    """All events that are still known, in the order of time; ``names`` are ``Numbering.names``."""
    copied = np.concatenate([_copy(maps), expired(maps.counters["priority"], time.monotonic_ns())])
    return decode(copied, names)


def expired(priorities: NDArray[Any], now: int) -> NDArray[Any]:
    """Pauses that had run out by ``now``, ns of CLOCK_MONOTONIC, and of which the kernel has not told yet.

    It tells with the next PFC frame. A pause that was ended by an XON has no length any more.
    """
    until, since = priorities["paused_until"], priorities["paused_from"]
    ports, numbers = np.nonzero((until <= now) & (until > since))
    records = np.zeros(len(ports), EVENT)
    records["ns"], records["port"], records["index"] = until[ports, numbers], ports, numbers
    records["kind"] = EventKind.EXPIRED
    return records


def decode(records: NDArray[Any], names: Mapping[int, tuple[str, str]], start: int | None = None) -> list[PortEvent]:
    """Events of whole records, which are put in order; those of ports without a name are left out.

    Their seconds are from ``start``, ns of CLOCK_MONOTONIC, on, or from the first of them.
    """
    ordered = records[np.argsort(records["ns"], kind="stable")]
    if start is None:
        start = int(ordered["ns"][0]) if len(ordered) else 0
    return [
        PortEvent(ns / _NS, (ns - start) / _NS, *names[port], EventKind(kind), index, *_meant(kind, value, names))
        for ns, value, port, kind, index in ordered[["ns", "value", "port", "kind", "index"]].tolist()
        if port in names
    ]


class Tail:
    """The events of a fabric as they come: each is told once, also a pause that ran out and that is told of twice."""

    def __init__(self, maps: PortMaps, names: Mapping[int, tuple[str, str]]) -> None:
        self._maps, self._names = maps, names
        self._next = 0
        self._start: int | None = None
        self._ends: set[tuple[int, int, int]] = set()

    def new(self) -> list[PortEvent]:
        """All since the last call, of the first all that are known, by time. See ``PortMaps.require_live``."""
        self._maps.require_live()
        fresh = self.fresh()
        if self._start is None and len(fresh):
            self._start = int(fresh["ns"].min())
        return decode(fresh, self._names, self._start)

    def fresh(self) -> NDArray[Any]:
        """The same as records, in no order, and whether or not the fabric is still there."""
        known = np.concatenate([self._records(), expired(self._maps.counters["priority"], time.monotonic_ns())])
        new = known["kind"] != EventKind.EXPIRED
        for at in np.flatnonzero(~new):  # few: pauses are ended by an XON
            new[at] = self._is_new_end(known[at])
        fresh: NDArray[Any] = known[new]
        return fresh

    def _records(self) -> NDArray[Any]:
        """Whole records only: one that is not stored yet is for the next time, with all after it."""
        count = int(self._maps.event_count[0])
        first = max(self._next, count - EVENTS)
        records, whole = _stored(self._maps, first, count)
        pending = np.flatnonzero(~whole)
        end = int(pending[0]) if len(pending) else len(records)
        self._next = count - len(records) + end
        found: NDArray[Any] = records[:end]
        return found

    def _is_new_end(self, record: Any) -> bool:
        end = (int(record["ns"]), int(record["port"]), int(record["index"]))
        if end in self._ends:
            return False
        self._ends.add(end)
        return True


def _meant(kind: int, value: int, names: Mapping[int, tuple[str, str]]) -> tuple[int, str]:
    if kind != EventKind.GROUP_DROPS:
        return value, ""
    return 0, ":".join(names.get(value, ()))


def _copy(maps: PortMaps) -> NDArray[Any]:
    """The records of the ring, without any that is not stored yet."""
    count = int(maps.event_count[0])
    records, whole = _stored(maps, max(0, count - EVENTS), count)
    kept: NDArray[Any] = records[whole]
    return kept


def _stored(maps: PortMaps, first: int, count: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Copies of the records of events ``first`` to ``count``, and whether each is stored.

    An event is counted first, its record is filled in next, and its sequence number is written last. The oldest
    events are left out when later ones took their places before the copy was complete.
    """
    numbers = np.arange(first, count)
    records = maps.events[numbers % EVENTS]
    lost = max(0, int(maps.event_count[0]) - EVENTS - first)
    return records[lost:], records["sequence"][lost:] == numbers[lost:] + 1


def describe_value(event: PortEvent) -> str:
    """What ``value`` says, in words; nothing where it says nothing."""
    if event.kind in {EventKind.XOFF_SENT, EventKind.STORM}:
        return format_size(event.value)
    if event.kind is EventKind.QUEUE_DROPS:
        return REASONS[Drop(event.value)]
    if event.kind is EventKind.GROUP_DROPS:
        return f"no room; out of {event.towards}" if event.towards else "no room"
    return f"{event.value} quanta" if event.kind is EventKind.PAUSED else ""


def clock(boot_seconds: float) -> datetime:
    """A moment of CLOCK_MONOTONIC by the clock on the caller's wall."""
    return wall_clock.date_at(boot_seconds)


def of_ports(events: Iterable[PortEvent], ports: Iterable[tuple[str, str]]) -> list[PortEvent]:
    """The events of some ports, each named by node and interface."""
    wanted = set(ports)
    return [event for event in events if (event.node, event.interface) in wanted]
