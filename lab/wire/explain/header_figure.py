"""Draw a header in the style of RFCs: 32 bits a row, each field as wide as its bits."""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROW: Final = 32
_KEPT: Final = 64
"""Cached figures: more than there are kinds of headers in captures."""
_RULER: Final = (
    " " + "".join(f"{bit // 10 if bit % 10 == 0 else ' '} " for bit in range(_ROW)).rstrip(),
    " " + " ".join(str(bit % 10) for bit in range(_ROW)),
)


@lru_cache(_KEPT)
def draw(fields: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """Return the lines of a figure; ``fields`` are names and widths in bits, in wire order. Results are cached.

    Names are truncated to the width of their field. A field over several rows has its name in the widest row.
    """
    owners = [number for number, (_, bits) in enumerate(fields) for _ in range(bits)]
    rows = [owners[start : start + _ROW] for start in range(0, len(owners), _ROW)]
    named = {number: _widest(rows, number) for number in set(owners)}
    lines = list(_RULER)
    above: list[int] = []
    for index, row in enumerate(rows):
        lines.append(_separator(above, row))
        cells = [(number, len(list(bits))) for number, bits in groupby(row)]
        texts = [fields[number][0] if named[number] == index else "" for number, _ in cells]
        lines.append("|" + "|".join(_cell(text, bits) for text, (_, bits) in zip(texts, cells, strict=True)) + "|")
        above = row
    return *lines, _separator(above, [])


def _widest(rows: Sequence[Sequence[int]], number: int) -> int:
    """Return the row with most bits of the field; of equal rows the middle one, rounded down."""
    counts = [row.count(number) for row in rows]
    best = [index for index, count in enumerate(counts) if count == max(counts)]
    return best[(len(best) - 1) // 2]


def _cell(text: str, bits: int) -> str:
    room = 2 * bits - 1
    return text[:room].center(room)


def _separator(above: Sequence[int], below: Sequence[int]) -> str:
    """Return a line with dashes between the two rows wherever their fields differ."""
    width = max(len(above), len(below))
    upper, lower = ([*row, *[-1] * (width - len(row))] for row in (above, below))
    edges = ["-" if upper[bit] != lower[bit] else " " for bit in range(width)]
    marks = [
        "+" if "-" in {edges[bit - 1] if bit else "-", edges[bit] if bit < width else "-"} else " "
        for bit in range(width + 1)
    ]
    return "".join(mark + edge for mark, edge in zip(marks, [*edges, ""], strict=True))
