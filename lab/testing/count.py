"""Numbers that know what they count, so that a failed assert says more than two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST: Final = 12
"""Lines that a failed assert has of one number."""


class Count(int):
    """A number, what it is of, and lines that tell what it is made of. It compares and adds as any int."""

    what: str
    parts: tuple[str, ...]

    def __new__(cls, value: int, what: str, parts: Iterable[str] = ()) -> Self:
        """``parts`` are lines for a reader, the most telling first."""
        made = super().__new__(cls, value)
        made.what, made.parts = what, tuple(parts)
        return made

    def __repr__(self) -> str:
        return f"{int(self)} ({self.what})"

    __str__ = int.__repr__


def explain(operator: str, left: object, right: object) -> list[str] | None:
    """What pytest prints of a comparison with such a number in it that failed; None where there is none."""
    counts = [each for each in (left, right) if isinstance(each, Count)]
    if not counts:
        return None
    lines = [f"{left!r} {operator} {right!r}"]
    for count in counts:
        lines += count.parts[:MOST]
        if len(count.parts) > MOST:
            lines.append(f"... and {len(count.parts) - MOST} more")
    return lines
