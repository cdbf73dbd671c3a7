"""A command group that imports a command's module only when that command runs.

Start-up is what a user of the software-emulated VM waits for most, so ``rocelab ls`` must not pay for scapy.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

import typer
from typer.core import TyperGroup

from lab.cli.kit.fast_coercion import take_plainly

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typer._click.core import Command, Context


class LazyGroup(TyperGroup):
    """Finds commands in ``commands_at``: name -> (module, attribute); the attribute is a function or a Typer app."""

    commands_at: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002
        """Names in the order of the table."""
        return list(self.commands_at)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:  # noqa: ARG002
        """Import and wrap one command, or None when there is none of that name."""
        if cmd_name not in self.commands_at:
            return None
        return wrapped(cmd_name, *self.commands_at[cmd_name])

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """As Typer does it; the options in front of the command are taken plainly, too."""
        take_plainly(self, ctx)
        return super().parse_args(ctx, args)


@cache
def wrapped(name: str, module: str, attribute: str) -> Command:
    """The command of this name that a module's function or Typer app is; made once, for Typer takes its time."""
    target = getattr(import_module(module), attribute)
    command: Command
    if isinstance(target, typer.Typer):
        command = typer.main.get_group(target)  # without --install-completion, which is an option of rocelab alone
    else:
        single = typer.Typer(add_completion=False)
        single.command(name, cls=getattr(target, "command_class", None))(target)
        command = typer.main.get_command(single)
    command.name = name
    take_plainly(command, typer.Context(command))
    return command
