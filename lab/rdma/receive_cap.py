"""What perftest says was completed, beside the packets that arrived for it."""

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
    """Who knows by how much the counters of devices grew in a second."""

    def rate(self, device: str, counter: str) -> float | None:
        """None when that is not known."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """What a receiver counted in the window, beside the messages that were counted in it."""

    host: str
    received: int
    """Packets."""
    messages: int
    of_messages: int
    """Packets that these messages take; what was received besides came again, out of order, or of others."""

    def __str__(self) -> str:
        others = self.received - self.of_messages
        what = f"{self.host}: {self.received} packets received = {self.of_messages} of its {self.messages} messages"
        if others < 0:
            return f"{what} - {-others} that had come before"
        return f"{what} + {others} besides (sent again, out of order, ACKs, of messages at either end)"


def arrivals(
    results: Sequence[BandwidthResult], pairs: Sequence[Pair], verb: Verb, meter: Meter
) -> tuple[Arrived, ...]:
    """What each receiver counted, beside the messages of ``results``."""
    return tuple(
        Arrived(
            str(nic),
            meter.grown(nic.device, _RECEIVED),
            sum(result.messages for result in mine),
            sum(result.packets for result in mine),
        )
        for nic, mine in _by_receiver(results, pairs, verb)
    )


def no_faster(
    results: Sequence[BandwidthResult], pairs: Sequence[Pair], verb: Verb, rates: RateSource
) -> tuple[BandwidthResult, ...]:
    """``results``, over as many seconds as their packets took to arrive where that is longer than they say.

    perftest counts what it finds completed. When it had no CPU, at the beginning of its window it finds a whole send
    queue of each QP that was completed before; messages under way at both ends are counted whole; and the signal that
    ends its window may come late. Packets are counted when they come.
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
