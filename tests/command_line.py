"""The command line of rocelab, parsed and walked as rocelab does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer
from typer.core import TyperGroup

from lab.cli import command_line
from lab.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.cli.command_line import CommandLine
    from lab.cli.typer_internals import Command
    from lab.vm.calls.handover import NamedFile

ROCELAB: Final = typer.main.get_command(app)


def parsed(words: Sequence[str] | str) -> CommandLine:
    """The options and arguments that rocelab reads from the words after its name."""
    return command_line.parse(ROCELAB, words.split() if isinstance(words, str) else words)


def named_files(words: Sequence[str]) -> list[NamedFile]:
    """The files that the words after ``rocelab`` name, with their places counted from ``rocelab`` itself."""
    return parsed(words).files(["rocelab", *words])


def every_command(command: Command = ROCELAB, *path: str) -> Iterator[tuple[str, Command]]:
    """Each command that can run, with its path: ``fault heal``."""
    if isinstance(command, TyperGroup):
        context = typer.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from every_command(below, *path, name)
    else:
        yield " ".join(path), command
