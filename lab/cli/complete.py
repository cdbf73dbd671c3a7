"""What the shell offers when a reader presses Tab."""

from __future__ import annotations

from lab.errors import LabError


def fabric_names() -> list[str]:
    """Fabrics on this machine."""
    from lab.backends import state  # noqa: PLC0415 - only the shell needs it, and commands wait for imports

    return [fabric.name for fabric in state.all_fabrics()]


def node_names() -> list[str]:
    """Nodes of all fabrics on this machine."""
    from lab.backends import state  # noqa: PLC0415

    names: set[str] = set()
    for fabric in state.all_fabrics():
        try:
            names.update(node.name for node in fabric.load_topology().nodes)
        except (LabError, OSError):
            continue
    return sorted(names)
