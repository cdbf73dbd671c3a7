"""Expectations of a converged switch, and gaps: entries that do not match them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.routing.daemons import Router

NEXT_HOP: Final = "next hop on"


@dataclass(frozen=True, slots=True)
class RouteGap:
    """One table entry that differs: its missing and its extra next hops."""

    switch: str
    prefix: str
    """The prefix, or another key of the entry."""
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    hop: str = NEXT_HOP
    """The noun for a next hop in messages."""

    def __str__(self) -> str:
        parts = [f"has no {self.hop} {', '.join(self.missing)}"] if self.missing else []
        if self.extra:
            preposition = self.hop.split()[-1]
            parts.append(f"has one too many {preposition} {', '.join(self.extra)}")
        return f"{self.switch}: {self.prefix} {' and '.join(parts)}"


class RouteExpectation(Protocol):
    """An expectation of a switch in a converged fabric."""

    def gaps(self, router: Router) -> Sequence[RouteGap]:
        """Return the gaps, read now."""


def compare(
    switch: str, expected: Mapping[str, frozenset[str]], actual: Mapping[str, frozenset[str]], hop: str = NEXT_HOP
) -> list[RouteGap]:
    """Return the gaps between ``actual`` and ``expected``; entries without an expectation are ignored."""
    found = []
    for prefix, hops in expected.items():
        have = actual.get(prefix, frozenset())
        if have != hops:
            found.append(
                RouteGap(
                    switch=switch,
                    prefix=prefix,
                    missing=tuple(sorted(hops - have)),
                    extra=tuple(sorted(have - hops)),
                    hop=hop,
                )
            )
    return found
