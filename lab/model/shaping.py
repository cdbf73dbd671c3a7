"""The numbers of a link that is only shaped: what it queues at its rate, and while it is delayed."""

from __future__ import annotations

from typing import Final

from lab.units import WIRE_OVERHEAD

_BURST: Final = 1e-3
_MINIMUM_FRAMES: Final = 64


def shaper_limit(rate: int, mtu: int) -> int:
    """Bytes that a shaped port queues before it drops: 5 ms of its rate, and never fewer than 64 frames."""
    return max(rate // 8 // 200, _MINIMUM_FRAMES * (mtu + WIRE_OVERHEAD))


def shaper_burst(rate: int, mtu: int) -> float:
    """Seconds of its rate that a port may send at once: 1 ms, and never less than two frames."""
    return max(_BURST, 2 * 8 * (mtu + WIRE_OVERHEAD) / rate)


def delay_limit(delay: float, rate: int, mtu: int) -> int:
    """Packets that may be under way on a link that takes ``delay`` seconds: all that fit, at 64 bytes each."""
    return round(delay * rate / 8 / 64 + shaper_limit(rate, mtu) / 64)
