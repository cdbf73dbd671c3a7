"""The figures of ``rocelab expect``: measurements of perftest, and counters of ports."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.open_fabric import open_fabric
from lab.cli.traffic.counters import since_clear
from lab.dataplane import counter_sums
from lab.errors import UsageError
from lab.model.values.expectation import ExpectationUnit, FigureValue
from lab.model.values.link_selection import choose_ports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.model.values.expectation import Comparison

MEASURED: Final[Mapping[str, tuple[str, ExpectationUnit]]] = {
    "goodput": ("goodput_bps", ExpectationUnit.RATE),
    "p50": ("p50_s", ExpectationUnit.SECONDS),
    "p99": ("p99_s", ExpectationUnit.SECONDS),
    "p999": ("p999_s", ExpectationUnit.SECONDS),
    "max": ("max_s", ExpectationUnit.SECONDS),
}
"""The figures of ``rdma bw`` and ``lat``: their JSON field and unit."""


def known_figures() -> set[str]:
    """Return every figure that an expectation can name."""
    return {*MEASURED, *counter_sums.known_figures()}


class Measured:
    """Figures from documents of ``rocelab rdma bw --json`` and ``lat --json``."""

    def __init__(self, documents: Sequence[Any]) -> None:
        self._documents = [document for document in documents if isinstance(document, dict)]

    def see(self, comparison: Comparison) -> FigureValue:
        """Return the figure from the last document that has it: for all pairs, or for the two given hosts."""
        field, unit = MEASURED[comparison.figure]
        if len(comparison.arguments) not in {0, 2}:
            raise UsageError(f"{comparison.text}: {comparison.figure} is of two hosts", "write (h1,h4), or nothing")
        for document in reversed(self._documents):
            for result in _results(document, comparison.arguments):
                if isinstance(value := result.get(field), int | float):
                    return FigureValue(value, unit)
        return FigureValue(
            None, unit, "not measured: see --from" if self._documents else "nothing was measured: see --from"
        )


def _results(document: dict[str, Any], hosts: tuple[str, ...]) -> list[dict[str, Any]]:
    pairs = [pair for pair in document.get("pairs", ()) if isinstance(pair, dict)]
    if hosts:
        return [pair for pair in pairs if (pair.get("src"), pair.get("dst")) == hosts]
    every = document.get("all")
    return [every] if isinstance(every, dict) else pairs[:1] if len(pairs) == 1 else []


class LiveFigures:
    """Figures of the ports of a running fabric, which is opened on first use."""

    def __init__(self, fabric: str | None) -> None:
        self._name = fabric

    @cached_property
    def _fabric(self) -> Any:
        return open_fabric(self._name)

    @cached_property
    def _counters(self) -> dict[str, dict[str, dict[str, int]]]:
        return since_clear(self._fabric)

    def see(self, comparison: Comparison) -> FigureValue:
        """Return the sum over the given ports, or over all ports; for gauges, the maximum."""
        names = counter_sums.counters_of(comparison.figure)
        unit = ExpectationUnit.BYTES if comparison.figure.endswith("bytes") else ExpectationUnit.NUMBER
        topology = self._fabric.topology
        if topology.qos is None:
            return FigureValue(None, unit, "not counted: the fabric has no qos")
        ends = choose_ports(topology, list(comparison.arguments)) if comparison.arguments else None
        chosen = None if ends is None else {(end.node, end.interface) for end in ends}
        values = [
            value
            for node, interfaces in self._counters.items()
            for interface, counted in interfaces.items()
            if chosen is None or (node, interface) in chosen
            for name, value in counted.items()
            if name in names
        ]
        return FigureValue(max(values, default=0) if counter_sums.is_gauge(comparison.figure) else sum(values), unit)
