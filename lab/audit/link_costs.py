"""Costs of links in OSPF and IS-IS: both ends of a link have the same, whatever those of other links are.

Costs may differ from link to link by design, so that siblings have no usual one. The ends of one link still agree:
otherwise packets go one way, and come back another.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from lab.audit.audited import FrrLineAudit
from lab.audit.difference import ABSENT, PRESENCE, PRESENT, Difference, unread_kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.audit.audited import FabricAudit
    from lab.audit.placement import FabricRoles
    from lab.model.topology import Endpoint

_COST: Final = re.compile(
    r"^(?:frr )?interface (?P<port>\S+) / "
    r"(?P<name>ip ospf cost|ipv6 ospf6 cost|isis metric(?: level-[12])?)(?: (?P<cost>\d+))?$"
)
"""A line of FRR's configuration with the cost of a port, and the name of a difference of one."""

Costs: TypeAlias = "dict[tuple[str, str], dict[str, str]]"
"""The costs of each port by the command that sets them, by node and interface. Nodes without an answer have none."""


def link_costs(state: FabricAudit, placement: FabricRoles) -> Costs:
    """Return the costs of all cabled ports of the routers that answered, also of those that have no such line."""
    routers = {name for name, node in state.nodes.items() if node.frr and "frr" not in unread_kinds(node)}
    found: Costs = {end: {} for end in placement.peers if end[0] in routers}
    for name in routers:
        for each in state.nodes[name].frr:
            line = _COST.match(each.line)
            if line and line["cost"] and (name, line["port"]) in found:
                found[name, line["port"]][line["name"]] = line["cost"]
    return found


def of_link_costs(costs: Costs, placement: FabricRoles) -> Iterator[Difference]:
    """Yield the costs in which the ends of a link differ: of each end, against the other."""
    for (node, interface), mine in costs.items():
        peer = placement.peers[node, interface]
        theirs = costs.get((peer.node, peer.interface), mine)
        for name in sorted({*mine, *theirs}):
            if mine.get(name) != theirs.get(name):
                yield _difference(node, interface, name, (mine.get(name), theirs.get(name)), peer)


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
    """Return whether a difference is a cost that the other end of the link has, too: a property of the link."""
    line = _COST.match(found.object)
    peer = placement.peers.get((found.node, line["port"])) if line else None
    if line is None or peer is None or (peer.node, peer.interface) not in costs:
        return False
    mine, theirs = costs.get((found.node, line["port"]), {}), costs[peer.node, peer.interface]
    return mine.get(line["name"]) == theirs.get(line["name"])
