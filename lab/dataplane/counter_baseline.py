"""Counters from a mark on, as ``sonic-clear`` has it: the kernel's own counts stay, and are counted from there.

Only watermarks are begun anew in the kernel: what was the most since a moment cannot be worked out afterwards.
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
"""Fields of a priority that no counter has: when a pause began and ends."""
_LATEST: Final = "late_ns"
_MOST: Final = {
    "queue": (("watermark_bytes", "depth_bytes"),),
    "group": (("watermark_bytes", "bytes"), ("headroom_watermark_bytes", "headroom_bytes")),
}


@dataclass(frozen=True)
class CounterBaseline:
    """What each port had counted, by its id, and when that was, in seconds since 1970; 0 where it has no mark."""

    ports: NDArray[Any]
    times: NDArray[np.float64]

    @property
    def oldest(self) -> float | None:
        """The time of the oldest mark that a port has; None when none has any."""
        marked = self.times[self.times > 0]
        return float(marked.min()) if len(marked) else None


def none(ports: int) -> CounterBaseline:
    """No mark at any of so many ports."""
    return CounterBaseline(np.zeros(ports, COUNTERS), np.zeros(ports))


def load(path: Path, ports: int) -> CounterBaseline:
    """The marks that are kept in ``path``; none when there is no such file, or it is damaged."""
    try:
        with np.load(path) as kept:
            counted, times = kept["ports"], kept["times"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return none(ports)
    if len(counted) != ports * COUNTERS.itemsize or len(times) != ports:
        return none(ports)
    return CounterBaseline(counted.view(COUNTERS), times)


def save(path: Path, mark: CounterBaseline) -> None:
    """Keep ``mark``, at one stroke."""
    with files.replaced(path) as fresh, fresh.open("wb") as file:
        np.savez(file, ports=mark.ports.view(np.uint8), times=mark.times)


def clear(maps: PortMaps, mark: CounterBaseline, readings: Iterable[tuple[CounterReading, Iterable[str]]]) -> None:
    """Mark the named devices of each reading where they are now, and begin their watermarks anew."""
    for reading, devices in readings:
        for device in devices:
            port = reading.node.first + 1 + reading.node.devices.index(device)
            mark.ports[port], mark.times[port] = reading.port(device), wall_clock.now()
            for scope, pairs in _MOST.items():
                for most, now in pairs:
                    maps.counters[scope][most][port] = maps.counters[scope][now][port]
            maps.counters[_LATEST][port] = 0


def since(reading: CounterReading, mark: CounterBaseline) -> CounterReading:
    """``reading`` with what was counted after each port's mark; what is a depth, or a time, stays as it is."""
    first = reading.node.first + 1
    before = mark.ports[first : first + len(reading.ports)]
    ports = reductions.grown(before.view(np.uint64), reading.ports.view(np.uint64)).view(COUNTERS)
    for gauge in (counter for counter in NAMED if counter.gauge):
        gauge.record(ports)[gauge.field] = gauge.record(reading.ports)[gauge.field]
    for name in _TIMES:
        ports["priority"][name] = reading.ports["priority"][name]
    return replace(reading, ports=ports)
