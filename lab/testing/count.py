"""Integers with a description, so that a failed assert explains them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST: Final = 12
"""The maximum number of lines for a number in a failed assert."""


class Count(int):
    """An int with a description, and lines that list its parts. It compares and adds like any int."""

    what: str
    parts: tuple[str, ...]

    def __new__(cls, value: int, what: str, parts: Iterable[str] = ()) -> Self:
        """Return a Count. ``parts`` are lines for a reader, the most important first."""
        made = super().__new__(cls, value)
        made.what, made.parts = what, tuple(parts)
        return made

    def __repr__(self) -> str:
        return f"{int(self)} ({self.what})"

    __str__ = int.__repr__


def explain(operator: str, left: object, right: object) -> list[str] | None:
    """Return pytest's lines for a failed comparison with a Count; None if neither side is one."""
    counts = [each for each in (left, right) if isinstance(each, Count)]
    if not counts:
        return None
    lines = [f"{left!r} {operator} {right!r}"]
    for count in counts:
        lines += count.parts[:MOST]
        if len(count.parts) > MOST:
            lines.append(f"... and {len(count.parts) - MOST} more")
    return lines
