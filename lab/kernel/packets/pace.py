"""How fast to send, and when each packet is due by that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lab.units import parse_rate

SLACK: Final = 0.1
"""Seconds of delay that a sender makes up for; what it lost beyond them stays lost, so that no burst is longer."""


@dataclass(frozen=True, slots=True)
class Pace:
    """``per_second`` packets, or bits of them from the first octet of Ethernet to the last before the FCS."""

    per_second: int
    counts_bits: bool = False

    @classmethod
    def parse(cls, text: str) -> Pace:
        """``"1000"`` and ``"1000pps"`` are packets per second, ``"10Mbit"`` is a rate; ValueError else, or for 0."""
        packets = text.strip().lower().removesuffix("pps").rstrip()
        pace = cls(int(packets)) if packets.isdecimal() else cls(parse_rate(text), counts_bits=True)
        if pace.per_second == 0:
            raise ValueError(f"{text!r} would never send")
        return pace

    def takes(self, size: int) -> float:
        """Seconds that a packet of ``size`` bytes takes of the time."""
        return (size * 8 if self.counts_bits else 1) / self.per_second


class Schedule:
    """A token bucket with a depth of ``SLACK`` seconds, as the moments at which packets are due."""

    def __init__(self, pace: Pace, now: float) -> None:
        self._pace = pace
        self.due = now
        """When the next packet is due; in the past when the sender is behind."""

    def take(self, size: int, now: float) -> None:
        """A packet of ``size`` bytes is sent now."""
        self.due = max(self.due, now - SLACK) + self._pace.takes(size)
