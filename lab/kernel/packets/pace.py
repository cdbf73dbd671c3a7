"""The rate of a sender, and the time at which each packet is due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lab.units import parse_rate

SLACK: Final = 0.1
"""Seconds of delay that a sender makes up for. A longer delay is not made up, which bounds the burst."""


@dataclass(frozen=True, slots=True)
class Pace:
    """``per_second`` packets, or bits counted from the Ethernet header to the byte before the FCS."""

    per_second: int
    counts_bits: bool = False

    @classmethod
    def parse(cls, text: str) -> Pace:
        """Parse packets per second (``"1000"``, ``"1000pps"``) or a rate (``"10Mbit"``).

        Raises ValueError for other text, and for 0.
        """
        packets = text.strip().lower().removesuffix("pps").rstrip()
        pace = cls(int(packets)) if packets.isdecimal() else cls(parse_rate(text), counts_bits=True)
        if pace.per_second == 0:
            raise ValueError(f"{text!r} would never send")
        return pace

    def takes(self, size: int) -> float:
        """Return the seconds that a packet of ``size`` bytes occupies at this pace."""
        return (size * 8 if self.counts_bits else 1) / self.per_second


class Schedule:
    """The due times of packets, by a token bucket with a depth of ``SLACK`` seconds."""

    def __init__(self, pace: Pace, now: float) -> None:
        self._pace = pace
        self.due = now
        """Time at which the next packet is due; in the past if the sender is behind."""

    def take(self, size: int, now: float) -> None:
        """Account for a packet of ``size`` bytes that is sent now."""
        self.due = max(self.due, now - SLACK) + self._pace.takes(size)
