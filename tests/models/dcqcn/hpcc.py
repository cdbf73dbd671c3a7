"""DCQCN as in the simulator of HPCC's authors: github.com/alibaba-edu/High-Precision-Congestion-Control.

Described by its simulation/src/point-to-point/model/rdma-hw.cc ("Mellanox's version of DCQCN") and simulation/run.py.
Alpha is a real number and starts at 1. A check of the flag comes 1 ns after the update of alpha. There is no byte
counter; the increase timer starts at the first cut. The target follows the rate at a cut only after an increase.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.models.dcqcn.trace import RateState

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class HpccParameters:
    """The parameters of run.py for ``--cc dcqcn`` at 25 Gb/s: times in ns, rates in bit/s."""

    line_rate: float
    gain: float = 1 / 256
    alpha_interval: int = 1_000
    decrease_interval: int = 4_000
    increase_timer: int = 300_000
    fast_recoveries: int = 1
    additive: float = 5e6
    hyper: float = 50e6
    minimum: float = 1e9
    clamp_target: bool = False


class HpccReactionPoint:
    """One QP's rate by HPCC's simulator."""

    def __init__(self, parameters: HpccParameters) -> None:
        self._p = parameters
        self._rate = self._target = parameters.line_rate
        self._alpha = 1.0
        self._alpha_flag = self._decrease_flag = False
        self._stage = 0
        self._next: dict[str, int] = {}

    def pending(self) -> int | None:
        """Return the time of the earliest timer; None before the first CNP."""
        return min(self._next.values(), default=None)

    def cnp(self, time: int) -> Iterator[RateState]:
        """Raise both flags; the first one starts the timers, and does not count for alpha."""
        self._decrease_flag = True
        self._alpha_flag = bool(self._next)
        if not self._next:
            self._next["alpha"] = time + self._p.alpha_interval
            self._next["decrease"] = time + self._p.decrease_interval + 1
        yield self._state(time, "cnp")

    def fire(self, time: int) -> Iterator[RateState]:
        """Run the timers that are due."""
        p = self._p
        if self._next["alpha"] == time:
            self._alpha = (1 - p.gain) * self._alpha + (p.gain if self._alpha_flag else 0)
            self._alpha_flag = False
            self._next["alpha"] = time + p.alpha_interval
            yield self._state(time, "alpha")
        if self._next["decrease"] == time:
            self._next["decrease"] = time + p.decrease_interval
            if self._decrease_flag:
                self._decrease(time)
                yield self._state(time, "decrease")
        if self._next.get("increase") == time:
            self._next["increase"] = time + p.increase_timer
            self._increase()
            self._stage += 1
            yield self._state(time, "timer")

    def sent(self, _time: int, _size: int) -> Iterator[RateState]:
        """Ignore bytes: there is no byte counter."""
        return iter(())

    def _decrease(self, time: int) -> None:
        if self._p.clamp_target or self._stage > 0:
            self._target = self._rate
        self._rate = max(self._p.minimum, self._rate * (1 - self._alpha / 2))
        self._stage = 0
        self._decrease_flag = False
        self._next["increase"] = time + self._p.increase_timer

    def _increase(self) -> None:
        p = self._p
        if self._stage >= p.fast_recoveries:
            self._target += p.additive if self._stage == p.fast_recoveries else p.hyper
            self._target = min(self._target, p.line_rate)
        self._rate = (self._rate + self._target) / 2

    def _state(self, time: int, event: str) -> RateState:
        return RateState(time, event, self._rate, self._target, self._alpha)
