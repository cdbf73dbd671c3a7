"""The groups of commands. A command's module is imported only when that command runs.

Start-up time dominates short commands in a VM without KVM, so ``rocelab ls`` must not import scapy.
"""

from __future__ import annotations

import functools
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import typer
from typer.core import TyperGroup

from lab.cli import vm_routing
from lab.cli.command_entry import CommandEntry
from lab.cli.command_line import Invocation, running_line, with_places
from lab.cli.command_registry import COMMANDS, suggestion_for
from lab.cli.kit import recorded_command
from lab.cli.typer_internals import convert_without_pydantic, leaves
from lab.errors import UsageError
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lab.cli.typer_internals import Command, Context


class LazyGroup(TyperGroup):
    """Finds its commands in the registry."""

    entries: ClassVar[Mapping[str, CommandEntry]] = {}

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the registry."""
        return list(self.entries)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:  # noqa: ARG002
        """Import and return a command; None if there is none of that name."""
        entry = self.entries.get(cmd_name)
        return None if entry is None else load_command(entry.name, entry.function)

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse as Typer does, but without pydantic for the options before the command."""
        convert_without_pydantic(self, ctx)
        return super().parse_args(ctx, args)


class Commands(LazyGroup):
    """The commands of ``rocelab`` itself."""

    entries: ClassVar = COMMANDS

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse as Typer does; words get their places, and the ``Invocation`` the values of the global options."""
        words = with_places(args)
        invocation = ctx.ensure_object(Invocation)
        invocation.words = list(words)
        rest = super().parse_args(ctx, list(words))
        invocation.debug = bool(ctx.params.get("debug"))
        return rest

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Resolve as Typer does; UsageError for an unknown command, with the most similar one."""
        if args and args[0] not in self.entries and not ctx.resilient_parsing:
            remedy = suggestion_for(args[0]) or suggest(args[0], self.entries, "rocelab --help lists all commands")
            raise UsageError(f"there is no command {args[0]}", remedy)
        invocation = ctx.ensure_object(Invocation)
        invocation.start = len(invocation.words) - len(args)
        return super().resolve_command(ctx, args)


@cache
def load_command(name: str, function: str) -> Command:
    """Return the command of a function or Typer app that the registry names; cached, because Typer is slow."""
    module, _, attribute = function.partition(":")
    target = getattr(import_module(f"lab.cli.{module}"), attribute)
    command: Command
    if isinstance(target, typer.Typer):
        command = typer.main.get_group(target)  # without --install-completion, which is an option of rocelab alone
    else:
        single = typer.Typer(add_completion=False)
        single.command(name, cls=getattr(target, "command_class", None))(target)
        command = typer.main.get_command(single)
    command.name = name
    convert_without_pydantic(command, typer.Context(command))
    for leaf in leaves(command):
        if leaf.callback is not None:
            leaf.callback = _routed(leaf.callback)
    return command


def _routed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that runs where ``vm_routing`` decides from the parsed command line."""

    @functools.wraps(function)
    def run(**values: Any) -> Any:
        line = running_line()
        line.context.ensure_object(Invocation).line = line
        if vm_routing.runs_in_vm(line):
            raise typer.Exit(vm_routing.run_in_vm(line))
        if line.entry.recorded:
            recorded_command.keep(["rocelab", *line.command])
        return function(**values)

    return run
