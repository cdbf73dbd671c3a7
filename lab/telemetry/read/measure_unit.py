"""Units of measures, and how values are written with them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from lab.units import RATE_STEPS, SIZE_STEPS, TIME_STEPS, format_rate, format_size, format_time

_FEW: Final = 10
"""Below this many events per second a decimal is shown."""


class MeasureUnit(StrEnum):
    """The unit of a value, as written behind it."""

    BITS_PER_SECOND = "bit/s"
    BYTES = "B"
    SECONDS = "s"
    SHARE = "share of the time"
    PACKETS = "packets"
    FRAMES = "frames"
    EVENTS = "events"
    PACKETS_PER_SECOND = "packets/s"
    FRAMES_PER_SECOND = "frames/s"
    EVENTS_PER_SECOND = "events/s"

    @property
    def per_second(self) -> bool:
        """Whether the unit is a count per second."""
        return self in PER_SECOND.values()

    def write(self, value: float) -> str:
        """Return a value with its unit, shortened. Counts have no unit: the title names it."""
        match self:
            case MeasureUnit.BITS_PER_SECOND:
                return format_rate(round(value))
            case MeasureUnit.BYTES:
                return format_size(round(value))
            case MeasureUnit.SECONDS:
                return format_time(value)
            case MeasureUnit.SHARE:
                return f"{value:.1%}"
        return f"{value:.1f}" if self.per_second and value < _FEW else f"{value:.0f}"

    @property
    def steps(self) -> tuple[tuple[float, str], ...]:
        """The scales of this unit, largest first, each as a lower bound, which is also the divisor, and a suffix."""
        match self:
            case MeasureUnit.BITS_PER_SECOND:
                return tuple((factor, f" {unit}") for factor, unit in RATE_STEPS)
            case MeasureUnit.BYTES:
                return tuple((factor, f" {unit}") for factor, unit in SIZE_STEPS)
            case MeasureUnit.SECONDS:
                return tuple((factor, f" {unit}") for factor, unit in TIME_STEPS)
            case MeasureUnit.SHARE:
                return ((0.01, "%"),)
        end = "/s" if self.per_second else ""
        return (1e6, f"M{end}"), (1e3, f"k{end}"), (1, end)


PER_SECOND: Final = {
    MeasureUnit.PACKETS: MeasureUnit.PACKETS_PER_SECOND,
    MeasureUnit.FRAMES: MeasureUnit.FRAMES_PER_SECOND,
    MeasureUnit.EVENTS: MeasureUnit.EVENTS_PER_SECOND,
}
"""The unit of a rate, by the unit of what is counted."""
