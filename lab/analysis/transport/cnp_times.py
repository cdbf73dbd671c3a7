"""CNPs of a capture: their spacing by receiver's NIC, and the sender's packet gaps before and after them.

The spacing of one QP's CNPs is in ``response_times``. A NIC that limits CNPs by destination or by port keeps its
minimum time across QPs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.results.histogram import Times
from lab.units import WIRE_OVERHEAD

if TYPE_CHECKING:
    from lab.analysis.flows.flow_batches import Sorted
    from lab.analysis.flows.flow_sums import Flows
    from lab.analysis.flows.streams import Streams
    from lab.analysis.read.packet_batch import Ints

NEAR: Final = 256
"""Packets after a CNP, and before the first one, whose gaps are measured.

Publications cut at most 50 us at 25 Gb/s after a CNP: 104 packets of 1500 bytes. In half of the rest, a QP has not
recovered.
"""
_MOST: Final = 1024
"""Flows, and pairs of hosts, that are measured."""
_MEGABIT: Final = 10**6


class CnpPath(NamedTuple):
    """The link, and the hosts between which CNPs travel; ``dst`` is 0 for all CNPs of ``src``."""

    interface: int
    src: tuple[int, ...]
    dst: tuple[int, ...] = (0, 0, 0, 0)


class CnpTimes:
    """Measures rounds of packets."""

    def __init__(self, flows: Flows, streams: Streams) -> None:
        self.least: dict[CnpPath, int] = {}
        """The shortest time between two CNPs, in ns, where there are two."""
        self._flows = flows
        self._streams = streams
        self._last: dict[CnpPath, int] = {}
        self._before: dict[int, Times] = {}
        self._after: dict[int, Times] = {}

    def add(self, packets: Sorted) -> None:
        """Add a round."""
        at = np.flatnonzero(ops.CNP[packets.opcode])
        if not len(at):
            return
        at = at[np.argsort(packets.time[at], kind="stable")]
        for flow, time in zip(packets.flow[at].tolist(), packets.time[at].tolist(), strict=True):
            key = self._flows.key(flow)
            for path in (CnpPath(key.interface, key.src, key.dst), CnpPath(key.interface, key.src)):
                self._space(path, time)
        obeying = self._streams.answers[packets.flow[at]]
        for flow in np.unique(obeying[obeying >= 0]).tolist():
            self._measure(packets, flow, packets.time[at[obeying == flow]])

    def _space(self, path: CnpPath, time: int) -> None:
        if path in self._last:
            self.least[path] = min(self.least.get(path, time), time - self._last[path])
        elif len(self._last) >= _MOST:
            return
        self._last[path] = time

    def _measure(self, packets: Sorted, flow: int, cnps: Ints) -> None:
        """Measure the gaps behind a flow's data packets that are near its CNPs."""
        begin, end = np.searchsorted(packets.flow, [flow, flow + 1]).tolist()
        data = np.arange(begin, end)[packets.payload[begin:end] > 0]
        if len(data) < 2 or (flow not in self._after and len(self._after) >= _MOST):
            return
        times = packets.time[data]
        bits = (packets.length[data[:-1]] + WIRE_OVERHEAD) * 8
        pace = np.diff(times) * _MEGABIT // bits  # in ns per megabit
        behind = np.searchsorted(times, cnps, "right")
        near = np.zeros(len(pace), np.bool_)
        for first in behind.tolist():
            near[first : first + NEAR] = True
        if flow not in self._after:
            self._after[flow] = Times()
            self._before[flow] = Times()
            first = int(behind[0]) - 1  # the gap in which the CNP arrives belongs to neither
            self._before[flow].add(pace[max(first - NEAR, 0) : max(first, 0)])
        self._after[flow].add(pace[near])

    def rates(self, flow: int) -> tuple[float, float]:
        """Return the median rate of a flow's packets before its first CNP and after CNPs, in bit/s; 0 without any."""
        before, after = (_rate(times.get(flow)) for times in (self._before, self._after))
        return before, after


def _rate(paces: Times | None) -> float:
    middle = 0.0 if paces is None else paces.quantile(0.5)
    return _MEGABIT / middle if middle else 0.0
