"""A fabric as a Mermaid flowchart, which GitHub and many wikis draw from text."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from lab.model.draw.palette import INK, TIERS, tenant_colours
from lab.model.overlay.tenancy import tenants_of_ends
from lab.model.topology import Role
from lab.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.topology import Link, Node, Topology


def draw_mermaid(topology: Topology) -> str:
    """Return a flowchart from the top tier down, with pods as subgraphs and the rate of every link."""
    return "\n".join(_lines(topology)) + "\n"


def _lines(topology: Topology) -> Iterator[str]:
    yield "flowchart TB"
    identifiers = {node.name: f"n{number}" for number, node in enumerate(topology.nodes, start=1)}
    for pod, members in groupby(sorted(topology.nodes, key=lambda node: node.pod), key=lambda node: node.pod):
        if pod:
            yield f'  subgraph pod{pod} ["pod {pod}"]'
        yield from (f"  {'  ' if pod else ''}{_card(node, identifiers)}" for node in members)
        if pod:
            yield "  end"
    tenants, colours = tenants_of_ends(topology), tenant_colours(topology)
    for place, link in enumerate(topology.links):
        lower, upper = topology.lower_first(link)
        yield f"  {identifiers[upper.node]} ---|{_label(link)}| {identifiers[lower.node]}"
        if lower in tenants:
            yield f"  linkStyle {place} stroke:{colours[tenants[lower]]}"
    for role in Role:
        if members_of_tier := topology.having(role):
            fill, line = TIERS[role]
            yield f"  classDef {role} fill:{fill},stroke:{line},color:{INK}"
            yield f"  class {','.join(identifiers[node.name] for node in members_of_tier)} {role}"


def _card(node: Node, identifiers: dict[str, str]) -> str:
    # Generated identifiers, because a node may be named "end", which is a keyword of Mermaid.
    shape = f'(["{node.name}"])' if node.role is Role.HOST else f'["{node.name}"]'
    return f"{identifiers[node.name]}{shape}"


def _label(link: Link) -> str:
    return f'"{format_rate(link.rate)}"'
