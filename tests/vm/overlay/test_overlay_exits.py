"""Two ways out: h2 at leaf2 and h3 at leaf3 are routers outside, and tell one tenant the same prefixes.

The judges are the kernel's tables, FRR's own routes of EVPN and ping.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

import pytest

from lab.kernel.netlink.routes import RouteNews
from lab.kernel.process.netns import Namespace
from tests.fabric.command import rocelab, rocelab_json
from tests.vm.tenants import fabric_of, said, ways

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.long]
TOPOLOGY: Final = """
name: tenant
defaults: {mtu: 1500}
generate: {shape: leaf-spine, spines: 1, leaves: 3, hosts_per_leaf: 1, fabric_mtu: 1550}
overlay:
  tenants: {blue: {l3vni: 50010}}
  networks:
    web:
      {vlan: 10, l2vni: 10010, tenant: blue, subnets: [10.1.0.0/24, "fd00:1::/64"], gateways: [10.1.0.1, "fd00:1::1"],
       untagged: [h1]}
    wan2:
      {vlan: 20, l2vni: 10020, tenant: blue, subnets: [10.2.0.0/29, "fd00:2::/64"], gateways: [10.2.0.1, "fd00:2::1"],
       untagged: [h2]}
    wan3:
      {vlan: 30, l2vni: 10030, tenant: blue, subnets: [10.3.0.0/29, "fd00:3::/64"], gateways: [10.3.0.1, "fd00:3::1"],
       untagged: [h3]}
  border:
    - {router: h2, asn: 65010, prefixes: [0.0.0.0/0, 203.0.113.0/24, "2001:db8:9::/48"]}
    - {router: h3, asn: 65010, prefixes: [0.0.0.0/0, 203.0.113.0/24, "2001:db8:9::/48"]}
"""
OUTSIDE: Final = ("0.0.0.0/0", "203.0.113.0/24", "2001:db8:9::/48")
VTEPS: Final = {"leaf2": "10.252.0.2", "leaf3": "10.252.0.3"}
LOST: Final = 15.0
"""Seconds: the hold time of a session with a router outside is 9."""


@pytest.fixture(scope="module", autouse=True)
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    file = tmp_path_factory.mktemp("exits") / "tenant.yaml"
    file.write_text(TOPOLOGY)
    with fabric_of(file, "--no-rdma"):
        yield


def answers() -> None:
    """The first address of both, by each IP version."""
    for family, address in (("-4", "203.0.113.1"), ("-6", "2001:db8:9::1")):
        assert "2 received" in said("h1", "ping", family, "-nqc2", "-i.1", "-W5", address)


def test_a_leaf_has_both_ways_and_a_border_leaf_its_own() -> None:
    for prefix in OUTSIDE:
        assert ways("leaf1", "blue", prefix) == list(VTEPS.values())
    assert [ways(leaf, "blue", OUTSIDE[0]) for leaf in VTEPS] == [["10.2.0.2"], ["10.3.0.2"]]


def test_each_border_leaf_tells_it_with_a_distinguisher_of_its_own() -> None:
    """RFC 9136 section 3.1: by it they are two routes, and both are kept."""
    told = rocelab_json("status", "--evpn")
    assert told["healthy"]
    for prefix in OUTSIDE:
        routes = [each for each in told["routes"] if each["route"]["ip"] == prefix]
        assert [(each["leaf"], each["route"]["next_hop"]) for each in routes] == list(VTEPS.items())
        assert len({each["route"]["rd"] for each in routes}) == 2
        assert all("leaf1" in each["received"] for each in routes)


def test_when_one_router_dies_packets_go_by_the_other() -> None:
    """By which of the two they had gone before is the hash's choice: that one dies."""
    answers()
    taken = json.loads(
        said("leaf1", "ip", "-json", "route", "get", "203.0.113.1", "from", "10.1.0.2", "iif", "vlan10")
    )
    dead = next(leaf for leaf, vtep in VTEPS.items() if vtep == taken[0]["gateway"])
    (left,) = VTEPS.keys() - {dead}
    with RouteNews([Namespace("rl-tenant.leaf1")]) as news:
        said(dead, "ip", "link", "set", "swp2", "down")
        deadline = time.monotonic() + LOST
        while any(ways("leaf1", "blue", prefix) != [VTEPS[left]] for prefix in OUTSIDE):
            assert news.wait(deadline - time.monotonic())
    answers()
    assert ways(dead, "blue", "203.0.113.0/24") == [VTEPS[left]]
    gaps = json.loads(rocelab("status", "--evpn", "--json", expect=1).stdout)["gaps"]
    assert f"leaf1: 203.0.113.0/24 of blue has no path by {VTEPS[dead]}" in gaps
