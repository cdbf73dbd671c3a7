"""``rocelab qos``: its commands, of which those about a running fabric need what presets and plans do without."""

from __future__ import annotations

from typing import ClassVar

import typer

from lab.cli.lazy import LazyGroup


class QosCommands(LazyGroup):
    """Commands about running ports first, then those about values."""

    commands_at: ClassVar = {
        "show": ("lab.cli.traffic.qos", "show"),
        "set": ("lab.cli.traffic.qos", "set_"),
        "events": ("lab.cli.traffic.qos", "list_events"),
        "presets": ("lab.cli.traffic.qos_presets", "presets"),
        "plan": ("lab.cli.traffic.qos_plan", "plan"),
    }


app = typer.Typer(
    cls=QosCommands,
    no_args_is_help=True,
    help="Show and change lossless ports, list their events, compare presets, and calculate thresholds.",
)


@app.callback()
def qos() -> None:
    """Show and change lossless ports, list their events, compare presets, and calculate thresholds."""
