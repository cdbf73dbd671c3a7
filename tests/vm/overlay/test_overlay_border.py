"""A tenant with a router outside: h6 tells leaf3 prefixes by eBGP, and leaf3 tells all leaves of the tenant.

The judges are FRR's own show commands on both ends of the session, the kernel's tables and ping.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.fabric.command import rocelab, rocelab_json
from tests.vm.tenants import BLUE, BORDER, LEAVES, MTU, WITHOUT_H6, changed, fabric_of, frr, said, ways

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.long]
OUTSIDE: Final = ("0.0.0.0/0", "203.0.113.0/24", "2001:db8:9::/48")
ANSWERS: Final = {"203.0.113.1": "-4", "2001:db8:9::1": "-6"}


@pytest.fixture(scope="module", autouse=True)
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with fabric_of(changed(tmp_path_factory.mktemp("border"), WITHOUT_H6, more=BORDER), "--no-rdma"):
        yield


def test_every_leaf_of_the_tenant_has_what_is_outside_by_the_border_leaf_and_no_other_tenant() -> None:
    for prefix in OUTSIDE:
        near = "fe80::1a:ff:fe0b:1" if ":" in prefix else "10.9.0.2"  # RFC 2545 section 3: both are told
        assert [ways(leaf, "blue", prefix) for leaf in LEAVES] == [["10.252.0.3"], ["10.252.0.3"], [near]]
    for leaf in ("leaf1", "leaf2"):
        assert [ways(leaf, "red", prefix) for prefix in OUTSIDE] == [[], [], []]


def test_it_is_told_as_routes_of_type_5_by_the_border_leaf_alone() -> None:
    """RFC 9136 section 4.1: with the tenant's VNI; the AS path has who told it."""
    told = rocelab_json("status", "--evpn")
    assert told["healthy"]
    found = {each["route"]["ip"]: each for each in told["routes"] if each["route"]["ip"] in OUTSIDE}
    assert set(found) == set(OUTSIDE)
    for each in found.values():
        assert (each["leaf"], each["route"]["type"], each["route"]["vnis"]) == ("leaf3", 5, [50010])
        assert each["route"]["next_hop"] == "10.252.0.3"
        assert set(each["received"]) == {"leaf1", "leaf2"}
    (paths,) = [frr("leaf1", "show bgp vrf blue ipv4 unicast 203.0.113.0/24 json")["paths"]]
    assert {path["aspath"]["string"].split()[-1] for path in paths} == {"65010"}


def test_the_router_learns_the_tenants_subnets_and_no_others() -> None:
    """By its leaf's AS number; the subnets of red and the underlay are not among them."""
    routes = frr("h6", "show bgp ipv4 unicast json")["routes"]
    subnets = {prefix for prefix in routes if not prefix.endswith("/32")}
    assert subnets == {"10.1.10.0/24", "10.1.20.0/24", "10.9.0.0/29", "0.0.0.0/0", "203.0.113.0/24"}
    assert routes["10.1.10.0/24"][0]["path"].split()[0] == "4200100003"


@pytest.mark.parametrize(("address", "family"), ANSWERS.items())
def test_the_tenants_hosts_reach_what_is_outside_at_full_mtu(address: str, family: str) -> None:
    size = MTU - 8 - (40 if family == "-6" else 20)
    for host in BLUE:
        assert "2 received" in said(host, "ping", family, "-nqc2", "-i.3", "-W5", "-Mdo", f"-s{size}", address), host


def test_who_has_no_border_does_not() -> None:
    for host in ("h2", "h4"):
        argv = ["ip", "netns", "exec", f"rl-tenant.{host}", "ping", "-nqc1", "-W2", "203.0.113.1"]
        assert subprocess.run(argv, check=False, timeout=60).returncode == 1, host


def test_status_knows_the_router_and_misses_what_it_tells_no_longer() -> None:
    (h6,) = (node for node in rocelab_json("status")["nodes"] if node["name"] == "h6")
    assert h6["healthy"]
    assert set(h6["daemons"]) >= {"zebra", "bgpd"}
    assert {each["interface"]: each["state"] for each in h6["sessions"]} == {
        "10.9.0.1": "Established", "fd00:9::1": "Established"
    }  # fmt: skip
    router = ("vtysh", "--vty_socket", "/run/rocelab/fabrics/tenant/nodes/h6", "-c", "configure terminal",
              "-c", "router bgp 65010", "-c", "address-family ipv4 unicast")  # fmt: skip
    said("h6", *router, "-c", "no network 203.0.113.0/24")
    deadline = time.monotonic() + 60
    while any(ways(leaf, "blue", "203.0.113.0/24") for leaf in LEAVES):
        assert time.monotonic() < deadline
    told = json.loads(rocelab("status", "--evpn", "--json", expect=1).stdout)
    lacks = "203.0.113.0/24 of blue has no path by"
    assert told["gaps"] == [f"leaf1: {lacks} 10.252.0.3", f"leaf2: {lacks} 10.252.0.3", f"leaf3: {lacks} 10.9.0.2"]
    said("h6", *router, "-c", "network 203.0.113.0/24")
    while not all(ways(leaf, "blue", "203.0.113.0/24") for leaf in LEAVES):
        assert time.monotonic() < deadline
    assert rocelab_json("status", "--evpn")["healthy"]
