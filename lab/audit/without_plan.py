"""All differences that need no plan: from siblings, from the other end of each link, from what must hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.audit.comparisons.frr_lines import of_frr_lines
from lab.audit.comparisons.link_costs import is_of_link, link_costs, of_link_costs
from lab.audit.comparisons.link_ends import of_link_ends
from lab.audit.comparisons.siblings import SIBLINGS, of_siblings
from lab.audit.difference import Difference, first_of_each
from lab.audit.placement import FabricRoles
from lab.audit.rules.fabric_rules import of_rules
from lab.audit.rules.route_widths import ADVERTISED

if TYPE_CHECKING:
    from lab.audit.audited import FabricAudit
    from lab.model.topology import Topology


def differences_without_plan(state: FabricAudit, topology: Topology) -> list[Difference]:
    """Return the differences of a fabric's nodes among each other, each setting once; healthy fabrics have none."""
    found = [
        Difference.unanswered(node.name, each, SIBLINGS) for node in state.nodes.values() for each in node.unread
    ]
    placement = FabricRoles(topology)
    found += of_rules(state, placement)
    found += of_siblings(state, placement)  # before those of link ends: siblings show which end is wrong
    costs = link_costs(state, placement)
    silent = {each.node for each in found if each.field == ADVERTISED}
    lines = of_frr_lines(state, placement, silent)
    found += [each for each in lines if not is_of_link(each, costs, placement)]
    found += of_link_ends(state, topology)
    found += of_link_costs(costs, placement)
    return first_of_each(found)
