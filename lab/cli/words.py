"""What a command line says before it is run: which command it is of, and which of its words are files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from lab.vm.handover import NamedFile, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WRITTEN: Final = {"--output", "--plot"}
"""Options whose file the command writes, also where nobody has typed it: a folder that is its default."""


def fabric_of(words: Sequence[str]) -> str | None:
    """The running fabric that the words after ``rocelab`` name."""
    return next((value for value, options in _given(words) if "--fabric" in options), None)


def named_files(words: Sequence[str]) -> list[NamedFile]:
    """The files that the words after ``rocelab`` name, as the parameters of their command are declared."""
    typed = {str(Path(value_of(word))): value_of(word) for word in words}
    found = []
    for value, options in _given(words):
        written = bool(_WRITTEN.intersection(options))
        for file in value if isinstance(value, list | tuple) else [value]:
            named = isinstance(file, Path) or (written and isinstance(file, str))
            if not named or str(file) == "-":
                continue
            path = str(Path(file))
            if path in typed or (written and path != "."):
                found.append(NamedFile(typed.get(path, path), written))
    return found


def _given(words: Sequence[str]) -> Iterator[tuple[Any, list[str]]]:
    """Value and option names of each parameter of the command that ``words`` call."""
    from lab.cli.main import app  # noqa: PLC0415 - it imports this

    command = typer.main.get_command(app)
    context = command.make_context("rocelab", list(words), resilient_parsing=True)
    while isinstance(command, typer.core.TyperGroup):
        rest = [*context._protected_args, *context.args]  # noqa: SLF001 - as Typer's own completion does
        found = command.get_command(context, rest[0]) if rest else None
        if found is None:
            return
        command = found
        context = command.make_context(rest[0], rest[1:], parent=context, resilient_parsing=True)
    for parameter in command.params:
        if parameter.name in context.params:
            yield context.params[parameter.name], parameter.opts
