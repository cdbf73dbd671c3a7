"""The commands that README and the pages of lab/docs show, as a reader would type them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "README.md"
PAGES: Final = sorted((ROOT / "lab" / "docs").glob("*.md"))
_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$|((?:^    \S.*\n)+)", re.MULTILINE | re.DOTALL)
_EXPLAINED: Final = re.compile(r" {3,}\S.*$")
_STARTS: Final = ("rocelab ", "./scripts/", "sudo rocelab ", "pipx ", "python3 ", "sudo apt-get ", ". ")


def blocks(text: str) -> Iterator[list[str]]:
    """The commands of each block of a page that has some; a line is cut before what explains it.

    In a block with output, commands begin with a prompt. A backslash at the end of a line continues it.
    """
    for match in _BLOCK.finditer(text):
        lines = [line.strip() for line in (match[2] or match[3] or "").replace("\\\n", "").splitlines()]
        prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        plain = [_EXPLAINED.sub("", line) for line in lines if line.startswith(_STARTS)]
        if found := prompted or (plain if match[1] in ("", "sh") else []):
            yield found


def commands(text: str) -> list[str]:
    """All of them, in the order of the page."""
    return [command for block in blocks(text) for command in block]


def section(text: str, heading: str) -> str:
    """A page from a heading, without its signs, up to the next."""
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no heading {heading}"
    return found[1]


def wheel_commands() -> list[str]:
    """The commands that the page about installation shows to a user of the wheel, in a folder of their choice."""
    page = (ROOT / "lab/docs/install.md").read_text(encoding="utf-8")
    return [line for line in commands(section(page, "From a wheel")) if line.startswith("rocelab ")]


def headers(text: str) -> list[list[str]]:
    """The column names of each table that a page or an output shows."""
    rows = re.findall(r"^┃(.*)┃$", text, re.MULTILINE)
    return [[cell.strip() for cell in row.split("┃")] for row in rows]
