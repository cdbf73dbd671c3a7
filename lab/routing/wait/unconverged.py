"""What a switch must have before a fabric has converged, and how what it lacks is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.routing.daemons import Router

NEXT_HOP: Final = "next hop on"


@dataclass(frozen=True, slots=True)
class RouteGap:
    """One entry of a table that is not as it must be: what its next hops lack, or have too many."""

    switch: str
    prefix: str
    """Or whatever else the entry is of."""
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    hop: str = NEXT_HOP
    """What a next hop is called."""

    def __str__(self) -> str:
        parts = [f"has no {self.hop} {', '.join(self.missing)}"] if self.missing else []
        if self.extra:
            preposition = self.hop.split()[-1]
            parts.append(f"has one too many {preposition} {', '.join(self.extra)}")
        return f"{self.switch}: {self.prefix} {' and '.join(parts)}"


class RouteExpectation(Protocol):
    """Something that a switch must have."""

    def gaps(self, router: Router) -> Sequence[RouteGap]:
        """What it lacks of it, read now."""


def compare(
    switch: str, expected: Mapping[str, frozenset[str]], actual: Mapping[str, frozenset[str]], hop: str = NEXT_HOP
) -> list[RouteGap]:
    """Where ``actual`` differs from ``expected``; entries that nobody expects are nobody's business."""
    found = []
    for prefix, hops in expected.items():
        have = actual.get(prefix, frozenset())
        if have != hops:
            found.append(RouteGap(switch, prefix, tuple(sorted(hops - have)), tuple(sorted(have - hops)), hop))
    return found
