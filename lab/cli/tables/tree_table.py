"""The spanning tree of a fabric of plain VLANs as a table with a row for each port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.output import stdout, table
from lab.routing.frr_config.render import has_routers
from lab.routing.spanning_tree import SpanningTree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.backends.backend import Fabric
    from lab.backends.health import NodeHealth

_COLUMNS: Final = ("switch", "port", "peer", "role", "state", "cost", "to the root")


def tree_of(fabric: Fabric, nodes: Sequence[NodeHealth]) -> SpanningTree | None:
    """Return the tree from the health of all nodes; None if the switches route."""
    if has_routers(fabric.topology):
        return None
    return SpanningTree(fabric.topology, {node.name: node.tree for node in nodes if node.role.is_switch})


def as_tree(tree: SpanningTree) -> dict[str, Any]:
    """Return the tree's part of ``rocelab status --json``, without the ports."""
    blocked = [str(link) for link in tree.blocked]
    return {"root": tree.root, "links": len(tree.links), "blocked": blocked, "gaps": list(tree.gaps)}


def show_tree(tree: SpanningTree) -> None:
    """Print all ports, blocked links, and errors."""
    stdout.print(table(f"spanning tree, root {tree.root or 'not agreed on'}", _COLUMNS, _rows(tree)))
    blocked = " ".join(str(link) for link in tree.blocked)
    said = f"{len(tree.blocked)} of {len(tree.links)} links between switches are blocked: {blocked or 'none'}"
    for line in (said, *tree.gaps):
        stdout.print(line, markup=False, highlight=False)


def _rows(tree: SpanningTree) -> Iterator[tuple[object, ...]]:
    peers = {str(end): link.other(end) for link in tree.topology.links for end in link.ends}
    for name, switch in tree.switches.items():
        for port in switch.ports if switch is not None else ():
            cost = switch.cost if switch is not None else ""
            yield name, port.name, peers.get(f"{name}:{port.name}", ""), port.role, port.state, port.cost, cost
