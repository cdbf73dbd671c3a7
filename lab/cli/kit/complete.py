"""Shell completion of names."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from lab.errors import LabError


def fabric_names() -> list[str]:
    """Complete the fabrics on this machine."""
    from lab.backends import fabric_state  # noqa: PLC0415 - only the shell needs it, and commands wait for imports

    return [fabric.name for fabric in fabric_state.all_fabrics()]


def node_names() -> list[str]:
    """Complete the nodes of all fabrics on this machine."""
    from lab.backends import fabric_state  # noqa: PLC0415

    names: set[str] = set()
    for fabric in fabric_state.all_fabrics():
        try:
            names.update(node.name for node in fabric.load_topology().nodes)
        except (LabError, OSError):
            continue
    return sorted(names)


def port_names() -> list[str]:
    """Complete nodes and interfaces of all fabrics on this machine: leaf1, leaf1:swp1."""
    from lab.backends import fabric_state  # noqa: PLC0415
    from lab.model.values.link_selection import every_port  # noqa: PLC0415

    names: set[str] = set()
    for fabric in fabric_state.all_fabrics():
        with contextlib.suppress(LabError, OSError):
            names.update(name for end in every_port(fabric.load_topology()) for name in (end.node, str(end)))
    return sorted(names)


def run_names() -> list[str]:
    """Complete the recordings in recordings/."""
    return sorted(each.parent.name for each in Path("recordings").glob("*/recording.json"))


FabricOption = Annotated[
    str | None,
    typer.Option("--fabric", metavar="NAME", help="The fabric, if several run.", autocompletion=fabric_names),
]
"""The option --fabric of every command about a running fabric."""
