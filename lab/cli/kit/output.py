"""How answers look: a table for people, JSON for programs, both from the same data."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lab.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import ConsoleOptions, RenderableType

    from lab.errors import LabError

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

_WIDTH_IN_A_FILE: Final = 132
BROKEN_PIPE: Final = 141
"""The exit code when nobody reads the output any more: that of a program that SIGPIPE ended, 128 + 13."""


class _SafeConsole(Console):
    """A console that prints no control character of the text that it is given: only its own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as Rich does; whatever text recordings, captures and programs contain cannot drive the terminal."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """End with ``BROKEN_PIPE``: Rich would end with 1, which means "fail" here."""
        self.quiet = True
        end_unread()


def end_unread() -> NoReturn:
    """End because nobody reads standard output any more, without a word about it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(BROKEN_PIPE)


def _consoles() -> tuple[Console, Console]:
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDTH_IN_A_FILE
    return _SafeConsole(width=wide), _SafeConsole(stderr=True)


stdout, stderr = _consoles()


def look_again() -> None:
    """Have the consoles be those of the streams and the environment of now: a fork's are not its parent's."""
    for console, anew in zip((stdout, stderr), _consoles(), strict=True):
        vars(console).update(vars(anew))


class JsonStream:
    """Whether standard output has any of the answer: what fails later must not write another document behind it."""

    begun = False


def print_error(error: LabError) -> None:
    """What went wrong, on a line of standard error."""
    stderr.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)


def print_note(line: str) -> None:
    """Something worth knowing beside the answer, on a line of standard error."""
    stderr.print(line, markup=False, highlight=False, soft_wrap=True)


def print_progress(line: str) -> None:
    """What happens to the VM, on a line of standard error."""
    stderr.print(f"vm: {line}", style="dim", markup=False, highlight=False, soft_wrap=True)


def print_json(data: Any) -> None:
    """Write ``data`` to standard output as JSON; sets, addresses and paths become strings.

    Dataclasses are objects, and sequences that make their items are never in memory as a whole.
    """
    JsonStream.begun = True
    json.dump(data, sys.stdout, indent=2, default=_plain)
    sys.stdout.write("\n")


class _Coming(list[Any]):
    """What ``json`` takes for a list: the items of a sequence, each when its turn comes."""

    def __init__(self, items: Sequence[Any]) -> None:
        super().__init__(items[:1])
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return _Coming(value) if isinstance(value, Sequence) else str(value)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table whose numbers are right-aligned; cells are printed as they are, never read as markup."""
    heading = Text(title, style="bold", no_wrap=True, overflow="ignore")  # not broken by how narrow its columns are
    drawn = Table(title=heading if title else None, title_justify="left", header_style="bold cyan")
    materialised = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numeric = bool(materialised) and all(isinstance(row[index], int | float) for row in materialised)
        drawn.add_column(Text(column), justify="right" if numeric else "left", overflow="fold")
    for row in materialised:
        drawn.add_row(*(_cell(value) for value in row))
    return drawn


def _cell(value: object) -> Text:
    """A cell as ``Text``: Rich would read a string as markup, and replace ``:name:`` by an emoji."""
    return Text(printable("" if value is None else str(value)))
