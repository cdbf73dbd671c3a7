"""Fit wide tables into narrow terminals: the least important columns are left out, and no cell is split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.cli.kit.output import table
from lab.errors import UsageError
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

_FRAME: Final = 3
"""Characters that a column takes in addition to its cells; the table itself takes one more."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its key; a higher ``rank`` is left out earlier, rank 0 never."""

    key: str
    head: str
    rank: int = 0


def left_out_note(keys: Sequence[str], remedy: str) -> str:
    """Return the line that names the columns left out on a narrow terminal; ``remedy`` shows how to see them."""
    return f"Columns left out on this narrow terminal: {', '.join(keys)}. {remedy}"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns of a table: those that the user selected, or as many as fit."""

    columns: Sequence[Column]
    asked: tuple[str, ...] | None = None

    @classmethod
    def parse(cls, columns: Sequence[Column], text: str | None) -> TableLayout:
        """Parse column names separated by commas; UsageError for an unknown name."""
        if text is None:
            return cls(columns)
        keys = [column.key for column in columns]
        asked = tuple(word.strip() for word in text.split(","))
        for word in asked:
            if word not in keys:
                raise UsageError(f"there is no column {word!r}", suggest(word, keys, f"choose from {','.join(keys)}"))
        return cls(columns, asked)

    def draw(self, title: str, rows: Sequence[Sequence[object]], width: int) -> tuple[Table, list[str]]:
        """Return the table in ``width`` characters, and the keys of non-empty columns that were left out."""
        texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
        kept = self._asked() if self.asked else self._fitting(texts, width)
        heads = [self.columns[place].head for place in kept]
        drawn = table(title, heads, [[row[place] for place in kept] for row in texts])
        left_out = (
            [] if self.asked else [column.key for place, column in enumerate(self.columns) if place not in kept]
        )
        empty = [column.key for place, column in enumerate(self.columns) if not any(row[place] for row in texts)]
        return drawn, [key for key in left_out if key not in empty]

    def _asked(self) -> list[int]:
        places = {column.key: place for place, column in enumerate(self.columns)}
        return [places[key] for key in self.asked or ()]

    def _fitting(self, rows: Sequence[Sequence[str]], width: int) -> list[int]:
        """Return the places of the columns that fit: empty columns go first, then those of the highest rank."""
        kept = list(range(len(self.columns)))
        wide = [
            max(len(column.head), *(len(row[place]) for row in rows), 0) + _FRAME
            for place, column in enumerate(self.columns)
        ]
        silent = {place for place in kept if rows and not any(row[place] for row in rows)}
        going = sorted(
            (place for place in kept if self.columns[place].rank),
            key=lambda place: (place in silent, self.columns[place].rank),
        )
        while going and sum(wide[place] for place in kept) + 1 > width:
            kept.remove(going.pop())
        return kept
