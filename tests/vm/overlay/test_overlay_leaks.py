"""Tenants who reach each other, two by two, with route distinguishers and targets of the user's own.

The judges are ping, FRR's own routes of EVPN, and the kernel's tables.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.fabric.command import rocelab, rocelab_json
from tests.vm.tenants import BLUE, LEAVES, MTU, RED_APART, changed, fabric_of, frr, pings, said

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.long]
OWN: Final = {host: BLUE[host] for host in ("h1", "h3")}
RED: Final = {"h2": "10.3.30.2", "h4": "10.3.30.3", "h6": "10.3.30.4"}
GREEN: Final = {"h5": BLUE["h5"]}
"""Of a third tenant, whom red reaches and blue does not."""


@pytest.fixture(scope="module", autouse=True)
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    changes = (
        ("overlay:\n", "overlay:\n  leaks: [[blue, red], [green, red]]\n"),
        ("blue: {l3vni: 50010}", 'blue: {l3vni: 50010, rd: 10001, rt: "65000:50010"}\n    green: {l3vni: 50030}'),
        ("l2vni: 10010\n", 'l2vni: 10010\n      rd: 10002\n      rt: "65000:1"\n'),
        ("l2vni: 10020\n      tenant: blue", "l2vni: 10020\n      tenant: green"),
        RED_APART,
    )  # fmt: skip
    with fabric_of(changed(tmp_path_factory.mktemp("leaks"), *changes), "--no-rdma"):
        yield


def leaked(leaf: str, vrf: str, prefix: str) -> bool:
    return bool(said(leaf, "ip", "route", "show", "vrf", vrf, prefix).strip())


def test_a_fabric_is_up_when_each_tenant_has_the_others_subnets() -> None:
    wanted = [("blue", "10.3.30.0/24"), ("red", "10.1.10.0/24"), ("red", "10.1.20.0/24"), ("green", "10.3.30.0/24")]
    for leaf in LEAVES:
        vrfs = {each["name"] for each in json.loads(said(leaf, "ip", "-json", "vrf", "show"))}
        assert vrfs == {"blue", "red", "green"}
        assert [each for each in wanted if not leaked(leaf, *each)] == [], leaf
        assert not leaked(leaf, "blue", "10.1.20.0/24")
        assert not leaked(leaf, "green", "10.1.10.0/24")


@pytest.mark.parametrize("two", [{**OWN, **RED}, {**GREEN, **RED}], ids=["blue-red", "green-red"])
def test_tenants_that_leak_reach_each_other_at_full_mtu_once(two: dict[str, str]) -> None:
    for source, target, report in pings(two, MTU):
        assert "2 received" in report, (source, target, report)
        assert "duplicates" not in report, (source, target, report)


def test_who_does_not_leak_is_not_reached_by_way_of_who_does() -> None:
    for source, target, report in pings({**OWN, **GREEN}, MTU):
        assert ("2 received" if {source, target} == set(OWN) else "0 received") in report, (source, target, report)


def test_status_misses_a_subnet_that_is_leaked_no_longer() -> None:
    """What it is told by is the kernel: bgpd takes the route back when it no longer imports it."""
    router = "router bgp 4200100001 vrf blue"
    family = ("-c", "configure terminal", "-c", router, "-c", "address-family ipv4 unicast")
    sockets = ("vtysh", "--vty_socket", "/run/rocelab/fabrics/tenant/nodes/leaf1")
    said("leaf1", *sockets, *family, "-c", "no import vrf red")
    deadline = time.monotonic() + 30
    while leaked("leaf1", "blue", "10.3.30.0/24"):
        assert time.monotonic() < deadline
    told = json.loads(rocelab("status", "--evpn", "--json", expect=1).stdout)
    assert told["gaps"] == ["leaf1: 10.3.30.0/24 of blue has no path by red"]
    said("leaf1", *sockets, *family, "-c", "import vrf red")
    while not leaked("leaf1", "blue", "10.3.30.0/24"):
        assert time.monotonic() < deadline
    assert rocelab_json("status", "--evpn")["healthy"]


def test_nobody_reaches_the_underlay_all_the_same() -> None:
    for host in ("h1", "h6"):
        with pytest.raises(AssertionError, match="100% packet loss"):
            said(host, "ping", "-nqc1", "-W2", "10.253.0.1")


def paths() -> list[tuple[str, dict[str, Any]]]:
    """The routes of leaf1 by their names, with their first paths."""
    found = []
    for routes in frr("leaf1", "show bgp l2vpn evpn route detail json").values():
        for name, route in routes.items() if isinstance(routes, dict) else ():
            if name.startswith("[") and route.get("paths"):
                path = route["paths"][0]
                found.append((f"{routes['rd']} {name}", path[0] if isinstance(path, list) else path))
    return found


def test_routes_have_the_distinguishers_and_targets_that_were_asked_for() -> None:
    """Of type 2 and 3 the network's, and of what is routed the tenant's; of whoever said none, FRR's own."""
    targets = {name: set(path["extendedCommunity"]["string"].split()) for name, path in paths()}
    for leaf in ("1", "2"):
        floods = targets[f"10.253.0.{leaf}:10002 [3]:[0]:[32]:[10.252.0.{leaf}]"]
        assert "RT:65000:1" in floods
        subnet = targets[f"10.253.0.{leaf}:10001 [5]:[0]:[24]:[10.1.10.0]"]
        assert "RT:65000:50010" in subnet
    hosts = [words for name, words in targets.items() if f"[32]:[{BLUE['h3']}]" in name]
    assert hosts
    assert all({"RT:65000:1", "RT:65000:50010"} <= words for words in hosts)
    assert all("RT:65000:50010" not in words for name, words in targets.items() if "10.3.30." in name)


def test_leaves_tell_of_each_subnet_in_its_own_tenant_alone() -> None:
    """What is leaked is known at each leaf; told again, it would come by those who only heard of it."""
    subnets = {(each["leaf"], each["route"]["ip"], each["route"]["vnis"][0])
               for each in rocelab_json("status", "--evpn")["routes"] if each["route"]["type"] == 5}  # fmt: skip
    wanted = {(leaf, "10.1.10.0/24", 50010) for leaf in ("leaf1", "leaf2")} | {("leaf3", "10.1.20.0/24", 50030)}
    wanted |= {(leaf, "10.3.30.0/24", 50020) for leaf in LEAVES}
    assert {each for each in subnets if ":" not in each[1]} == wanted
