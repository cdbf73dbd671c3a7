"""Costs of links: both ends have the same, also where siblings have no usual one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from lab.audit.audited import FabricAudit, NodeAudit
from lab.audit.objects.routing_objects import FrrLineAudit
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


LEVEL_2: Final = "router isis FABRIC / is-type level-2-only"


def isis(mine: list[str], theirs: list[str], *routers: str) -> list[tuple[str, str, str, str, str, str]]:
    """What differs, if leaf1:swp1 and spine1:swp1 have such lines; ``routers`` are those of both nodes."""
    own = {"leaf1": mine, "spine1": theirs}
    nodes = {
        name: NodeAudit(name, name[:-1], frr=(FrrLineAudit("router isis FABRIC"), *map(FrrLineAudit, routers), *(
            FrrLineAudit(f"interface swp1 / {line}") for line in lines
        )))
        for name, lines in own.items()
    }  # fmt: skip
    found = differences_without_plan(FabricAudit(ONE_SPINE.name, nodes), ONE_SPINE)
    return sorted((each.node, each.object.removeprefix("frr interface swp1 / "), each.field, each.value,
                   each.expected, each.against) for each in found)  # fmt: skip


@pytest.mark.parametrize(
    ("mine", "theirs", "routers"),
    [
        (["isis metric 20"], ["isis metric level-1 20", "isis metric level-2 20"], []),
        (["isis metric 20"], ["isis metric level-2 20"], [LEVEL_2]),
        (["isis metric 20"], ["isis metric level-1 20", "isis circuit-type level-1"], []),
        (["isis metric level-1 70"], [], [LEVEL_2]),
    ],
)
def test_a_metric_of_both_levels_is_that_of_each_level_in_use(
    mine: list[str], theirs: list[str], routers: list[str]
) -> None:
    """A router that is in one level only has no neighbours in the other (ISO 10589 section 7.2.2)."""
    assert not [each for each in isis(mine, theirs, *routers) if "metric" in each[1]]


def test_the_level_whose_metric_differs_is_listed() -> None:
    name = "isis metric level-2"
    found = isis(["isis metric 20"], ["isis metric level-1 20", f"{name} 30"])
    assert [each for each in found if each[-1] != "siblings"] == [
        ("leaf1", name, "value", "20", "30", "spine1:swp1"), ("spine1", name, "value", "30", "20", "leaf1:swp1"),
    ]  # fmt: skip
    assert "level-1" not in str(found)
    found = isis(["isis metric level-1 20"], ["isis metric 20"])
    assert [each for each in found if each[-1] != "siblings"] == [
        ("leaf1", f"{name} 20", "presence", "absent", "present", "spine1:swp1"),
        ("spine1", f"{name} 20", "presence", "present", "absent", "leaf1:swp1"),
    ]
