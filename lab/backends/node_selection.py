"""What a user named, found in a running fabric, or an error that lists what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.errors import UsageError

if TYPE_CHECKING:
    from lab.backends.backend import Fabric
    from lab.model.topology import Node


def node_of(fabric: Fabric, name: str) -> Node:
    """The node called ``name``; UsageError lists the nodes."""
    if name not in fabric.topology.by_name:
        raise UsageError(f"no node {name} in fabric {fabric.name}", f"there is {', '.join(fabric.topology.by_name)}")
    return fabric.topology.node(name)
