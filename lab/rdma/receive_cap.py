"""Compare perftest's completed messages with the packets that receivers counted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from lab.rdma.measure import receiver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.rdma.measure import BandwidthResult, Nic, Pair, Verb
    from lab.rdma.window_counters import Meter

_RECEIVED = "rcvd_pkts"


class RateSource(Protocol):
    """A source of growth rates of device counters."""

    def rate(self, device: str, counter: str) -> float | None:
        """Return the growth of a counter per second; None if unknown."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A receiver's packet counter in the window, and the messages completed in it."""

    host: str
    received: int
    """Packets."""
    messages: int
    of_messages: int
    """Packets of these messages; the others were retransmitted, out of order, or of other traffic."""

    def __str__(self) -> str:
        others = self.received - self.of_messages
        what = f"{self.host}: {self.received} packets received = {self.of_messages} of its {self.messages} messages"
        if others < 0:
            return f"{what} - {-others} that had come before"
        return f"{what} + {others} besides (sent again, out of order, ACKs, of messages at either end)"


def arrivals(
    results: Sequence[BandwidthResult], pairs: Sequence[Pair], verb: Verb, meter: Meter
) -> tuple[Arrived, ...]:
    """Return the packet count of each receiver, with the messages of ``results``."""
    return tuple(
        Arrived(
            host=str(nic),
            received=meter.grown(nic.device, _RECEIVED),
            messages=sum(result.messages for result in mine),
            of_messages=sum(result.packets for result in mine),
        )
        for nic, mine in _by_receiver(results, pairs, verb)
    )


def no_faster(
    results: Sequence[BandwidthResult], pairs: Sequence[Pair], verb: Verb, rates: RateSource
) -> tuple[BandwidthResult, ...]:
    """Return ``results`` with durations extended to the time in which their packets arrived, if that is longer.

    perftest counts completions that it finds. If it had no CPU, it finds a whole send queue of each QP at the start
    of its window that was completed before. Messages in flight at either end are counted whole, and the signal that
    ends the window may be late. The device counts packets when they arrive.
    """
    seconds: dict[Nic, float] = {}
    for nic, mine in _by_receiver(results, pairs, verb):
        if rate := rates.rate(nic.device, _RECEIVED):
            seconds[nic] = sum(result.packets for result in mine) / rate
    return tuple(
        _over(result, seconds.get(receiver(pair, verb), 0.0)) for result, pair in zip(results, pairs, strict=True)
    )


def _by_receiver(
    results: Sequence[BandwidthResult], pairs: Sequence[Pair], verb: Verb
) -> Iterator[tuple[Nic, list[BandwidthResult]]]:
    for nic in dict.fromkeys(receiver(pair, verb) for pair in pairs):
        yield nic, [result for result, pair in zip(results, pairs, strict=True) if receiver(pair, verb) == nic]


def _over(result: BandwidthResult, seconds: float) -> BandwidthResult:
    if seconds <= result.duration_s:
        return result
    goodput = round(result.messages * result.size * 8 / seconds)
    return replace(result, duration_s=seconds, goodput_bps=goodput)
