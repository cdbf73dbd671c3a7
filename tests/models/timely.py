"""TIMELY as the paper describes it: Mittal et al., TIMELY: RTT-based Congestion Control for the Datacenter, 2015.

Algorithm 1: below T_low the rate grows by delta, and above T_high it shrinks by how far the RTT is above it. Between
the two the gradient of the RTT decides. After five completions in a row without growth of the RTT, increases are five
times as large (hyper-active increase). Parameters are those that HPCC's evaluation uses at 10 Gb/s
(github.com/alibaba-edu/High-Precision-Congestion-Control, simulation/run.py, rdma-hw.cc).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class TimelyParameters:
    """Parameters: times in seconds, rates in bit/s."""

    line_rate: float
    step: float = 10e6
    weight: float = 0.875
    """Weight of a new difference of RTTs in its moving average."""
    beta: float = 0.8
    low: float = 50e-6
    high: float = 500e-6
    minimum_rtt: float = 20e-6
    minimum: float = 1e6
    hyper_after: int = 5
    hyper_factor: int = 5


def timely_rates(parameters: TimelyParameters, rtts: Iterable[float], start: float | None = None) -> Iterator[float]:
    """Yield the rate after each RTT in seconds; the first one only sets the reference."""
    p = parameters
    rate = p.line_rate if start is None else start
    difference, calm, before = 0.0, 0, None
    for rtt in rtts:
        if before is not None:
            difference = (1 - p.weight) * difference + p.weight * (rtt - before)
            gradient = difference / p.minimum_rtt
            calm = calm + 1 if rtt < p.low or (rtt <= p.high and gradient <= 0) else 0
            if rtt < p.low:
                rate += p.step
            elif rtt > p.high:
                rate *= 1 - p.beta * (1 - p.high / rtt)
            elif gradient <= 0:
                rate += p.step * (p.hyper_factor if calm >= p.hyper_after else 1)
            else:
                rate *= max(1 - p.beta * gradient, 0)
            rate = min(max(rate, p.minimum), p.line_rate)
        before = rtt
        yield rate
