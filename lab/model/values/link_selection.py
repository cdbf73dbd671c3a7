"""Select links by name.

``leaf1:swp1`` is one link, by an end; ``leaf1--spine1`` are all between two nodes; ``leaf1`` all of a node; ``leaf``
all of a tier; ``h1..h5`` all on the shortest paths.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lab.errors import UsageError
from lab.model.paths import on_shortest_paths
from lab.model.topology import Role
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.model.topology import Endpoint, Link, Topology

_BETWEEN = re.compile(r"--|,")
_PATH = ".."
FORMS = "write leaf1:swp1, leaf1--spine1, a node like leaf1, a tier like leaf, or a path like h1..h5"
"""The remedy for a name that matches no link."""
PORT_FORMS = "write leaf1:swp1, a node like leaf1, or a tier like leaf"
"""The same for ports."""


class Chosen(NamedTuple):
    """A link, with the end that was named first."""

    end: Endpoint
    link: Link


def choose_links(topology: Topology, names: Iterable[str]) -> tuple[Chosen, ...]:
    """Return the links that match ``names``, in their order, each once.

    UsageError is raised for a name without a match; it suggests similar ones.
    """
    chosen: dict[Link, Chosen] = {}
    for name in names:
        for choice in _named(topology, name.strip()):
            chosen.setdefault(choice.link, choice)
    return tuple(chosen.values())


def choose_ports(topology: Topology, names: Iterable[str]) -> tuple[Endpoint, ...]:
    """Return the ports that match ``names``, in order, each once: ``leaf1:swp1``, all of ``leaf1``, or of a tier.

    UsageError is raised for a name without a match.
    """
    chosen: dict[Endpoint, None] = {}
    for name in map(str.strip, names):
        if _PATH in name or _BETWEEN.search(name) or not name:
            raise UsageError(f"{name!r} names no port", PORT_FORMS)
        found = [_at(topology, name)] if ":" in name else _of_nodes(topology, name)
        chosen.update((choice.end, None) for choice in found)
    return tuple(chosen)


def every_port(topology: Topology) -> tuple[Endpoint, ...]:
    """All ports of a fabric, node by node."""
    return tuple(link.end_at(node.name) for node in topology.nodes for link in topology.links_of(node.name))


def _named(topology: Topology, name: str) -> list[Chosen]:
    if _PATH in name:
        return _along(topology, *name.split(_PATH, 1))
    first, *others = _BETWEEN.split(name)
    if not others and ":" in first:
        return [_at(topology, first)]
    if not others and first:
        return _of_nodes(topology, first)
    if len(others) != 1:
        raise UsageError(f"{name!r} names no link", FORMS)
    if ":" in first:
        return [_whole(topology, first, others[0])]
    return _between(topology, first, others[0])


def _known(topology: Topology, node: str) -> str:
    if node not in topology.by_name:
        remedy = suggest(node, topology.by_name, f"there is {', '.join(topology.by_name)}")
        raise UsageError(f"no node {node!r} in fabric {topology.name}", remedy)
    return node


def _of_nodes(topology: Topology, name: str) -> list[Chosen]:
    """Return all links of a node, or of all nodes of a tier; a node named like a tier takes precedence."""
    nodes = [node.name for node in topology.nodes if node.role == name]
    if name in topology.by_name:
        nodes = [name]
    elif not nodes:
        tiers = ", ".join(role for role in Role if topology.having(role))
        raise UsageError(
            f"no node or tier {name!r} in fabric {topology.name}",
            suggest(name, topology.by_name, f"there is {', '.join(topology.by_name)}; tiers are {tiers}"),
        )
    return [Chosen(link.end_at(node), link) for node in nodes for link in topology.links_of(node)]


def _along(topology: Topology, start: str, goal: str) -> list[Chosen]:
    ends = on_shortest_paths(topology, _known(topology, start), _known(topology, goal))
    if not ends:
        raise UsageError(
            f"no path from {start} to {goal} in fabric {topology.name}", "name two nodes that are joined"
        )
    return [_at(topology, str(end)) for end in ends]


def _at(topology: Topology, name: str) -> Chosen:
    node, _, interface = name.partition(":")
    links = topology.links_of(_known(topology, node))
    for link in links:
        if link.end_at(node).interface == interface:
            return Chosen(link.end_at(node), link)
    there = ", ".join(link.end_at(node).interface for link in links)
    raise UsageError(f"no interface {interface!r} on {node}", f"it has {there}")


def _whole(topology: Topology, first: str, second: str) -> Chosen:
    choice = _at(topology, first)
    other = choice.link.other(choice.end)
    if str(other) != second:
        raise UsageError(f"{first} does not lead to {second}", f"it leads to {other}")
    return choice


def _between(topology: Topology, first: str, second: str) -> list[Chosen]:
    _known(topology, second)
    links = topology.links_of(_known(topology, first))
    found = [Chosen(link.end_at(first), link) for link in links if link.other(link.end_at(first)).node == second]
    if not found:
        neighbours = dict.fromkeys(link.other(link.end_at(first)).node for link in links)
        raise UsageError(f"no link between {first} and {second}", f"{first} has links to {', '.join(neighbours)}")
    return found
