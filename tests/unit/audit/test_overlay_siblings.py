"""Differences among the nodes of fabrics with VRFs, tunnels or bonds: what is usual there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.audit.audited import UnreadPart
from lab.audit.objects.kernel_objects import InterfaceAudit, QdiscAudit, RuleAudit
from lab.audit.without_plan import differences_without_plan
from tests.unit.audit.made_fabric import STATE, TOPOLOGY


def test_the_rule_of_local_addresses_is_elsewhere_on_nodes_with_vrfs() -> None:
    """The spines of an overlay have no VRFs, and are compared with leaves."""
    local = [RuleAudit("inet", 0, "", "lookup local"), RuleAudit("inet", 32_765, "", "lookup local")]
    others = {name: tuple(rule for rule in node.rules if rule.action != "lookup local")
              for name, node in STATE.nodes.items()}  # fmt: skip

    def differing(of_spines: tuple[RuleAudit, ...]) -> set[str]:
        nodes = {
            name: replace(node, rules=(*others[name], *(of_spines if name.startswith("spine") else local[1:])))
            for name, node in STATE.nodes.items()
        }
        return {each.node for each in differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)}

    assert differing((local[0],)) == set()
    assert differing(()) == {"spine1", "spine2"}


@pytest.mark.parametrize("kind", ["vxlan", "vlan"])
def test_tunnels_and_gateways_of_other_networks_are_siblings(kind: str) -> None:
    """A network can be at two leaves only. A tenant's router has a MAC of its own, and gateways share one."""
    nodes = dict(STATE.nodes)
    for number, (leaf, network) in enumerate([("leaf1", 10), ("leaf2", 10), ("leaf3", 20), ("leaf4", 20)]):
        mac = "02:00:00:00:00:01" if number else "02:00:00:00:00:02"
        learning = "yes" if leaf == "leaf2" else "no"
        device = InterfaceAudit(f"net{network}", kind, True, True, 4300, mac, "", 1000,
                                {"learning": learning, "id": str(network if number else 30)})  # fmt: skip
        hook = QdiscAudit(device.name, "ffff:fff1", "clsact", "ffff:", {}, {})
        nodes[leaf] = replace(
            nodes[leaf],
            interfaces=(*nodes[leaf].interfaces, device),
            qdiscs=(*nodes[leaf].qdiscs, *([hook] if leaf == "leaf3" else [])),
        )
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    assert [(each.node, each.object, each.field, each.value, each.expected) for each in found] == [
        ("leaf2", "interface net10", "learning", "yes", "no"),
        ("leaf3", "qdisc net20 ffff:fff1", "presence", "present", "absent"),
    ]


def test_a_network_may_have_tunnels_with_options_of_its_own() -> None:
    """Both ends have them. One end that differs from the other is not by design."""

    def differing(**limits: str) -> list[tuple[str, str, str]]:
        nodes = dict(STATE.nodes)
        networks = {"leaf1": (10, 20), "leaf2": (10, 20), "leaf3": (10, 30), "leaf4": (20, 30)}
        for leaf, mine in networks.items():
            own = tuple(
                InterfaceAudit(f"net{each}", "vxlan", True, True, 4300, "", "", 1000,
                               {"id": str(each), "ttl": limits.get(f"{leaf}_{each}", "0")})
                for each in mine
            )  # fmt: skip
            nodes[leaf] = replace(nodes[leaf], interfaces=(*nodes[leaf].interfaces, *own))
        found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
        return [(each.node, each.object, each.field) for each in found]

    assert differing(leaf3_30="64", leaf4_30="64") == []
    assert differing(leaf3_30="64") == [("leaf3", "interface net30", "ttl")]


def test_the_gateway_of_another_tenant_has_another_table() -> None:
    """Its VRF has one of its own, and that of the tenant at most leaves is no rule for it."""
    nodes = dict(STATE.nodes)
    for leaf, table in (("leaf1", "1001"), ("leaf2", "1001"), ("leaf3", "1001"), ("leaf4", "1002")):
        gateway = InterfaceAudit("vlan20" if table == "1002" else "vlan10", "vlan", True, True, 4300, "", "", 1000,
                                 {"id": "20" if table == "1002" else "10", "port table": table})  # fmt: skip
        nodes[leaf] = replace(nodes[leaf], interfaces=(*nodes[leaf].interfaces, gateway))
    assert differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY) == []


def test_nodes_whose_kernel_does_not_answer_are_no_siblings_that_lack_something() -> None:
    silent = (UnreadPart("kernel", "a form that is not known"),)
    nodes = {
        name: replace(node, interfaces=(), addresses=(), routes=(), rules=(), neighbours=(), qdiscs=(), unread=silent)
        if name in {"leaf1", "leaf2", "leaf3"} else node
        for name, node in STATE.nodes.items()
    }  # fmt: skip
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    assert {(each.node, each.kind) for each in found if each.against == "siblings"} == {
        (name, "node") for name in ("leaf1", "leaf2", "leaf3")
    }


def test_a_leaf_without_bonds_needs_no_filters_of_their_segments() -> None:
    """Those of multihomed hosts drop what another leaf has flooded (RFC 8365 section 8.3.1)."""

    def differing(*bonds: InterfaceAudit) -> list[str]:
        nodes = dict(STATE.nodes)
        for name in ("leaf1", "leaf2", "leaf3"):
            hooks = tuple(QdiscAudit(port, "ffff:fff1", "clsact", "ffff:", {}, {}) for port in ("swp1", "swp2"))
            node = nodes[name]
            nodes[name] = replace(node, qdiscs=(*node.qdiscs, *hooks), interfaces=(*node.interfaces, *bonds))
        found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
        return [f"{each.node} {each.object}" for each in found if each.kind == "qdisc"]

    assert differing(InterfaceAudit("bond1", "bond", True, True, 9000, "", "", 1000)) == []
    assert differing() == ["leaf4 qdisc swp1 ffff:fff1", "leaf4 qdisc swp2 ffff:fff1"]


@pytest.mark.parametrize("bonded", ["h1", "leaf1"])
def test_a_fabric_with_bonds_still_needs_all_queues(bonded: str) -> None:
    """Bonds explain missing filters of leaves only, and never a missing root qdisc."""
    bond = InterfaceAudit("bond1", "bond", True, True, 9000, "", "", 1000)
    nodes = {**STATE.nodes, bonded: replace(STATE.nodes[bonded], interfaces=(*STATE.nodes[bonded].interfaces, bond))}
    nodes["leaf4"] = replace(nodes["leaf4"], qdiscs=nodes["leaf4"].qdiscs[1:])
    lost = STATE.nodes["leaf4"].qdiscs[0]
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    assert [(each.node, each.interface) for each in found if each.kind == "qdisc"] == [("leaf4", lost.interface)]
