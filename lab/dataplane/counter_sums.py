"""Figures with short names that are sums of port counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.dataplane.counter_names import COUNTERS, CounterScope
from lab.dataplane.port_layout import CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.dataplane.counter_names import PortCounter

SUMS: Final[Mapping[str, str]] = {
    "drops": "queue{n}_drop_",
    "pauses": "tx_prio{n}_pause",
    "marks": "queue{n}_ecn_marked",
    "ignored": "rx_prio{n}_pause_ignored",
    "storms": "queue{n}_storms",
}
"""Short names, and the counters of all queues or priorities that they sum; ``drops`` are packets, for any reason."""


def known_figures() -> set[str]:
    """Return the short names and the names of all counters."""
    return {*SUMS, *(name for counter in COUNTERS for name in _names(counter))}


def counters_of(figure: str) -> set[str]:
    """Return the counters that a figure sums: one, or those of all queues or priorities; empty for unknown names."""
    if figure not in SUMS:
        return {figure} & known_figures()
    name = SUMS[figure]
    found = [
        counter
        for counter in COUNTERS
        if counter.name == name
        or (figure == "drops" and counter.name.startswith(name) and counter.name.endswith("_packets"))
    ]
    return {each for counter in found for each in _names(counter)}


def is_gauge(figure: str) -> bool:
    """Return whether the figure is a gauge: several ports are combined by their maximum, not their sum."""
    return any(counter.gauge and figure in _names(counter) for counter in COUNTERS)


def _names(counter: PortCounter) -> Iterator[str]:
    numbers = range(1) if counter.scope is CounterScope.PORT else range(CLASSES)
    return (counter.name_of(number) for number in numbers)
