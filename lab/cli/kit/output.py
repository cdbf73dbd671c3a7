"""The output of commands: tables or JSON, both from the same data."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from rich.console import Console, ConsoleDimensions
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lab.errors import EnvironmentLacks, Interrupted
from lab.kernel.process.signals import ignore_from_now
from lab.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from _typeshed import ReadableBuffer
    from rich.console import ConsoleOptions, RenderableType

    from lab.errors import ExpectedError

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

_WIDTH_IN_A_FILE: Final = 132
_LEAST_WIDTH: Final = 40
"""Characters of a line, at least. In fewer, columns of a table have no room at all, and their content is lost."""
_NAME: Final = 20
"""Characters of a name of a row that is not wrapped, at most."""
_AROUND: Final = 3
"""Characters of a column besides its text: a border, and a space on either side."""
ERRORS: Final = "ROCELAB_ERRORS"
"""Variable of the environment: if it is ``json``, each error is printed as a line of JSON, for another rocelab."""
BROKEN_PIPE: Final = 141
"""The exit code if the reader of the output is gone, as after SIGPIPE: 128 + 13."""


class _SafeConsole(Console):
    """A console that escapes control characters in the text that it prints."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as Rich does, but escape text from recordings, captures and programs."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

    @property
    def size(self) -> ConsoleDimensions:
        """The size of the terminal, or of $COLUMNS; some programs set that to 0."""
        found = super().size
        return ConsoleDimensions(max(found.width, _LEAST_WIDTH), found.height)

    @size.setter
    def size(self, new: tuple[int, int]) -> None:
        self._width, self._height = new

    def on_broken_pipe(self) -> None:
        """Exit with ``BROKEN_PIPE``: Rich would exit with 1, which means "fail" here."""
        self.quiet = True
        end_unread()


def end_unread() -> NoReturn:
    """Exit silently because the reader of standard output is gone."""
    discard_output()
    sys.exit(BROKEN_PIPE)


def discard_output() -> None:
    """Send the rest of standard output, and what is still buffered, nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    if null != 1:
        os.close(null)


def complete() -> None:
    """Write the output of a command that leaves something running, and ignore Ctrl-C from now on.

    If its line cannot be written, or the command is interrupted before, its caller undoes all. Afterwards, the exit
    code is 0: it must not say that the command was interrupted.
    """
    try:
        sys.stdout.flush()
    except Interrupted:
        discard_output()  # nobody reads it
        raise
    ignore_from_now()


class _StandardOutput(FileIO):
    """Standard output. A failure to write it is an error of its own: exit code 1 would mean "fail".

    It is no OSError. Otherwise a command that reads a file would report that it cannot read that file.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        """Write as a file does; EnvironmentLacks if that fails, for example because a disk is full."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            discard_output()
            raise EnvironmentLacks(
                f"cannot write standard output: {error.strerror}", "redirect it to another file or disk"
            ) from error


def guard_output() -> None:
    """Make failures to write standard output errors of rocelab. A closed one discards what is written."""
    if sys.stdout is None:
        discard_output()
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for the process's life
    elif type(sys.stdout) is TextIOWrapper and sys.stdout.fileno() == 1:
        sys.stdout.flush()
        sys.stdout = TextIOWrapper(
            BufferedWriter(_StandardOutput(1, "w", closefd=False)),
            sys.stdout.encoding,
            sys.stdout.errors,
            line_buffering=sys.stdout.line_buffering,
            write_through=sys.stdout.write_through,
        )


def _consoles() -> tuple[Console, Console]:
    terminal = sys.stdout is not None and sys.stdout.isatty()  # None: it is closed
    wide = None if terminal or "COLUMNS" in os.environ else _WIDTH_IN_A_FILE
    return _SafeConsole(width=wide), _SafeConsole(stderr=True)


stdout, stderr = _consoles()


def look_again() -> None:
    """Update the consoles to the current streams and environment: after a fork, those of the parent are stale."""
    for console, anew in zip((stdout, stderr), _consoles(), strict=True):
        vars(console).update(vars(anew))


class JsonStream:
    """Whether JSON output has begun; after that, an error must not write a second document."""

    begun = False


def print_error(error: ExpectedError) -> None:
    """Print an error on a line of standard error. If that cannot be written either, the exit code still says it."""
    with contextlib.suppress(OSError):
        if os.environ.get(ERRORS) == "json":
            print(json.dumps({"error": error.as_data()}), file=sys.stderr)
            return
        stderr.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)


def print_note(line: str) -> None:
    """Print a note on a line of standard error."""
    stderr.print(line, markup=False, highlight=False, soft_wrap=True)


def print_progress(line: str) -> None:
    """Print progress of the VM on a line of standard error."""
    stderr.print(f"vm: {line}", style="dim", markup=False, highlight=False, soft_wrap=True)


def print_json(data: Any) -> None:
    """Write ``data`` to standard output as JSON; sets, addresses and paths become strings.

    Dataclasses become objects. Lazy sequences are written item by item, so that they are never in memory as a whole.
    """
    JsonStream.begun = True
    json.dump(data, sys.stdout, indent=2, default=_plain)
    sys.stdout.write("\n")


class _Coming(list[Any]):
    """A list for ``json`` that computes the items of a sequence during iteration."""

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
    """Return a table with right-aligned numbers; cells are never interpreted as markup.

    In a narrow terminal cells are wrapped, except for short ones of the first column: it names the rows. They are
    wrapped as well where they would leave no room for the other columns.
    """
    heading = Text(title, style="bold", no_wrap=True, overflow="ignore")  # no line breaks in narrow tables
    drawn = Table(title=heading if title else None, title_justify="left", header_style="bold cyan")
    materialised = [list(row) for row in rows]
    longest = max(cell.cell_len for cell in (Text(columns[0]), *(_cell(row[0]) for row in materialised)))
    fits = longest <= _NAME and longest + _AROUND + (len(columns) - 1) * (_AROUND + 1) < stdout.width
    for index, column in enumerate(columns):
        numeric = bool(materialised) and all(isinstance(row[index], int | float) for row in materialised)
        whole = not index and fits
        drawn.add_column(Text(column), justify="right" if numeric else "left", overflow="fold", no_wrap=whole)
    for row in materialised:
        drawn.add_row(*(_cell(value) for value in row))
    return drawn


def _cell(value: object) -> Text:
    """Return a cell as ``Text``: Rich would interpret a string as markup, and replace ``:name:`` by an emoji."""
    return Text(printable("" if value is None else str(value)))
