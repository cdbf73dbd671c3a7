"""A fabric in the DOT language, for Graphviz: ``dot -Tsvg``."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from lab.model.draw.palette import TIERS, tenant_colours
from lab.model.overlay.tenancy import tenants_of_ends
from lab.model.topology import Role
from lab.units import format_rate, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.model.topology import Endpoint, Link, Topology


def draw_graphviz(topology: Topology) -> str:
    """Return a graph with tiers as ranks and pods as clusters; links carry their interfaces and rate."""
    return "\n".join(_lines(topology)) + "\n"


def _lines(topology: Topology) -> Iterator[str]:
    yield f"graph {_quoted(topology.name)} {{"
    yield "  graph [rankdir=TB, ranksep=1.1, nodesep=0.3, newrank=true, color=gray70, style=dashed];"
    yield '  node [shape=box, style="rounded,filled", fontname=Helvetica, fontsize=12];'
    yield "  edge [color=gray50, fontname=Helvetica, fontsize=8];"
    for pod, members in groupby(sorted(topology.nodes, key=lambda node: node.pod), key=lambda node: node.pod):
        if pod:
            yield f"  subgraph cluster_pod{pod} {{ label={_quoted(f'pod {pod}')};"
        for node in members:
            fill, line = TIERS[node.role]
            yield f'  {_quoted(node.name)} [fillcolor="{fill}", color="{line}"];'
        if pod:
            yield "  }"
    for role in Role:
        if names := " ".join(f"{_quoted(node.name)};" for node in topology.having(role)):
            yield f"  {{ rank=same; {names} }}"
    tenants = tenants_of_ends(topology)
    colours = {end: tenant_colours(topology)[tenant] for end, tenant in tenants.items()}
    yield from (_edge(topology, link, colours) for link in topology.links)
    yield "}"


def _edge(topology: Topology, link: Link, colours: Mapping[Endpoint, str]) -> str:
    """Return an edge, the upper end first, so that Graphviz ranks it higher; a tenant's links have its colour."""
    lower, upper = topology.lower_first(link)
    label = format_rate(link.rate) + (f", {format_time(link.delay)}" if link.delay else "")
    return (
        f"  {_quoted(upper.node)} -- {_quoted(lower.node)} [label={_quoted(label)},"
        f" headlabel={_quoted(lower.interface)}, taillabel={_quoted(upper.interface)}"
        + (f', color="{colours[lower]}"];' if lower in colours else "];")
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
