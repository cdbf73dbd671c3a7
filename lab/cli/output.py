"""How answers look: a table for people, JSON for programs, both from the same data."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.errors import LabError

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

_WIDTH_IN_A_FILE: Final = 132


def _consoles() -> tuple[Console, Console]:
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDTH_IN_A_FILE
    return Console(width=wide), Console(stderr=True)


stdout, stderr = _consoles()


def look_again() -> None:
    """Have the consoles be those of the streams and the environment of now: a fork's are not its parent's."""
    for console, anew in zip((stdout, stderr), _consoles(), strict=True):
        vars(console).update(vars(anew))


class Answer:
    """Whether standard output has any of the answer: what fails later must not write another document behind it."""

    begun = False


def print_error(error: LabError) -> None:
    """What went wrong, on a line of standard error."""
    stderr.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)


def print_progress(line: str) -> None:
    """What happens to the VM, on a line of standard error."""
    stderr.print(f"vm: {line}", style="dim", markup=False, highlight=False, soft_wrap=True)


def print_json(data: Any) -> None:
    """Write ``data`` to standard output as JSON; sets, addresses and paths become strings."""
    Answer.begun = True
    json.dump(data, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table whose numbers are right-aligned; cells are printed as they are, never read as markup."""
    heading = Text(title, style="bold", no_wrap=True, overflow="ignore")  # not broken by how narrow its columns are
    drawn = Table(title=heading, title_justify="left", header_style="bold cyan")
    materialised = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numeric = bool(materialised) and all(isinstance(row[index], int | float) for row in materialised)
        drawn.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in materialised:
        drawn.add_row(*(_cell(value) for value in row))
    return drawn


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return text.replace("[", r"\[")
