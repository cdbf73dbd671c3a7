"""Live changes of a link, like ``rate=50Mbit`` and ``delay=1ms``, at both of its ends.

Sizes that were configured as times keep their bytes, as a real switch's thresholds do at a new link speed. Sizes that
become too small cause a warning (``advice``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.errors import InvalidInput, Problem
from lab.model.topology import DELAY_RANGE, RATE_RANGE
from lab.units import format_rate, format_time, parse_rate, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.model.qos.port import PortQos

_SOURCE = "qos"


@dataclass(frozen=True, slots=True)
class LinkChange:
    """New rate in bit/s each way, and new delay in seconds one way; None keeps the old value."""

    rate: int | None = None
    delay: float | None = None

    def __bool__(self) -> bool:
        return self.rate is not None or self.delay is not None

    def applied(self, port: PortQos) -> PortQos:
        """Return one end of the link after the change."""
        rate = port.rate if self.rate is None else self.rate
        return replace(port, rate=rate, delay=port.delay if self.delay is None else self.delay)


def take_link_change(assignments: Iterable[str]) -> tuple[LinkChange, list[str]]:
    """Split ``assignments`` into the change of the link, and the remaining ones.

    InvalidInput is raised for a rate or delay that is invalid or out of a topology's range.
    """
    found: dict[str, str] = {}
    others = []
    for text in assignments:
        path, sign, value = text.partition("=")
        if sign and path.strip() in {"rate", "delay"}:
            found[path.strip()] = value.strip()
        else:
            others.append(text)
    return LinkChange(
        rate=_rate(found["rate"]) if "rate" in found else None,
        delay=_delay(found["delay"]) if "delay" in found else None,
    ), others


def _rate(text: str) -> int:
    low, high = RATE_RANGE
    try:
        rate = parse_rate(text)
    except ValueError as error:
        raise _refused("rate", str(error), "a link has one like 50Mbit") from error
    if not low <= rate <= high:
        raise _refused(
            "rate", f"{text} is out of range", f"choose {format_rate(low)} to {format_rate(high)}, as in a topology"
        )
    return rate


def _delay(text: str) -> float:
    low, high = DELAY_RANGE
    try:
        delay = parse_time(text)
    except ValueError as error:
        raise _refused("delay", str(error), "a link has one like 50us") from error
    if not low <= delay <= high:
        raise _refused("delay", f"{text} is out of range", f"choose 0 to {format_time(high)}, as in a topology")
    return delay


def _refused(path: str, message: str, remedy: str) -> InvalidInput:
    return InvalidInput(_SOURCE, [Problem(path, message, remedy)])
