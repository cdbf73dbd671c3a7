"""A sequence whose items are computed on access, so that only a few of many thousand flows are in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import eq
from typing import TYPE_CHECKING, Final, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable

Fact = TypeVar("Fact")
_KEPT: Final = 1024


class LazySequence(Sequence[Fact]):
    """``count`` items, each computed by ``make`` from its index.

    Up to ``keep`` items are all cached. For longer sequences only the last item is, as iteration never finds older
    ones.
    """

    def __init__(self, make: Callable[[int], Fact], count: int, keep: int = _KEPT) -> None:
        self._make = lru_cache(keep if count <= keep else 1)(make)
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Fact: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Fact, ...]: ...
    def __getitem__(self, index: int | slice) -> Fact | tuple[Fact, ...]:
        chosen = range(self._count)[index]
        return self._make(chosen) if isinstance(chosen, int) else tuple(map(self._make, chosen))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{self._count} facts>"
