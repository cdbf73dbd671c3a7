"""Manual routes of hosts and switches: what is intended, and what is not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.audit.objects.kernel_objects import InterfaceAudit, NeighbourAudit, RouteAudit, RuleAudit
from lab.audit.without_plan import differences_without_plan
from tests.unit.audit.made_fabric import STATE, TOPOLOGY, changed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.audit.audited import NodeAudit

PROXIED = "198.51.100.1"


def gateway_of(host: str) -> str:
    return f"10.0.0.{2 * int(host[1:]) - 2}"


def default(
    host: str, prefix: str = "0.0.0.0/0", *, table: str = "main", gateway: str = "", metrics: str = ""
) -> RouteAudit:
    hop = f"via {gateway or gateway_of(host)} dev eth1"
    options = {"metrics": metrics} if metrics else {}
    return RouteAudit(prefix, table, "100", "unicast", "static", (hop,), options)


def of_hosts(routes: Mapping[str, tuple[RouteAudit, ...]], nodes: Mapping[str, NodeAudit] = STATE.nodes) -> list[str]:
    """Return what differs if hosts have a default route, or the given routes in its place."""
    found = dict(nodes)
    for host in (each.name for each in TOPOLOGY.hosts):
        found[host] = replace(found[host], routes=routes.get(host, (default(host),)))
    differences = differences_without_plan(replace(STATE, nodes=found), TOPOLOGY)
    return [f"{each.node} {each.object} {each.field} {each.value}" for each in differences]


@pytest.mark.parametrize("kind", ["throw", "blackhole", "prohibit", "unreachable"])
def test_a_route_that_drops_packets_is_a_difference_wherever_it_leads(kind: str) -> None:
    route = RouteAudit("192.0.2.0/24", "main", "", kind, "static", ())
    assert changed("leaf1", lambda node: replace(node, routes=(*node.routes, route))) == [
        ("leaf1", "route 192.0.2.0/24", "presence", f"present: {kind}", "absent")
    ]


@pytest.mark.parametrize("kind", ["throw", "blackhole", "prohibit", "unreachable"])
@pytest.mark.parametrize(("prefix", "hops"), [("0.0.0.0/0", ()), ("::/0", ("dev lo",))])
def test_a_default_route_that_drops_packets_is_a_difference_unless_another_comes_first(
    kind: str, prefix: str, hops: tuple[str, ...]
) -> None:
    """Its kind is named: routes of IPv6 that drop packets have a next hop, too."""
    dropping = RouteAudit(prefix, "main", "", kind, "boot", hops)
    assert of_hosts({"h3": (default("h3"), dropping)}) == [f"h3 route {prefix} presence present: {kind}"]
    assert changed("leaf1", lambda node: replace(node, routes=(*node.routes, dropping))) == [
        ("leaf1", f"route {prefix}", "presence", f"present: {kind}", "absent")
    ]
    fallback = replace(dropping, metric="4278198272")
    assert of_hosts({"h3": (default("h3"), default("h3", prefix="::/0", gateway="fe80::1"), fallback)}) == []
    assert of_hosts({"h3": (default("h3"), replace(dropping, table="77"))}) == [], "nothing looks it up"


def test_a_switch_may_discard_what_is_in_its_aggregate_and_in_no_network_that_it_has_a_route_to() -> None:
    """Of its own networks, or, as a border leaf does, of those of the whole fabric."""

    def differing(prefix: str, lost: str = "") -> list[str]:
        route = RouteAudit(prefix, "main", "", "blackhole", "static", ())

        def change(node: NodeAudit) -> NodeAudit:
            return replace(node, routes=(*(each for each in node.routes if each.prefix != lost), route))

        return [each[1] for each in changed("leaf1", change) if each[2] == "presence" and each[1] != f"route {lost}"]

    assert differing("10.0.0.0/30") == []  # 10.0.0.0/31 and 10.0.0.2/31
    assert differing("10.0.0.0/31") == ["route 10.0.0.0/31"]
    assert differing("10.0.0.0/16") == []
    assert differing("10.0.0.0/16", lost="10.0.0.4/31") == ["route 10.0.0.0/16"]


def test_a_second_default_route_by_the_same_gateway_changes_nothing() -> None:
    """Like that of ``ip route replace default via GATEWAY``, which replaces none with a metric."""
    same = replace(default("h3"), metric="")
    assert of_hosts({"h3": (default("h3"), same)}) == []
    (gateway,) = same.next_hops
    other = replace(same, next_hops=(f"{gateway} onlink",))
    assert of_hosts({"h3": (default("h3"), other)}) == [f"h3 route 0.0.0.0/0 presence present: {gateway} onlink"]


def test_routes_that_together_are_the_default_route_replace_it() -> None:
    halves = tuple(default("h3", prefix) for prefix in ("0.0.0.0/1", "128.0.0.0/1"))
    assert of_hosts({"h3": halves}) == []
    assert of_hosts({"h3": halves[:1]}) == [
        "h3 route 0.0.0.0/1 metric 100 presence present: via 10.0.0.4 dev eth1",
        "h3 route 0.0.0.0/0 metric 100 presence absent",
    ]
    wrong = tuple(replace(each, next_hops=("via 10.0.0.4 dev eth2",)) for each in halves)
    assert len(of_hosts({"h3": wrong})) == 2


def test_a_default_route_may_be_in_a_table_that_a_rule_or_a_vrf_looks_up() -> None:
    moved = {"h3": (default("h3", table="50"),)}
    assert of_hosts(moved) == ["h3 route 0.0.0.0/0 metric 100 presence absent"]
    host = STATE.nodes["h3"]
    (port,) = host.interfaces
    ruled = replace(host, rules=(*host.rules, RuleAudit("inet", 1000, "", "lookup 50")))
    assert of_hosts(moved, {**STATE.nodes, "h3": ruled}) == ["h3 rule inet 1000 presence present"]
    bound = replace(
        host, interfaces=(replace(port, master="red"), replace(port, name="red", kind="vrf", mac="", master=""))
    )
    found = of_hosts(moved, {**STATE.nodes, "h3": bound})
    assert [each for each in found if "route" in each] == []


@pytest.mark.parametrize(
    ("family", "selector", "is_lost"),
    [
        ("inet", "from 10.0.0.5", False), ("inet", "from 10.0.0.0/8 iif lo", False), ("inet", "oif eth1", False),
        ("inet", "not fwmark 0xca6c", False), ("inet", "from 203.0.113.9", True), ("inet6", "", True),
        ("inet", "fwmark 0x1", True), ("inet", "to 203.0.113.0/24", True), ("inet", "tos 0x10", True),
        ("inet", "iif eth1", True), ("inet", "oif eth9", True),
    ],
)  # fmt: skip
def test_the_rule_of_a_default_route_in_another_table_has_to_apply_to_packets_of_the_host(
    family: str, selector: str, is_lost: bool
) -> None:
    host = STATE.nodes["h3"]
    ruled = replace(host, rules=(*host.rules, RuleAudit(family, 1000, selector, "lookup 50")))
    found = of_hosts({"h3": (default("h3", table="50"),)}, {**STATE.nodes, "h3": ruled})
    assert ("h3 route 0.0.0.0/0 metric 100 presence absent" in found) == is_lost


def test_most_hosts_may_use_a_gateway_that_only_a_proxy_answers_for() -> None:
    """One host with such a gateway, or one with the address of another node, has a wrong one."""
    every = {each.name: (default(each.name, gateway=PROXIED),) for each in TOPOLOGY.hosts}
    assert of_hosts(every) == []
    assert of_hosts({"h3": every["h3"]}) == ["h3 route 0.0.0.0/0 metric 100 gateway 198.51.100.1"]
    assert of_hosts({**every, "h3": (default("h3", gateway="10.0.0.8"),)}) == [
        "h3 route 0.0.0.0/0 metric 100 gateway 10.0.0.8"
    ]


@pytest.mark.parametrize(("mac", "differing"), [("02:00:00:00:00:01", 0), ("", 8)])
def test_a_gateway_of_most_hosts_that_does_not_answer_has_no_proxy(mac: str, differing: int) -> None:
    state = "STALE" if mac else "FAILED"
    entry = NeighbourAudit("eth1", PROXIED, mac, permanent=False, state=state)
    every = {each.name: (default(each.name, gateway=PROXIED),) for each in TOPOLOGY.hosts}
    nodes = {each.name: replace(STATE.nodes[each.name], neighbours=(entry,)) for each in TOPOLOGY.hosts}
    assert len(of_hosts(every, {**STATE.nodes, **nodes})) == differing


@pytest.mark.parametrize("hop", ["", " ", "via", "dev", "via 10.0.0.4 dev"])
def test_next_hops_of_a_damaged_recording_are_no_traceback(hop: str) -> None:
    of_hosts({"h3": (replace(default("h3"), next_hops=(hop,)),)})


def test_a_hop_limit_that_siblings_do_not_have_is_a_difference() -> None:
    limited = {each.name: (default(each.name, metrics='[{"hoplimit": 1}]'),) for each in TOPOLOGY.hosts}
    assert of_hosts({"h3": limited["h3"]}) == ["h3 route 0.0.0.0/0 metric 100 hop limit 1"]
    assert of_hosts(limited) == []


def to_outside(host: str, *, metrics: str = "", number: int = 20) -> tuple[RouteAudit, ...]:
    return tuple(default(host, f"198.51.{each}.0/24", metrics=metrics) for each in range(number))


def test_hop_limits_of_most_hosts_are_intended_however_many_routes_have_them() -> None:
    hosts = [each.name for each in TOPOLOGY.hosts]
    limited = {each: (default(each, metrics='[{"hoplimit": 255}]'), *to_outside(each)) for each in hosts}
    assert of_hosts(limited) == []
    found = of_hosts({"h3": (default("h3"), *to_outside("h3", metrics='[{"hoplimit": 1}]'))})
    assert [each for each in found if "hop limit" in each] == [
        f"h3 route 198.51.{each}.0/24 metric 100 hop limit 1" for each in range(20)
    ]


def test_a_missing_default_route_has_the_gateway_at_the_other_end_of_its_port() -> None:
    nodes = dict(STATE.nodes)
    for host in (each.name for each in TOPOLOGY.hosts):
        nodes[host] = replace(nodes[host], routes=() if host == "h3" else (default(host),))
    (found,) = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    assert (found.node, found.value) == ("h3", "absent")
    assert found.expected == "present: type unicast, protocol static, next hops via 10.0.0.4 dev eth1"


def test_a_node_with_vrfs_has_the_rule_that_looks_up_their_tables() -> None:
    rules = {
        family: (RuleAudit(family, 1000, "l3mdev", ""), RuleAudit(family, 32_766, "", "lookup main"))
        for family in ("inet", "inet6")
    }
    vrf = InterfaceAudit("blue", "vrf", True, True, 65_575, "", "", 1000)

    def differing(*mine: RuleAudit, vrfs: tuple[InterfaceAudit, ...] = (vrf,)) -> list[tuple[str, str, str]]:
        node = STATE.nodes["leaf2"]
        node = replace(node, interfaces=(*node.interfaces, *vrfs), rules=mine)
        found = differences_without_plan(replace(STATE, nodes={**STATE.nodes, "leaf2": node}), TOPOLOGY)
        return [(each.node, each.object, each.value) for each in found if "l3mdev" in each.object]

    whole = (*rules["inet"], *rules["inet6"])
    assert differing(*whole) == differing(*rules["inet"][1:], vrfs=()) == []
    assert differing(*whole[1:]) == [("leaf2", "rule inet 1000 l3mdev", "absent")]
    assert differing(*whole[:2], whole[3]) == [("leaf2", "rule inet6 1000 l3mdev", "absent")]
