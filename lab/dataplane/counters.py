"""What the emulated ports counted: one copy for a node, what moved between two, and whether the sums come out.

The kernel counts while we copy. Each counter is one aligned word, never half written, and never goes back; but two
of them are not of the same instant: of a busy queue, what was offered may be some packets ahead of what was sent. The
sums of a queue hold when nothing moved between two readings, and ``unbalanced`` judges those alone.
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
    """The counters of a node's devices, in their order, as they were at ``ns`` of CLOCK_MONOTONIC.

    ``paused_ns`` of a priority has all of its pauses, the current one up to ``ns``. Of the node's pool, in bytes,
    ``pool_used`` is taken now and ``pool_watermark`` was taken at most. ``clock_revived`` is how often its clock was
    lost and replaced since the fabric was built.
    """

    node: NodePorts
    ns: int
    ports: NDArray[Any]
    pool_used: int
    pool_watermark: int
    clock_revived: int

    def port(self, device: str) -> NDArray[Any]:
        """The record of one interface, or of a drain."""
        record: NDArray[Any] = self.ports[self.node.devices.index(device)]
        return record


@dataclass(frozen=True, slots=True)
class Movement:
    """By how much counters grew in ``seconds``; gauges mean nothing here."""

    node: NodePorts
    seconds: float
    ports: NDArray[Any]

    def port(self, device: str) -> NDArray[Any]:
        """The record of one interface, or of a drain."""
        record: NDArray[Any] = self.ports[self.node.devices.index(device)]
        return record


@dataclass(frozen=True, slots=True)
class Imbalance:
    """A queue whose packets were not all sent, dropped for a reason, or still there; how many are missing."""

    interface: str
    queue: int
    missing_packets: int
    missing_bytes: int


def read(maps: PortMaps, node: NodePorts) -> CounterReading:
    """Copy a node's counters, which are in our memory: but for a look whether the fabric still is, no system call.

    The clock is read after them, so that no pause has begun in the future. OperationFailed when the fabric was taken
    down.
    """
    maps.require_live()
    first = node.first + 1
    ports = maps.counters[first : first + len(node.devices)].copy()
    shared = maps.nodes[node.number]
    pool_used, pool_watermark = int(shared["pool_used"]), int(shared["pool_watermark"])
    revived = int(shared["revived"])
    ns = time.monotonic_ns()
    _add_current_pause(ports["priority"], ns)
    return CounterReading(node, ns, ports, pool_used, pool_watermark, revived)


def _add_current_pause(priorities: NDArray[Any], ns: int) -> None:
    end = np.minimum(priorities["paused_until"], np.uint64(ns))
    began = priorities["paused_from"]
    priorities["paused_ns"] += np.where(end > began, end - began, np.uint64(0))


def moved(later: CounterReading, earlier: CounterReading) -> Movement:
    """What was counted between two readings of a node.

    Time paused may be read a moment too long while a pause is renewed; it then counts as unmoved, not as less.
    """
    after, before = (reading.ports.view(np.uint64) for reading in (later, earlier))
    grown = reductions.grown(before, after)
    return Movement(later.node, (later.ns - earlier.ns) / _NS, grown.view(COUNTERS))


def line_rate(packets: float, frame_bytes: float, seconds: float) -> float:
    """Bit/s that a link was busy with, preamble, FCS and gap counted; to be compared with its rate."""
    return (frame_bytes + packets * WIRE_OVERHEAD) * 8 / seconds


def offered_load(movement: Movement, device: str) -> tuple[float, float]:
    """Bit/s that the two directions of a port's link were busy with: received, sent (PFC frames included)."""
    port = movement.port(device)
    counts = port["priority"]
    received = line_rate(int(counts["rx_packets"].sum()), int(counts["rx_bytes"].sum()), movement.seconds)
    packets = int(counts["tx_packets"].sum()) + int(port["tx_pfc"])
    sent = line_rate(packets, int(counts["tx_bytes"].sum()) + int(port["tx_pfc_bytes"]), movement.seconds)
    return received, sent


def missing(ports: NDArray[Any], unit: str) -> NDArray[Any]:
    """For each port and queue: offered - sent - dropped, for whatever reason - still queued; 0 when none is missing.

    ``unit`` is ``packets`` or ``bytes``.
    """
    queues = ports["queue"]
    known = queues[f"sent_{unit}"] + queues[f"drop_{unit}"].sum(axis=-1) + queues[f"depth_{unit}"]
    difference: NDArray[Any] = (queues[f"offered_{unit}"] - known).astype(np.int64)
    return difference


def unbalanced(earlier: CounterReading, later: CounterReading) -> list[Imbalance]:
    """The queues whose sums do not come out, of those that were quiet between two readings of a node."""
    quiet = earlier.ports["queue"] == later.ports["queue"]
    packets, size = missing(later.ports, "packets"), missing(later.ports, "bytes")
    wrong = np.argwhere(quiet & ((packets != 0) | (size != 0)))
    return [
        Imbalance(later.node.devices[port], int(queue), int(packets[port, queue]), int(size[port, queue]))
        for port, queue in wrong
    ]


def dropped_packets(maps: PortMaps) -> int:
    """All packets that any queue of a fabric has ever dropped."""
    maps.require_live()
    return int(maps.counters["queue"]["drop_packets"].sum())


def named(reading: CounterReading, *, zeros: bool = False) -> dict[str, dict[str, int]]:
    """Every counter by its name, for each device; those that are 0 only with ``zeros``."""
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
