"""Counters since a baseline, as ``sonic-clear`` does it: clearing stores the counts and leaves those in the kernel.

Only watermarks are reset in the kernel: a maximum since a given time cannot be computed afterwards.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.dataplane import reductions
from lab.dataplane.counter_names import COUNTERS as NAMED
from lab.dataplane.port_layout import COUNTERS
from lab.kernel.process import files, wall_clock

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from lab.dataplane.counters import CounterReading
    from lab.dataplane.port_maps import PortMaps

_TIMES: Final = ("paused_from", "paused_until")
"""Fields of a priority that are not counters: the begin and the end of a pause."""
_LATEST: Final = "late_ns"
_MOST: Final = {
    "queue": (("watermark_bytes", "depth_bytes"),),
    "group": (("watermark_bytes", "bytes"), ("headroom_watermark_bytes", "headroom_bytes")),
}


@dataclass(frozen=True)
class CounterBaseline:
    """The counters of each port, by id, when it was cleared, and the Unix time of that; 0 for ports never cleared."""

    ports: NDArray[Any]
    times: NDArray[np.float64]

    @property
    def oldest(self) -> float | None:
        """The Unix time of the oldest baseline of a port; None if no port was cleared."""
        marked = self.times[self.times > 0]
        return float(marked.min()) if len(marked) else None


def none(ports: int) -> CounterBaseline:
    """Return an empty baseline for ``ports`` ports."""
    return CounterBaseline(np.zeros(ports, COUNTERS), np.zeros(ports))


def load(path: Path, ports: int) -> CounterBaseline:
    """Return the baseline stored in ``path``; an empty one if the file is missing or damaged."""
    try:
        with np.load(path) as kept:
            counted, times = kept["ports"], kept["times"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return none(ports)
    if len(counted) != ports * COUNTERS.itemsize or len(times) != ports:
        return none(ports)
    return CounterBaseline(counted.view(COUNTERS), times)


def save(path: Path, mark: CounterBaseline) -> None:
    """Write the baseline ``mark``; the file is replaced atomically."""
    with files.replaced(path) as fresh, fresh.open("wb") as file:
        np.savez(file, ports=mark.ports.view(np.uint8), times=mark.times)


def clear(maps: PortMaps, mark: CounterBaseline, readings: Iterable[tuple[CounterReading, Iterable[str]]]) -> None:
    """Set the baseline of the named devices to their counters in each reading, and reset their watermarks."""
    for reading, devices in readings:
        for device in devices:
            port = reading.node.first + 1 + reading.node.devices.index(device)
            mark.ports[port], mark.times[port] = reading.port(device), wall_clock.now()
            for scope, pairs in _MOST.items():
                for most, now in pairs:
                    maps.counters[scope][most][port] = maps.counters[scope][now][port]
            maps.counters[_LATEST][port] = 0


def since(reading: CounterReading, mark: CounterBaseline) -> CounterReading:
    """Return ``reading`` with counts since each port's baseline; gauges and times are unchanged."""
    first = reading.node.first + 1
    before = mark.ports[first : first + len(reading.ports)]
    ports = reductions.grown(before.view(np.uint64), reading.ports.view(np.uint64)).view(COUNTERS)
    for gauge in (counter for counter in NAMED if counter.gauge):
        gauge.record(ports)[gauge.field] = gauge.record(reading.ports)[gauge.field]
    for name in _TIMES:
        ports["priority"][name] = reading.ports["priority"][name]
    return replace(reading, ports=ports)
