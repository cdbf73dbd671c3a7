"""The output of FRR 10.3 on the fabric of topologies/tenant.yaml, and the reports of missing routes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.kernel.netlink.routes import ANYBODY
from lab.kernel.process.netns import Namespace
from lab.routing.daemons import Router
from lab.routing.evpn import EvpnRoute, advertised, parse_routes, parse_vnis
from lab.routing.wait.evpn_expectations import Floods, Segments, TenantRoutes, Trees

DATA = Path(__file__).parent / "data"


def read(name: str) -> Any:
    return json.loads((DATA / name).read_text())


@pytest.fixture(scope="module")
def routes() -> list[EvpnRoute]:
    return list(parse_routes(read("evpn-routes-10.3.json")))


def test_a_host_route_has_both_vnis_both_targets_and_the_routers_mac(routes: list[EvpnRoute]) -> None:
    (host,) = (route for route in routes if route.ip == "10.1.20.2")
    assert host == EvpnRoute(
        type=2,
        rd="10.253.0.3:4",
        route_targets=("28835:10020", "28835:50010"),
        vnis=(10020, 50010),
        mac="02:1a:00:0a:00:01",
        ip="10.1.20.2",
        next_hop="10.252.0.3",
        router_mac="02:1a:00:05:00:00",
        sequence=0,
        esi="",
        local=False,
    )


def test_a_mac_alone_has_the_networks_vni_alone(routes: list[EvpnRoute]) -> None:
    found = [route for route in routes if route.type == 2 and not route.ip]
    assert {route.vnis for route in found} == {(10010,), (10020,)}


def test_a_prefix_has_its_length_and_the_vni_of_the_tenant(routes: list[EvpnRoute]) -> None:
    prefixes = {(route.ip, route.vnis, route.local) for route in routes if route.type == 5}
    assert ("10.1.10.0/24", (50010,), True) in prefixes
    assert ("10.1.20.0/24", (50010,), False) in prefixes


def test_who_floods_is_told_by_the_label_of_the_tunnel_where_there_is_no_vni(routes: list[EvpnRoute]) -> None:
    floods = {(route.ip, route.vnis) for route in routes if route.type == 3}
    assert floods == {("10.252.0.1", (10010,)), ("10.252.0.3", (10020,))}


def test_moves_are_counted_by_the_sequence_number_of_mac_mobility() -> None:
    said = read("evpn-routes-10.3.json")
    route = said["10.253.0.3:4"]["[2]:[0]:[48]:[02:1a:00:0a:00:01]"]
    route["paths"][0][0]["extendedCommunity"]["string"] += " MM:3"
    (moved,) = parse_routes({"10.253.0.3:4": {"rd": "10.253.0.3:4", "route": route}})
    assert moved.sequence == 3


def test_a_route_is_told_by_one_and_had_by_others(routes: list[EvpnRoute]) -> None:
    received = [route for route in routes if not route.local]
    tellers = {"leaf1": routes, "leaf2": received, "leaf3": []}
    found = advertised(tellers)
    assert {each.leaf for each in found} == {"leaf1"}
    assert all(each.received == () for each in found)
    own = [EvpnRoute(**{**_fields(route), "local": False}) for route in routes if route.local]
    assert all(each.received == ("leaf2",) for each in advertised({"leaf1": routes, "leaf2": own}))


def _fields(route: EvpnRoute) -> dict[str, Any]:
    return {name: getattr(route, name) for name in EvpnRoute.__slots__}


def test_vnis_of_both_kinds() -> None:
    l2, lan, l3, _ = parse_vnis("leaf1", read("evpn-vnis-10.3.json"))
    assert (l2.vni, l2.kind, l2.tenant, l2.device, l2.remote_vteps) == (
        10010,
        "L2",
        "blue",
        "vni10010",
        ("10.252.0.2",),
    )
    assert lan.remote_vteps == ("10.252.0.2", "10.252.0.3")
    assert (l3.vni, l3.kind, l3.device, l3.vtep, l3.up) == (50010, "L3", "vni50010", "10.252.0.1", True)


def answers(monkeypatch: pytest.MonkeyPatch, *said: str) -> Router:
    left = list(said)
    monkeypatch.setattr(Namespace, "run", lambda *_args, **_kw: subprocess.CompletedProcess([], 0, left.pop(0), ""))
    return Router("leaf1", Namespace("rl-x.leaf1"), Path())


def test_a_vtep_that_is_missing_or_too_much_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.dumps(
        [
            {"mac": "00:00:00:00:00:00", "ifname": "vni10010", "dst": "10.252.0.9", "flags": ["self"]},
            {"mac": "02:1a:00:08:00:01", "ifname": "vni10010", "dst": "10.252.0.2", "flags": ["self"]},
        ]
    )
    (gap,) = Floods({"vni10010": frozenset({"10.252.0.2"})}).gaps(answers(monkeypatch, said))
    assert str(gap) == "leaf1: vni10010 has no tunnel to 10.252.0.2 and has one too many to 10.252.0.9"


@pytest.mark.parametrize(
    ("to", "own", "told"),
    [
        (["ipmr-lo", "swp1"], ["swp2"], []),
        (["swp1"], ["swp2"], ["leaf1: tree to 239.1.1.10 has no branch to ipmr-lo"]),
        (["ipmr-lo"], ["pimreg"], ["leaf1: tree from 10.252.0.1 to 239.1.1.10 has no branch to any other switch"]),
        (
            [],
            [],
            [
                "leaf1: tree to 239.1.1.10 has no branch to ipmr-lo",
                "leaf1: tree from 10.252.0.1 to 239.1.1.10 has no branch to any other switch",
            ],
        ),
    ],
)
def test_a_tree_that_does_not_reach_a_leaf_or_does_not_leave_it_is_told(
    monkeypatch: pytest.MonkeyPatch, to: list[str], own: list[str], told: list[str]
) -> None:
    """As ``ip -json mroute`` of iproute2 6.15 has it; a route that waits for pimd is none."""
    said = [
        {
            "src": source,
            "dst": "239.1.1.10",
            "iif": by,
            "multipath": [{"oif": name} for name in names],
            "state": state,
        }
        for source, by, names, state in (
            ("10.252.0.1", "lo", own, "resolved"),
            (ANYBODY, "swp1", to, "resolved"),
            ("10.252.0.2", "unresolved", ["ipmr-lo"], "unresolved"),
        )
    ]
    trees = Trees("10.252.0.1", frozenset({"swp1", "swp2"}), {"239.1.1.10": True})
    assert [str(gap) for gap in trees.gaps(answers(monkeypatch, json.dumps(said)))] == told


def test_a_leaf_that_is_alone_in_a_group_sends_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [
        {"src": ANYBODY, "dst": "239.1.1.10", "iif": "swp1", "multipath": [{"oif": "ipmr-lo"}], "state": "resolved"}
    ]
    trees = Trees("10.252.0.1", frozenset({"swp1"}), {"239.1.1.10": False})
    assert trees.gaps(answers(monkeypatch, json.dumps(said))) == []


def test_a_subnet_of_a_tenant_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    four = [{"dst": "10.1.20.0/24", "table": "1001", "gateway": "10.252.0.3", "dev": "vlan4094"}]
    six = [{"dst": "fd00::/64", "table": "1001", "nexthops": [{"gateway": "::ffff:10.252.0.3", "dev": "vlan4094"}]}]
    wanted = {
        ("blue", "10.1.20.0/24"): frozenset({"10.252.0.3"}),
        ("blue", "fd00::/64"): frozenset({"10.252.0.2", "10.252.0.3"}),
        ("red", "10.1.20.0/24"): frozenset({"10.252.0.3"}),
    }
    expectation = TenantRoutes(wanted, {"1001": "blue", "1002": "red"})
    found = expectation.gaps(answers(monkeypatch, json.dumps(four), json.dumps(six)))
    assert [str(gap) for gap in found] == [
        "leaf1: fd00::/64 of blue has no path by 10.252.0.2",
        "leaf1: 10.1.20.0/24 of red has no path by 10.252.0.3",
    ]


ESI = "03:02:1a:00:00:00:02:00:00:01"


def test_routes_of_segments_are_told_apart_by_them() -> None:
    """As FRR 10.3 says: type 1 of the segment and of its network, 2 with its segment, 4; leaf2's of another, too."""
    path = {"bestpath": {"overall": True}, "local": True}
    other = ESI[:-1] + "2"
    said = {
        "10.253.0.1:3": {
            f"[1]:[4294967295]:[{ESI}]:[32]:[0.0.0.0]:[0]": {"routeType": 1, "paths": [[path]]},
            f"[4]:[{ESI}]:[32]:[10.252.0.1]": {"routeType": 4, "paths": [[path]]},
        },
        "10.253.0.1:2": {
            f"[1]:[0]:[{ESI}]:[32]:[0.0.0.0]:[0]": {"routeType": 1, "paths": [[path]]},
            f"[1]:[0]:[{other}]:[32]:[0.0.0.0]:[0]": {"routeType": 1, "paths": [[path]]},
            "[2]:[0]:[48]:[02:1a:00:05:00:01]": {
                "routeType": 2, "mac": "02:1a:00:05:00:01", "paths": [[path | {"esi": ESI}]]
            },
        },
    }  # fmt: skip
    found = list(parse_routes(said))
    assert [(route.type, route.esi) for route in found] == [(1, ESI), (4, ESI), (1, ESI), (1, other), (2, ESI)]
    heard = [EvpnRoute(**{**_fields(route), "local": False}) for route in found if route.esi != other]
    told = advertised({"leaf1": found, "leaf2": heard})
    assert {each.route.esi: each.received for each in told if each.route.type == 1} == {ESI: ("leaf2",), other: ()}


def test_a_member_that_lacp_does_not_use_and_a_leaf_that_has_the_segment_no_more_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def port(name: str, *state: str) -> dict[str, Any]:
        data = {"info_slave_kind": "bond", "info_slave_data": {"ad_actor_oper_port_state_str": list(state)}}
        return {"ifname": name, "master": "bond1", "linkinfo": data}

    links = [
        {"ifname": "lo"},
        port("swp2", "active", "distributing"),
        port("swp3", "active", "distributing", "defaulted"),
    ]
    hops = [{"id": 1, "gateway": "10.252.0.2", "fdb": None}, {"id": 2, "gateway": "10.252.0.3"}]
    wanted = Segments({"bond1": frozenset({"swp2", "swp3"})}, {"bond1": frozenset({"10.252.0.2", "10.252.0.3"})})
    found = wanted.gaps(answers(monkeypatch, json.dumps(links), json.dumps(hops)))
    assert [str(gap) for gap in found] == [
        "leaf1: bond1 has no member swp3",
        "leaf1: bond1 has no leaf 10.252.0.3",
    ]
