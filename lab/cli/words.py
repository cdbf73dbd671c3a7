"""What a command line says before it is run: which command it is of, and which of its words are files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, SupportsIndex

import typer

from lab.vm.handover import NamedFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WRITTEN: Final = {"--output", "--plot"}
"""Options whose file the command writes, also where nobody has typed it: a folder that is its default."""


def fabric_of(words: Sequence[str]) -> str | None:
    """The running fabric that the words after ``rocelab`` name."""
    return next((value for value, options, _ in _given(words) if "--fabric" in options), None)


def named_files(words: Sequence[str]) -> list[NamedFile]:
    """The files that the words after ``rocelab`` name, as the parameters of their command are declared.

    Their places count from ``rocelab`` itself.
    """
    found = []
    for value, options, typed in _given([_Placed(word, place) for place, word in enumerate(words, 1)]):
        written = bool(_WRITTEN.intersection(options))
        for number, file in enumerate(value if isinstance(value, list | tuple) else [value]):
            named = isinstance(file, Path) or (written and isinstance(file, str))
            if not named or str(file) == "-":
                continue
            if number < len(typed):
                found.append(NamedFile(str(typed[number]), written, (typed[number].place,)))
            elif written and str(file) != ".":
                found.append(NamedFile(str(Path(file)), written, ()))
    return found


class _Placed(str):
    """A word, or the end of one that has its option before it, and the place that it has in the command line."""

    place: int

    def __new__(cls, text: str, place: int) -> Self:
        self = super().__new__(cls, text)
        self.place = place
        return self

    def __getitem__(self, which: SupportsIndex | slice) -> Self:
        return type(self)(super().__getitem__(which), self.place)

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return [type(self)(part, self.place) for part in super().split(sep, maxsplit)]


def _given(words: Sequence[str]) -> Iterator[tuple[Any, list[str], list[Any]]]:
    """Of each parameter of the command that ``words`` call its value, option names, and the words of that value."""
    from lab.cli.main import app  # noqa: PLC0415 - it imports this

    command = typer.main.get_command(app)
    context = command.make_context("rocelab", list(words), resilient_parsing=True)
    rest = list(words)
    while isinstance(command, typer.core.TyperGroup):
        rest = [*context._protected_args, *context.args]  # noqa: SLF001 - as Typer's own completion does
        found = command.get_command(context, rest[0]) if rest else None
        if found is None:
            return
        command = found
        context = command.make_context(rest[0], rest[1:], parent=context, resilient_parsing=True)
    typed, _, _ = command.make_parser(context).parse_args(rest[1:])
    for parameter in command.params:
        if parameter.name in context.params:
            word = typed.get(parameter.name)
            several = list(word) if isinstance(word, list | tuple) else [] if word is None else [word]
            yield context.params[parameter.name], parameter.opts, several
