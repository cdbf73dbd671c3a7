"""DCQCN as the paper describes it: Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015.

Section 3.1: a CNP sets the target to the rate, cuts the rate by alpha / 2, and moves alpha towards 1 (equation 1).
Without a CNP, alpha decays each alpha timer (equation 2). A timer and a byte counter raise the rate: F times halfway
to the target (fast recovery). Then the target grows by R_AI (additive increase), and by R_HAI once both have counted
beyond F (hyper increase). Any CNP starts over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.models.dcqcn.trace import RateState

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class PaperParameters:
    """The paper's parameters: times in ns, rates in bit/s; ``byte_counter`` 0 turns that counter off."""

    line_rate: float
    gain: float = 1 / 256
    alpha_timer: int = 55_000
    increase_timer: int = 55_000
    byte_counter: int = 10_000_000
    fast_recoveries: int = 5
    additive: float = 40e6
    hyper: float = 200e6
    minimum: float = 100e6


class PaperReactionPoint:
    """One QP's rate by the paper."""

    def __init__(self, parameters: PaperParameters) -> None:
        self._p = parameters
        self._rate = self._target = parameters.line_rate
        self._alpha = 1.0
        self._by_timer = self._by_bytes = self._bytes = 0
        self._alpha_at: int | None = None
        self._increase_at: int | None = None

    def pending(self) -> int | None:
        """Return when alpha decays or the rate rises next."""
        if self._alpha_at is None or self._increase_at is None:
            return None
        return min(self._alpha_at, self._increase_at)

    def cnp(self, time: int) -> Iterator[RateState]:
        """Equation 1, and the reset of both counters and timers."""
        p = self._p
        self._target = self._rate
        self._rate = max(self._rate * (1 - self._alpha / 2), p.minimum)
        self._alpha = (1 - p.gain) * self._alpha + p.gain
        self._by_timer = self._by_bytes = self._bytes = 0
        self._alpha_at, self._increase_at = time + p.alpha_timer, time + p.increase_timer
        yield self._state(time, "cnp")

    def fire(self, time: int) -> Iterator[RateState]:
        """Equation 2 at the alpha timer; an increase at the other."""
        if self._alpha_at == time:
            self._alpha *= 1 - self._p.gain
            self._alpha_at = time + self._p.alpha_timer
            yield self._state(time, "alpha")
        if self._increase_at == time:
            self._increase()
            self._by_timer += 1
            self._increase_at = time + self._p.increase_timer
            yield self._state(time, "timer")

    def sent(self, time: int, size: int) -> Iterator[RateState]:
        """Count bytes once a CNP was received."""
        if self._increase_at is None or not self._p.byte_counter:
            return
        self._bytes += size
        while self._bytes >= self._p.byte_counter:
            self._bytes -= self._p.byte_counter
            self._increase()
            self._by_bytes += 1
            yield self._state(time, "bytes")

    def _increase(self) -> None:
        p = self._p
        if not p.byte_counter:
            done, both = self._by_timer, self._by_timer
        else:
            done, both = max(self._by_timer, self._by_bytes), min(self._by_timer, self._by_bytes)
        if done >= p.fast_recoveries:
            self._target += p.hyper if both > p.fast_recoveries else p.additive
        self._target = min(self._target, p.line_rate)
        self._rate = (self._rate + self._target) / 2

    def _state(self, time: int, event: str) -> RateState:
        return RateState(time, event, self._rate, self._target, self._alpha)
