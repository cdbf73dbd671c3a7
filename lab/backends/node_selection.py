"""Find nodes of a running fabric by the names that users give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.errors import UsageError

if TYPE_CHECKING:
    from lab.backends.backend import Fabric
    from lab.model.topology import Node


def node_of(fabric: Fabric, name: str) -> Node:
    """Return the node called ``name``; UsageError lists the nodes."""
    if name not in fabric.topology.by_name:
        raise UsageError(f"no node {name} in fabric {fabric.name}", f"there is {', '.join(fabric.topology.by_name)}")
    return fabric.topology.node(name)
