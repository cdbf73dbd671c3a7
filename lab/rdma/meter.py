"""What devices count while something is measured, and not before it or after."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lab.rdma import counters
from lab.rdma.session import RESOLUTION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.rdma.session import Exchange


class Meter:
    """Reads the counters of devices when what is measured begins and when it ends; to begin anew forgets the old."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """``names`` are what the host of each device is called."""
        self._names = names
        self._counters = counters.Open(names)
        self.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._counters.close()

    def begin(self) -> None:
        """What is measured begins now."""
        self._began, self._before = time.monotonic(), self._counters.read()
        self._ended, self._after = self._began, self._before

    def end(self) -> None:
        """It ends now."""
        self._ended, self._after = time.monotonic(), self._counters.read()

    @property
    def seconds(self) -> float:
        """How long was measured."""
        return self._ended - self._began

    def moved(self) -> dict[str, dict[str, int]]:
        """By how much each counter of each host grew meanwhile, without those that did not."""
        return {
            name: counters.moved(self._before[device], self._after[device]) for device, name in self._names.items()
        }


@dataclass(slots=True)
class Window:
    """The common window of pairs that each measure for ``seconds``, from ``margin`` after their first packet on.

    It is from when the first of them begins until the last ends; ``meter`` is read at both.
    """

    exchanges: Sequence[Exchange]
    margin: float
    seconds: float
    meter: Meter
    begun: bool = False
    ended: bool = False

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
