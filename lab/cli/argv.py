"""What a command line says before it is run: which command it is of, and which of its words are files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, SupportsIndex, TypeAlias

import typer

from lab.vm.calls.handover import NamedFile

if TYPE_CHECKING:
    from collections.abc import Sequence

_WRITTEN: Final = {"--output", "--plot"}
"""Options whose file the command writes, also where nobody has typed it: a folder that is its default."""
_Parameter: TypeAlias = tuple[str, Any, list[str], list[Any]]
"""Name, value, option names, and the words of that value."""


@dataclass(frozen=True)
class CommandLine:
    """A command line after ``rocelab``, as the parameters of its command are declared; nothing of it has run."""

    command: tuple[str, ...] = ()
    """The command and its subcommand: ``("fault", "heal")``."""
    values: dict[str, Any] = field(default_factory=dict)
    """Values by parameter name: a parameter that was not typed has its default, an invalid value is None."""
    fabric: str | None = None
    """The running fabric that ``--fabric`` names."""


def parse(words: Sequence[str]) -> CommandLine:
    """Parse the words after ``rocelab``; words that are no command give an empty ``CommandLine``."""
    path, parameters = _parsed(words)
    fabric = next((value for _, value, options, _ in parameters if "--fabric" in options), None)
    return CommandLine(tuple(path), {name: value for name, value, *_ in parameters}, fabric)


def named_files(words: Sequence[str]) -> list[NamedFile]:
    """The files that the words after ``rocelab`` name, as the parameters of their command are declared.

    Their places count from ``rocelab`` itself.
    """
    found = []
    for _, value, options, typed in _parsed([_Placed(word, place) for place, word in enumerate(words, 1)])[1]:
        written = bool(_WRITTEN.intersection(options))
        for number, file in enumerate(value if isinstance(value, list | tuple) else [value]):
            named = isinstance(file, Path) or (written and isinstance(file, str))
            if not named or str(file) == "-":
                continue
            if number < len(typed):
                found.append(NamedFile(str(typed[number]), written, (typed[number].place,)))
            elif written and str(file) != ".":
                found.append(NamedFile(str(Path(file)), written, (), options[0]))
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


def _parsed(words: Sequence[str]) -> tuple[list[str], list[_Parameter]]:
    """The names of the command that ``words`` call, and each of its parameters."""
    from lab.cli.app import app  # noqa: PLC0415 - it imports this

    command = typer.main.get_command(app)
    context = command.make_context("rocelab", list(words), resilient_parsing=True)
    path: list[str] = []
    rest = list(words)
    while isinstance(command, typer.core.TyperGroup):
        rest = [*context._protected_args, *context.args]  # noqa: SLF001 - as Typer's own completion does
        found = command.get_command(context, rest[0]) if rest else None
        if found is None:
            return path, []
        command = found
        path.append(rest[0])
        context = command.make_context(rest[0], rest[1:], parent=context, resilient_parsing=True)
    typed, _, _ = command.make_parser(context).parse_args(rest[1:])
    values = context.params
    return path, [
        (each.name, values[each.name], each.opts, _listed(typed.get(each.name)))
        for each in command.params
        if each.name in values
    ]


def _listed(word: Any) -> list[Any]:
    return list(word) if isinstance(word, list | tuple) else [] if word is None else [word]
