"""Decide which values changed between two runs, and order the changes by size.

A value has changed if it is 0 in exactly one of the two runs, or if it differs by more than a share of the larger
value (``THRESHOLD``). A rate of traffic must also differ by ``NOISE`` of the highest such rate: routing protocols and
neighbour discovery always send a little. A counter that is 0 in one run only is always reported. The peak of a gauge
is ignored below ``NOISE`` of the highest such peak: whether a sample catches a single packet is chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lab.telemetry.read.measure_unit import MeasureUnit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.report.compare.figures_in_window import WindowFigure
    from lab.telemetry.read.window_measure import Measure

THRESHOLD: Final = 0.05
"""The minimum change, as a share of the larger value."""
NOISE: Final = 0.01
"""The minimum change of a rate of traffic or of a peak, as a share of the highest one of all lines."""


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """A measure of a port, device, phase or transfer in both runs."""

    of: str
    priority: int | None
    measure: Measure
    a: WindowFigure
    b: WindowFigure
    changed: bool = False
    weight: float = 0.0
    """The difference as a share of the measure's highest value in the whole comparison."""

    @property
    def difference(self) -> float:
        """The difference from A to B, in the measure's unit."""
        return self.b.value - self.a.value

    @property
    def percent(self) -> float | None:
        """The difference in percent of A; None if A is 0."""
        return self.difference / self.a.value * 100 if self.a.value else None


def ranked(values: Iterable[ComparedValue], threshold: float) -> tuple[ComparedValue, ...]:
    """Mark the values that changed and sort them: changed ones first, the largest change at the top."""
    held = list(values)
    highest: dict[str, float] = {}
    for each in held:
        highest[each.measure.name] = max(highest.get(each.measure.name, 0.0), each.a.value, each.b.value)
    judged = [_judged(each, highest[each.measure.name], threshold) for each in held]
    return tuple(sorted(judged, key=lambda each: (not each.changed, -each.weight)))


def _judged(value: ComparedValue, highest: float, threshold: float) -> ComparedValue:
    gap = abs(value.difference)
    one_is_zero = (value.a.value == 0) != (value.b.value == 0)
    least = threshold * max(value.a.value, value.b.value)
    if value.measure.unit is MeasureUnit.BITS_PER_SECOND or value.measure.gauge:
        least = max(least, NOISE * highest)
    counts = gap > least or (one_is_zero and not value.measure.gauge)
    return replace(value, changed=counts, weight=gap / highest if highest else 0.0)


def figure_text(measure: Measure, figure: WindowFigure) -> str:
    """Return a value with its unit; for a rate of events, the total and the rate."""
    if measure.unit.per_second:
        return f"{figure.total:.0f} ({figure.value:.3g}/s)" if figure.total else "0"
    return measure.format(figure.value)


def difference_text(value: ComparedValue) -> str:
    """Return the change from A to B with sign and unit: per second for counts, percentage points for shares."""
    sign = "+" if value.difference > 0 else "-" if value.difference < 0 else ""
    gap = abs(value.difference)
    if value.measure.unit.per_second:
        return f"{sign}{gap:.3g}/s"
    points = value.measure.unit is MeasureUnit.SHARE
    return f"{sign}{gap * 100:.1f} points" if points else f"{sign}{value.measure.format(gap)}"


def percent_text(value: ComparedValue) -> str:
    """Return the change in percent; "new" if the value in A is 0."""
    if value.percent is None:
        return "new" if value.b.value else ""
    return f"{value.percent:+.0f} %" if abs(value.percent) >= 10 else f"{value.percent:+.1f} %"
