"""DCQCN in the registers of NVIDIA's NICs, with their resolution: alpha has 10 bits, rates are whole bit/s.

Written from the description of the registers. A CNP raises two flags. The alpha timer folds one into alpha, and the
decrease timer turns the other into a cut. Increases come by a timer and a byte counter. The first CNP of a QP starts
the timers. A decrease period of 0 means the paper's rule: every CNP cuts, and alpha moves with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.models.dcqcn.trace import RateState

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class NvidiaRegisters:
    """The registers: times in ns, rates in bit/s, ``byte_reset`` in bytes (0: off).

    Two are no registers. ``exact``: alpha is a real number up to 1024 instead of 10 bits, to tell what the bits cost.
    ``forgets``: a QP that has recovered to the line rate has no limiter any longer, so its next CNP is a first one.
    """

    line_rate: int
    time_reset: int = 300_000
    byte_reset: int = 32_767 * 64
    threshold: int = 1
    ai_rate: int = 5_000_000
    hai_rate: int = 50_000_000
    gd: int = 11
    min_dec_fac: int = 50
    min_rate: int = 1_000_000
    dce_tcp_g: int = 1019
    dce_tcp_rtt: int = 1_000
    monitor_period: int = 4_000
    initial_alpha: int = 1023
    rate_on_first_cnp: int = 0
    clamp: bool = False
    clamp_after_time_inc: bool = True
    exact: bool = False
    forgets: bool = False


class NvidiaReactionPoint:
    """One QP's rate by the registers."""

    def __init__(self, registers: NvidiaRegisters) -> None:
        self._r = registers
        self._rate = self._target = registers.line_rate
        self._alpha: float = 0
        self._alpha_flag = self._cut_flag = False
        self._by_timer = self._by_bytes = self._bytes = 0
        self._started = False
        self._alpha_at = self._cut_at = self._increase_at = 0

    def pending(self) -> int | None:
        """Return the time of the earliest timer; None before the first CNP."""
        if not self._started:
            return None
        timers = [self._alpha_at, self._increase_at]
        return min([*timers, self._cut_at] if self._r.monitor_period else timers)

    def cnp(self, time: int) -> Iterator[RateState]:
        """Raise the flags; the first CNP sets alpha and the rate, and starts the timers."""
        r, first = self._r, not self._started or (self._r.forgets and self._has_recovered())
        self._alpha_flag = self._cut_flag = True
        if first:
            self._started = True
            self._alpha, self._alpha_flag = r.initial_alpha, False
            self._alpha_at, self._cut_at = time + r.dce_tcp_rtt, time + r.monitor_period
            self._increase_at = time + r.time_reset
            self._by_timer = self._by_bytes = self._bytes = 0
            self._rate = self._target = r.rate_on_first_cnp or r.line_rate
            self._cut_flag = not r.rate_on_first_cnp
        if not r.monitor_period and self._cut_flag:
            self._cut(time)
            self._move_alpha(flag=True)
            self._alpha_flag = False
            self._alpha_at = time + r.dce_tcp_rtt
        yield self._state(time, "cnp")

    def fire(self, time: int) -> Iterator[RateState]:
        """Run the timers that are due: alpha, then the cut, then the increase."""
        r = self._r
        if self._alpha_at == time:
            self._move_alpha(flag=self._alpha_flag)
            self._alpha_flag = False
            self._alpha_at = time + r.dce_tcp_rtt
            yield self._state(time, "alpha")
        if r.monitor_period and self._cut_at == time:
            self._cut_at = time + r.monitor_period
            if self._cut_flag:
                self._cut(time)
                yield self._state(time, "decrease")
        if self._increase_at == time:
            self._increase()
            self._by_timer += 1
            self._increase_at = time + r.time_reset
            yield self._state(time, "timer")

    def sent(self, time: int, size: int) -> Iterator[RateState]:
        """Count bytes of a QP that has received a CNP."""
        if not self._started or not self._r.byte_reset:
            return
        self._bytes += size
        while self._bytes >= self._r.byte_reset:
            self._bytes -= self._r.byte_reset
            self._increase()
            self._by_bytes += 1
            yield self._state(time, "bytes")

    def _has_recovered(self) -> bool:
        return self._rate + 1 >= self._r.line_rate and self._target >= self._r.line_rate and not self._cut_flag

    def _move_alpha(self, *, flag: bool) -> None:
        moved = self._r.dce_tcp_g * self._alpha / 1024 + (1024 - self._r.dce_tcp_g if flag else 0)
        self._alpha = moved if self._r.exact else min(int(moved), 1023)

    def _cut(self, time: int) -> None:
        r = self._r
        if r.clamp or self._by_bytes or (r.clamp_after_time_inc and self._by_timer):
            self._target = self._rate
        reduction = min(int(self._rate * self._alpha / 2**r.gd), self._rate * (100 - r.min_dec_fac) // 100)
        self._rate = max(self._rate - reduction, r.min_rate)
        self._cut_flag = False
        self._by_timer = self._by_bytes = self._bytes = 0
        self._increase_at = time + r.time_reset

    def _increase(self) -> None:
        r = self._r
        counts = (self._by_timer, self._by_bytes) if r.byte_reset else (self._by_timer,)
        if min(counts) > r.threshold:
            self._target += r.hai_rate
        elif max(counts) >= r.threshold:
            self._target += r.ai_rate
        self._target = min(self._target, r.line_rate)
        self._rate = (self._rate + self._target) // 2

    def _state(self, time: int, event: str) -> RateState:
        return RateState(time, event, self._rate, self._target, self._alpha / 1024)
