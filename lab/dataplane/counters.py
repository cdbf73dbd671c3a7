"""The counters of the emulated ports: readings, growth between two readings, and a check of their sums.

The kernel counts while a reading is copied. Each counter is one aligned word, is written at once, and only grows. But
two counters are not read at the same instant: a busy queue may show packets as offered and not yet as sent. The sums
of a queue are exact if it did not change between two readings; ``unbalanced`` checks only such queues.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.dataplane import reductions
from lab.dataplane.counter_names import COUNTERS as NAMED
from lab.dataplane.counter_names import CounterScope
from lab.dataplane.port_layout import CLASSES, COUNTERS
from lab.units import WIRE_OVERHEAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lab.dataplane.numbering import NodePorts
    from lab.dataplane.port_maps import PortMaps

_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class CounterReading:
    """The counters of a node's devices, in order of ``NodePorts.devices``, at ``ns`` of CLOCK_MONOTONIC.

    - ``paused_ns`` of a priority includes the current pause up to ``ns``.
    - ``pool_used`` and ``pool_watermark``: current and largest use of the node's buffer pool, in bytes.
    - ``clock_revived``: how often the node's clock was lost and replaced since the fabric was built.
    """

    node: NodePorts
    ns: int
    ports: NDArray[Any]
    pool_used: int
    pool_watermark: int
    clock_revived: int

    def port(self, device: str) -> NDArray[Any]:
        """Return the record of one interface or drain."""
        record: NDArray[Any] = self.ports[self.node.devices.index(device)]
        return record


@dataclass(frozen=True, slots=True)
class Movement:
    """The growth of counters in ``seconds``; gauges have no meaning here."""

    node: NodePorts
    seconds: float
    ports: NDArray[Any]

    def port(self, device: str) -> NDArray[Any]:
        """Return the record of one interface or drain."""
        record: NDArray[Any] = self.ports[self.node.devices.index(device)]
        return record


@dataclass(frozen=True, slots=True)
class Imbalance:
    """A queue with packets that were neither sent, nor dropped, nor are still queued; how many are missing."""

    interface: str
    queue: int
    missing_packets: int
    missing_bytes: int


def read(maps: PortMaps, node: NodePorts) -> CounterReading:
    """Return a copy of a node's counters from mapped memory; the only system call checks that the fabric exists.

    The clock is read after the counters, so that no pause begins after ``ns``. OperationFailed if the fabric was
    taken down.
    """
    maps.require_live()
    first = node.first + 1
    ports = maps.counters[first : first + len(node.devices)].copy()
    shared = maps.nodes[node.number]
    pool_used, pool_watermark = int(shared["pool_used"]), int(shared["pool_watermark"])
    revived = int(shared["revived"])
    ns = time.monotonic_ns()
    _add_current_pause(ports["priority"], ns)
    return CounterReading(
        node=node, ns=ns, ports=ports, pool_used=pool_used, pool_watermark=pool_watermark, clock_revived=revived
    )


def _add_current_pause(priorities: NDArray[Any], ns: int) -> None:
    end = np.minimum(priorities["paused_until"], np.uint64(ns))
    began = priorities["paused_from"]
    priorities["paused_ns"] += np.where(end > began, end - began, np.uint64(0))


def moved(later: CounterReading, earlier: CounterReading) -> Movement:
    """Return the growth of the counters between two readings of a node.

    A reading during the renewal of a pause may show a slightly too long paused time. If it falls afterwards, its
    growth is 0.
    """
    after, before = (reading.ports.view(np.uint64) for reading in (later, earlier))
    grown = reductions.grown(before, after)
    return Movement(later.node, (later.ns - earlier.ns) / _NS, grown.view(COUNTERS))


def line_rate(packets: float, frame_bytes: float, seconds: float) -> float:
    """Return the load of a link in bit/s, including preamble, FCS and gap, for comparison with its rate."""
    return (frame_bytes + packets * WIRE_OVERHEAD) * 8 / seconds


def offered_load(movement: Movement, device: str) -> tuple[float, float]:
    """Return the load of a port's link in bit/s: received, and sent including PFC frames."""
    port = movement.port(device)
    counts = port["priority"]
    received = line_rate(int(counts["rx_packets"].sum()), int(counts["rx_bytes"].sum()), movement.seconds)
    packets = int(counts["tx_packets"].sum()) + int(port["tx_pfc"])
    sent = line_rate(packets, int(counts["tx_bytes"].sum()) + int(port["tx_pfc_bytes"]), movement.seconds)
    return received, sent


def missing(ports: NDArray[Any], unit: str) -> NDArray[Any]:
    """Return offered - sent - dropped - queued for each port and queue; 0 if none is missing.

    ``unit`` is ``packets`` or ``bytes``.
    """
    queues = ports["queue"]
    known = queues[f"sent_{unit}"] + queues[f"drop_{unit}"].sum(axis=-1) + queues[f"depth_{unit}"]
    difference: NDArray[Any] = (queues[f"offered_{unit}"] - known).astype(np.int64)
    return difference


def unbalanced(earlier: CounterReading, later: CounterReading) -> list[Imbalance]:
    """Return the queues with missing packets or bytes, among those that did not change between two readings."""
    quiet = earlier.ports["queue"] == later.ports["queue"]
    packets, size = missing(later.ports, "packets"), missing(later.ports, "bytes")
    wrong = np.argwhere(quiet & ((packets != 0) | (size != 0)))
    return [
        Imbalance(
            interface=later.node.devices[port],
            queue=int(queue),
            missing_packets=int(packets[port, queue]),
            missing_bytes=int(size[port, queue]),
        )
        for port, queue in wrong
    ]


def dropped_packets(maps: PortMaps) -> int:
    """Return the number of packets that the queues of a fabric have dropped since it was built."""
    maps.require_live()
    return int(maps.counters["queue"]["drop_packets"].sum())


def named(reading: CounterReading, *, zeros: bool = False) -> dict[str, dict[str, int]]:
    """Return the counters of each device by name; counters that are 0 are included only with ``zeros``."""
    columns = [(counter, counter.of(reading.ports)) for counter in NAMED]
    return {
        device: {
            counter.name_of(number): value
            for counter, column in columns
            for number, value in enumerate(_numbers(column[position], counter.scope))
            if value or zeros
        }
        for position, device in enumerate(reading.node.devices)
    }


def _numbers(values: Any, scope: CounterScope) -> Iterator[int]:
    return (int(value) for value in ([values] if scope is CounterScope.PORT else values[:CLASSES]))
