"""Costs of links in OSPF and IS-IS: both ends of a link have the same, whatever those of other links are.

Costs may differ from link to link by design, so that siblings have no usual one. The ends of one link still agree:
otherwise packets go one way, and come back another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from lab.audit.difference import ABSENT, PRESENCE, PRESENT, Difference, unread_kinds
from lab.audit.objects.routing_objects import FrrLineAudit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.audit.audited import FabricAudit
    from lab.audit.placement import FabricRoles
    from lab.model.topology import Endpoint

_COST: Final = re.compile(
    r"^(?:frr )?interface (?P<port>\S+) / "
    r"(?P<name>ip ospf cost|ipv6 ospf6 cost|isis metric(?: level-[12])?)(?: (?P<cost>\d+))?$"
)
"""A line of FRR's configuration with the cost of a port, and the name of a difference of one."""
_TYPE: Final = re.compile(
    r"^(?:router isis \S+(?: \S+ \S+)? / is-type|interface (?P<port>\S+) / isis circuit-type) level-(?P<levels>\S+)$"
)
"""A line with the levels of a router, or of one of its ports."""
_METRIC: Final = "isis metric"
_OF_LEVEL: Final = {1: f"{_METRIC} level-1", 2: f"{_METRIC} level-2"}
"""The cost in one level. Without it, that of both levels counts."""
_LEVELS: Final = {"1": frozenset({1}), "2-only": frozenset({2})}
_BOTH: Final = frozenset({1, 2})


@dataclass(frozen=True, slots=True)
class PortCosts:
    """The costs of a port by the commands that set them, and the levels of IS-IS that it takes part in."""

    lines: Mapping[str, str] = field(default_factory=dict)
    levels: frozenset[int] = _BOTH

    def of(self, name: str) -> str | None:
        """Return the cost that a command sets, also if another one for both levels does; None for the default."""
        return self.lines.get(name, self.lines.get(_METRIC) if name in _OF_LEVEL.values() else None)

    def differing(self, other: PortCosts) -> Iterator[str]:
        """Yield the commands that set a different cost at the other end of a link, each once."""
        levels = [_OF_LEVEL[each] for each in sorted(self.levels & other.levels)]
        wrong = [each for each in levels if self.of(each) != other.of(each)]
        if wrong and not any(each in one.lines for one in (self, other) for each in levels):
            wrong = [_METRIC]
        others = sorted(each for each in {*self.lines, *other.lines} if not each.startswith(_METRIC))
        yield from (each for each in others if self.of(each) != other.of(each))
        yield from wrong


Costs: TypeAlias = "dict[tuple[str, str], PortCosts]"
"""The costs of each port by node and interface. Nodes without an answer have none."""


def link_costs(state: FabricAudit, placement: FabricRoles) -> Costs:
    """Return the costs of all cabled ports of the routers that answered, also of those that have no such line."""
    routers = {name for name, node in state.nodes.items() if node.frr and "frr" not in unread_kinds(node)}
    lines: dict[tuple[str, str], dict[str, str]] = {end: {} for end in placement.peers if end[0] in routers}
    levels: dict[tuple[str, str], frozenset[int]] = {}
    for name in routers:
        for each in state.nodes[name].frr:
            line, kind = _COST.match(each.line), _TYPE.match(each.line)
            if line and line["cost"] and (name, line["port"]) in lines:
                lines[name, line["port"]][line["name"]] = line["cost"]
            if kind:
                levels[name, kind["port"] or ""] = _LEVELS.get(kind["levels"], _BOTH)

    def levels_of(node: str, port: str) -> frozenset[int]:
        return levels.get((node, port), _BOTH) & levels.get((node, ""), _BOTH)

    return {end: PortCosts(found, levels_of(*end)) for end, found in lines.items()}


def of_link_costs(costs: Costs, placement: FabricRoles) -> Iterator[Difference]:
    """Yield the costs in which the ends of a link differ: of each end, against the other."""
    for (node, interface), mine in costs.items():
        peer = placement.peers[node, interface]
        theirs = costs.get((peer.node, peer.interface), mine)
        for name in mine.differing(theirs):
            yield _difference(node, interface, name, (mine.of(name), theirs.of(name)), peer)


def _difference(
    node: str, interface: str, name: str, costs: tuple[str | None, str | None], peer: Endpoint
) -> Difference:
    mine, theirs = costs
    line, field, value, expected = f"interface {interface} / {name}", PRESENCE, ABSENT, PRESENT
    if mine is None:
        line = f"{line} {theirs}"
    elif theirs is None:
        line, value, expected = f"{line} {mine}", PRESENT, ABSENT
    else:
        field, value, expected = "value", mine, theirs
    return Difference(
        node=node, kind=FrrLineAudit.LABEL, object=f"{FrrLineAudit.LABEL} {line}", field=field, value=value,
        expected=expected, against=str(peer), interface=interface,
    )  # fmt: skip


def is_of_link(found: Difference, costs: Costs, placement: FabricRoles) -> bool:
    """Return whether a difference is a cost that the other end of the link has, too: a property of the link.

    A line for both levels of IS-IS is one if no level differs.
    """
    line = _COST.match(found.object)
    peer = placement.peers.get((found.node, line["port"])) if line else None
    if line is None or peer is None or (peer.node, peer.interface) not in costs:
        return False
    theirs = costs[peer.node, peer.interface]
    wrong = set(costs.get((found.node, line["port"]), PortCosts()).differing(theirs))
    return not (wrong if line["name"] == _METRIC else wrong & {line["name"], _METRIC})
