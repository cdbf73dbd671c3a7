"""Queue and burst limits of links without an emulated port: a shaper, and a delay line."""

from __future__ import annotations

from typing import Final

from lab.units import WIRE_OVERHEAD

_BURST: Final = 1e-3
_MINIMUM_FRAMES: Final = 64


def shaper_limit(rate: int, mtu: int) -> int:
    """Return the bytes that a shaped port queues before it drops: 5 ms of its rate, and at least 64 frames."""
    return max(rate // 8 // 200, _MINIMUM_FRAMES * (mtu + WIRE_OVERHEAD))


def shaper_burst(rate: int, mtu: int) -> float:
    """Return the burst of a shaped port in seconds of its rate: 1 ms, and at least two frames."""
    return max(_BURST, 2 * 8 * (mtu + WIRE_OVERHEAD) / rate)


def delay_limit(delay: float, rate: int, mtu: int) -> int:
    """Return the packets in flight on a link with ``delay`` seconds: as many 64-byte packets as fit."""
    return round(delay * rate / 8 / 64 + shaper_limit(rate, mtu) / 64)
