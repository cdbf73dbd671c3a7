"""What devices count while something is measured, and not before it or after."""

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
    """Packets of all hosts: ``sent`` and ``received`` by their devices, ``dropped`` by ports where that is known.

    ``under_way`` are the others: in queues and CPUs at the end of the window, less those at its beginning. Those that
    arrive for a QP that has ended meanwhile stay among them: rxe drops them, and counts them nowhere.
    """

    sent: int
    received: int
    dropped: int | None
    """None where no port counts drops."""

    @property
    def under_way(self) -> int:
        """What is neither received nor known to be dropped; below 0 when there was more at the beginning."""
        return self.sent - self.received - (self.dropped or 0)

    def __str__(self) -> str:
        dropped = "" if self.dropped is None else f" + {self.dropped} dropped by ports"
        more = "more at the end than at the beginning" if self.under_way >= 0 else "more at the beginning"
        way = f"+ {self.under_way}" if self.under_way >= 0 else f"- {-self.under_way}"
        return f"{self.sent} packets sent = {self.received} received{dropped} {way} under way ({more})"


class Meter:
    """Reads the counters of devices when what is measured begins and when it ends; to begin anew forgets the old."""

    def __init__(self, names: Mapping[str, str], drops: Callable[[], int] | None = None) -> None:
        """``names`` are what the host of each device is called; ``drops`` has all packets that ports ever dropped."""
        self._names = names
        self._drops = drops or (lambda: 0)
        self._knows_drops = drops is not None
        self._counters = device_counters.Open(names)
        self.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._counters.close()

    def begin(self) -> None:
        """What is measured begins now."""
        self._began, self._before = time.monotonic(), self._counters.read()
        self._ended, self._after = self._began, self._before
        self._dropped_before = self._dropped = self._drops()

    def end(self) -> None:
        """It ends now."""
        self._after = self._counters.read()
        self._ended = time.monotonic()  # read late, it was counted for longer, never for shorter
        self._dropped = self._drops()

    @property
    def seconds(self) -> float:
        """How long was measured."""
        return self._ended - self._began

    def balance(self) -> Balance:
        """Where the packets of the window are."""
        grown = self.moved().values()
        sent, received = (sum(host.get(name, 0) for host in grown) for name in ("sent_pkts", "rcvd_pkts"))
        return Balance(sent, received, self._dropped - self._dropped_before if self._knows_drops else None)

    def grown(self, device: str, counter: str) -> int:
        """By how much one counter of a device grew; KeyError when the device is not read."""
        return self._after[device].get(counter, 0) - self._before[device].get(counter, 0)

    def rate(self, device: str, counter: str, until: float = math.inf) -> float | None:
        """What a counter grew by in a second, when it did so before ``until``; None when the device is not read."""
        seconds = min(self._ended, until) - self._began
        if device not in self._names or seconds <= 0:
            return None
        return self.grown(device, counter) / seconds

    def moved(self) -> dict[str, dict[str, int]]:
        """By how much each counter of each host grew meanwhile, without those that did not."""
        return {
            name: device_counters.moved(self._before[device], self._after[device])
            for device, name in self._names.items()
        }


@dataclass(slots=True)
class MeasureWindow:
    """The common window of pairs that each measure for ``seconds``, from ``margin`` after their first packet on.

    It is from when the first of them begins until the last ends; ``meter`` is read at both.
    """

    exchanges: Sequence[Exchange]
    margin: float
    seconds: float
    meter: Meter
    begun: bool = False
    ended: bool = False

    def rate(self, device: str, counter: str) -> float | None:
        """What a counter grew by in a second while they transferred; None when it was never read meanwhile.

        Who has no CPU may read it late: what it grew by came before the margin behind the last of them was over.
        """
        began = [exchange.began_at for exchange in self.exchanges if exchange.began_at]
        if not self.begun or not began:
            return None
        return self.meter.rate(device, counter, max(began) + self.seconds + 2 * self.margin)

    def look(self) -> float:
        """Read the meter if its moment has come; return in how many seconds to look again."""
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
