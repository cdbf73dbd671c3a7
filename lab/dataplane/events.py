"""The event log of the emulated ports: pauses sent and received, storms, drops.

The kernel keeps the last ``EVENTS`` events of a fabric in a ring. All nodes share CLOCK_MONOTONIC, so the times of
different switches can be compared.
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
    EventKind.EXPIRED: "pause expired",
    EventKind.GROUP_DROPS: "drops received packets",
    EventKind.QUEUE_DROPS: "drops",
}
"""A short text for each kind of event."""
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
"""The scope of an event's ``number``."""


REASONS: Final[Mapping[Drop, str]] = {
    Drop.LIMIT: "queue at its limit",
    Drop.SHARED: "group at its share",
    Drop.HEADROOM: "headroom full",
    Drop.SLOTS: "too many packets",
    Drop.WATCHDOG: "PFC watchdog",
    Drop.FLUSH: "link down",
}
"""A short text for each reason of a drop."""


@dataclass(frozen=True, slots=True)
class PortEvent:
    """One event at ``node:interface``; a burst of drops is one event.

    - ``boot_seconds``: seconds of CLOCK_MONOTONIC, since the machine started.
    - ``seconds``: seconds since the first event.
    - ``number``: the number of a priority group, priority or queue, according to ``SUBJECTS``.
    - ``value``: bytes in the group for XOFF, quanta for a pause, bytes held up for a storm, and the reason
      (``Drop``) for drops in a queue.
    - ``towards``: the port by which the packet was to leave, for drops in a group.
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
    """Return all events in the ring, ordered by time; ``names`` are ``Numbering.names``."""
    copied = np.concatenate([_copy(maps), expired(maps.counters["priority"], time.monotonic_ns())])
    return decode(copied, names)


def expired(priorities: NDArray[Any], now: int) -> NDArray[Any]:
    """Return event records for the pauses that expired by ``now``, in ns of CLOCK_MONOTONIC.

    The kernel logs an expiry only at the next PFC frame. A pause that was ended by an XON has no length, and is
    ignored.
    """
    until, since = priorities["paused_until"], priorities["paused_from"]
    ports, numbers = np.nonzero((until <= now) & (until > since))
    records = np.zeros(len(ports), EVENT)
    records["ns"], records["port"], records["index"] = until[ports, numbers], ports, numbers
    records["kind"] = EventKind.EXPIRED
    return records


def decode(records: NDArray[Any], names: Mapping[int, tuple[str, str]], start: int | None = None) -> list[PortEvent]:
    """Return the events of complete records, ordered by time, without those of ports that have no name.

    ``seconds`` count from ``start``, in ns of CLOCK_MONOTONIC, or from the first event.
    """
    ordered = records[np.argsort(records["ns"], kind="stable")]
    if start is None:
        start = int(ordered["ns"][0]) if len(ordered) else 0
    found = []
    for ns, value, port, kind, index in ordered[["ns", "value", "port", "kind", "index"]].tolist():
        if port in names:
            (node, interface), (meaning, towards) = names[port], _meant(kind, value, names)
            found.append(
                PortEvent(
                    boot_seconds=ns / _NS,
                    seconds=(ns - start) / _NS,
                    node=node,
                    interface=interface,
                    kind=EventKind(kind),
                    number=index,
                    value=meaning,
                    towards=towards,
                )
            )
    return found


class Tail:
    """Follows the events of a fabric, and returns each of them once.

    An expired pause is found here first and logged by the kernel later; the second record is ignored.
    """

    def __init__(self, maps: PortMaps, names: Mapping[int, tuple[str, str]]) -> None:
        self._maps, self._names = maps, names
        self._next = 0
        self._start: int | None = None
        self._ends: set[tuple[int, int, int]] = set()

    def new(self) -> list[PortEvent]:
        """Return the events since the last call, ordered by time; the first call returns all events in the ring.

        OperationFailed if the fabric was taken down.
        """
        self._maps.require_live()
        fresh = self.fresh()
        if self._start is None and len(fresh):
            self._start = int(fresh["ns"].min())
        return decode(fresh, self._names, self._start)

    def fresh(self) -> NDArray[Any]:
        """Return the same as unordered records, even if the fabric was taken down."""
        known = np.concatenate([self._records(), expired(self._maps.counters["priority"], time.monotonic_ns())])
        new = known["kind"] != EventKind.EXPIRED
        for at in np.flatnonzero(~new):  # few: most pauses are ended by an XON
            new[at] = self._is_new_end(known[at])
        fresh: NDArray[Any] = known[new]
        return fresh

    def _records(self) -> NDArray[Any]:
        """Return complete records; an incomplete one, and all after it, are left for the next call."""
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
    """Return the complete records of the ring."""
    count = int(maps.event_count[0])
    records, whole = _stored(maps, max(0, count - EVENTS), count)
    kept: NDArray[Any] = records[whole]
    return kept


def _stored(maps: PortMaps, first: int, count: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return copies of the records of events ``first`` to ``count``, and whether each is complete.

    The kernel increments the event count first, then fills the record, and writes its sequence number last. The
    oldest events are left out if later ones overwrote them during the copy.
    """
    numbers = np.arange(first, count)
    records = maps.events[numbers % EVENTS]
    lost = max(0, int(maps.event_count[0]) - EVENTS - first)
    return records[lost:], records["sequence"][lost:] == numbers[lost:] + 1


def describe_value(event: PortEvent) -> str:
    """Return the event's ``value`` as text; "" for kinds without a value."""
    if event.kind in {EventKind.XOFF_SENT, EventKind.STORM}:
        return format_size(event.value)
    if event.kind is EventKind.QUEUE_DROPS:
        return REASONS[Drop(event.value)]
    if event.kind is EventKind.GROUP_DROPS:
        return f"no room; to leave by {event.towards}" if event.towards else "no room"
    return f"{event.value} quanta" if event.kind is EventKind.PAUSED else ""


def clock(boot_seconds: float) -> datetime:
    """Return the wall-clock time of ``boot_seconds``, a time of CLOCK_MONOTONIC."""
    return wall_clock.date_at(boot_seconds)


def of_ports(events: Iterable[PortEvent], ports: Iterable[tuple[str, str]]) -> list[PortEvent]:
    """Return the events of ``ports``, each given as node and interface."""
    wanted = set(ports)
    return [event for event in events if (event.node, event.interface) in wanted]
