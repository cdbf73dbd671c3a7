"""Device counters over the window of a measurement."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lab.rdma import device_counters
from lab.rdma.perftest_session import RESOLUTION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lab.rdma.perftest_session import Exchange


@dataclass(frozen=True, slots=True)
class Balance:
    """The packets of all hosts: ``sent`` and ``received`` by devices, ``dropped`` by ports if known.

    ``under_way`` are the others: those in queues and CPUs at the end of the window, less those at its beginning. It
    includes packets for a QP that has ended meanwhile: rxe drops these without counting them.
    """

    sent: int
    received: int
    dropped: int | None
    """None if no port counts drops."""

    @property
    def under_way(self) -> int:
        """Packets neither received nor known to be dropped; negative if more were under way at the beginning."""
        return self.sent - self.received - (self.dropped or 0)

    def __str__(self) -> str:
        dropped = "" if self.dropped is None else f" + {self.dropped} dropped by ports"
        more = "more at the end than at the beginning" if self.under_way >= 0 else "more at the beginning"
        way = f"+ {self.under_way}" if self.under_way >= 0 else f"- {-self.under_way}"
        return f"{self.sent} packets sent = {self.received} received{dropped} {way} under way ({more})"


class Meter:
    """Reads device counters at the beginning and end of a measurement; ``begin`` discards earlier values."""

    def __init__(self, names: Mapping[str, str], drops: Callable[[], int] | None = None) -> None:
        """``names`` maps a device to its host's name; ``drops`` returns the total of packets dropped by ports."""
        self._names = names
        self._drops = drops or (lambda: 0)
        self._knows_drops = drops is not None
        self._counters = device_counters.Open(names)
        self.first: float | None = None
        """When the measurement of the first pair began, in seconds of CLOCK_MONOTONIC; None until it is known."""
        self.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._counters.close()

    def begin(self) -> None:
        """Begin the measurement."""
        self._began, self._before = time.monotonic(), self._counters.read()
        self._ended, self._after = self._began, self._before
        self._dropped_before = self._dropped = self._drops()

    def end(self) -> None:
        """End the measurement."""
        self._after = self._counters.read()
        self._ended = time.monotonic()  # after the counters: a late read makes the window longer, never shorter
        self._dropped = self._drops()

    @property
    def seconds(self) -> float:
        """The length of the measurement."""
        return self._ended - self._began

    def balance(self) -> Balance:
        """Return where the packets of the window are."""
        grown = self.moved().values()
        sent, received = (sum(host.get(name, 0) for host in grown) for name in ("sent_pkts", "rcvd_pkts"))
        return Balance(sent, received, self._dropped - self._dropped_before if self._knows_drops else None)

    def grown(self, device: str, counter: str) -> int:
        """Return the growth of a device's counter; KeyError if the device is not measured."""
        return self._after[device].get(counter, 0) - self._before[device].get(counter, 0)

    def rate(self, device: str, counter: str, until: float = math.inf) -> float | None:
        """Return a counter's growth per second, all of it before ``until``; None if the device is not measured."""
        seconds = min(self._ended, until) - self._began
        if device not in self._names or seconds <= 0:
            return None
        return self.grown(device, counter) / seconds

    def moved(self) -> dict[str, dict[str, int]]:
        """Return the growth of each host's counters, without those that did not grow."""
        return {
            name: device_counters.moved(self._before[device], self._after[device])
            for device, name in self._names.items()
        }


@dataclass(slots=True)
class MeasureWindow:
    """The common window of pairs that each measure for ``seconds``, from ``margin`` after their first packet.

    The window lasts from the first pair's start to the last pair's end; ``meter`` is read at both.
    """

    exchanges: Sequence[Exchange]
    margin: float
    seconds: float
    meter: Meter
    begun: bool = False
    ended: bool = False

    def rate(self, device: str, counter: str) -> float | None:
        """Return a counter's growth per second during the transfers; None if it was not read meanwhile.

        Without a free CPU the read may be late. All growth then came before the end of the margin after the last
        pair.
        """
        began = [exchange.began_at for exchange in self.exchanges if exchange.began_at]
        if not self.begun or not began:
            return None
        return self.meter.rate(device, counter, max(began) + self.seconds + 2 * self.margin)

    def look(self) -> float:
        """Read the meter if it is due; return the seconds until the next call."""
        began = [exchange.began_at for exchange in self.exchanges if exchange.began_at]
        if not began:
            return RESOLUTION
        begin, end = min(began) + self.margin, max(began) + self.margin + self.seconds
        now = time.monotonic()
        if not self.begun and now >= begin:
            self.meter.begin()
            self.begun = True
        if len(began) < len(self.exchanges):
            return RESOLUTION
        if self.begun and not self.ended and now >= end:
            self.meter.end()
            self.ended = True
        return math.inf if self.ended else max(0.0, (end if self.begun else begin) - now)
