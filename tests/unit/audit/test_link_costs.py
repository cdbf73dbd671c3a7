"""Costs of links: both ends have the same, also where siblings have no usual one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from lab.audit.audited import FabricAudit, FrrLineAudit, NodeAudit
from lab.audit.without_plan import differences_without_plan
from lab.model.load import load_topology

if TYPE_CHECKING:
    from lab.model.topology import Topology

ONE_SPINE: Final = load_topology(
    "name: costs\ndefaults: {rate: 100Mbit, mtu: 9000}\n"
    "generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}\n"
)
FOUR: Final = load_topology(
    "name: costs\ndefaults: {rate: 100Mbit, mtu: 9000}\n"
    "generate: {shape: leaf-spine, spines: 2, leaves: 4, hosts_per_leaf: 1}\n"
)
COST: Final = "ip ospf cost"


def differences(topology: Topology, costs: dict[str, str]) -> list[tuple[str, str, str, str, str, str]]:
    """What differs, if switches have lines for some ports by ``leaf1:swp1``."""
    nodes = {
        node.name: NodeAudit(node.name, str(node.role), frr=(FrrLineAudit("router ospf"), *(
            FrrLineAudit(f"interface {port.partition(':')[2]} / {line}")
            for port, line in costs.items() if port.partition(":")[0] == node.name
        )))
        for node in topology.switches
    }  # fmt: skip
    return [
        (each.node, each.object.removeprefix("frr "), each.field, each.value, each.expected, each.against)
        for each in differences_without_plan(FabricAudit(topology.name, nodes), topology)
    ]


PAIRS: Final = {"leaf1:swp1": f"{COST} 10", "spine1:swp1": f"{COST} 10",
                "leaf2:swp1": f"{COST} 20", "spine1:swp2": f"{COST} 20"}  # fmt: skip


def test_costs_that_both_ends_have_are_no_differences() -> None:
    assert differences(ONE_SPINE, PAIRS) == []
    assert differences(FOUR, {**PAIRS, "leaf2:swp1": f"{COST} 10", "spine1:swp2": f"{COST} 10"}) == []


@pytest.mark.parametrize("name", [COST, "ipv6 ospf6 cost", "isis metric", "isis metric level-2"])
def test_an_end_with_another_cost_is_listed_with_the_other_end(name: str) -> None:
    costs = {port: line.replace(COST, name) for port, line in PAIRS.items()}
    assert sorted(differences(ONE_SPINE, {**costs, "spine1:swp2": f"{name} 50"})) == [
        ("leaf2", f"interface swp1 / {name}", "value", "20", "50", "spine1:swp2"),
        ("spine1", f"interface swp2 / {name}", "value", "50", "20", "leaf2:swp1"),
    ]


def test_an_end_without_a_cost_is_listed_with_the_other_end() -> None:
    costs = {port: line for port, line in PAIRS.items() if port != "leaf2:swp1"}
    assert sorted(differences(ONE_SPINE, costs)) == [
        ("leaf2", f"interface swp1 / {COST} 20", "presence", "absent", "present", "spine1:swp2"),
        ("spine1", f"interface swp2 / {COST} 20", "presence", "present", "absent", "leaf2:swp1"),
    ]


def test_a_router_that_does_not_answer_has_no_costs_that_differ() -> None:
    costs = {port: line for port, line in PAIRS.items() if port.startswith("leaf")}
    nodes = {"leaf1": NodeAudit("leaf1", "leaf", frr=(FrrLineAudit(f"interface swp1 / {costs['leaf1:swp1']}"),))}
    assert differences_without_plan(FabricAudit("costs", nodes), ONE_SPINE) == []


def test_the_port_that_differs_from_its_siblings_is_listed_alone() -> None:
    """Siblings show which end is wrong, and the ends of other links agree."""
    found = differences(FOUR, {"leaf1:swp1": f"{COST} 50"})
    assert ("leaf1", f"interface swp1 / {COST} 50", "presence", "present", "absent", "siblings") in found
    assert {each[0] for each in found} <= {"leaf1", "spine1"}
