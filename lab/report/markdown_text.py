"""Escape text from recordings for Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lab.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SPECIAL: Final = re.compile(r"([\\`*{}\[\]<>|#~!$&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")


def plain(text: object) -> str:
    """Return text as one line, with all Markdown markup escaped."""
    return _SPECIAL.sub(r"\\\1", _line(text))


def code(text: object) -> str:
    """Return text as inline code on one line, with any backticks; bars are escaped for use in tables."""
    line = _line(text)
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    gap = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{gap}{line}{gap}{fence}".replace("|", "\\|")


def _line(text: object) -> str:
    return " ".join(printable(" ".join(str(text).split())).split())


def block(text: str) -> Iterator[str]:
    """Yield text unchanged in a fence that is longer than any in the text."""
    text = printable(text)
    fence = "`" * max(3, max(map(len, re.findall("`+", text)), default=0) + 1)
    yield from (f"{fence}text", text.rstrip("\n"), fence)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table and an empty line; cells are Markdown."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join(['---'] * len(columns))}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""
