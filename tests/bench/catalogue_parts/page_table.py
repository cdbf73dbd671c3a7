"""Writes a table that a command made into a page of the documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def with_table(
    page: str, heading: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], summary: str = ""
) -> str:
    """Return a page with the summary and the table in place of what is below the heading, or at its end."""
    before, found, after = page.partition(heading)
    lines = [summary, ""] if summary else []
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    rest = after.partition("\n## ")[2]
    front = before if found else f"{before.rstrip()}\n\n"
    text = "\n".join(lines)
    return f"{front}{heading}\n\n{text}\n" + (f"\n## {rest}" if rest else "")
