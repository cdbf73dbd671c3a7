"""The group ``rocelab qos``; presets and plans need none of the imports for running fabrics."""

from __future__ import annotations

from typing import ClassVar

import typer

from lab.cli.command_groups import LazyGroup
from lab.cli.command_registry import COMMANDS


class QosCommands(LazyGroup):
    """Lists commands about running ports first, then those about values."""

    entries: ClassVar = {entry.name: entry for entry in COMMANDS["qos"].below}


app = typer.Typer(
    cls=QosCommands,
    no_args_is_help=True,
    help="Show and change lossless ports, list their events, compare presets, and calculate thresholds.",
)


@app.callback()
def qos() -> None:
    """Show and change lossless ports, list their events, compare presets, and calculate thresholds."""
