"""The tenants over OSPF: what the links have, which sessions carry EVPN, and who reaches whom. h6 is in no network.

The judges are FRR's own show commands, the kernel's tables and ping, as in test_overlay_designs.
"""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.fabric.command import rocelab, rocelab_json
from tests.vm.tenants import BLUE, BLUE6, LEAVES, MTU, RED, WITHOUT_H6, changed, fabric_of, frr, pings, said

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.long]
SPINES: Final = {"10.254.0.1": "spine1", "10.254.0.2": "spine2"}
LOOPBACKS: Final = {f"10.25{kind}.0.{number}" for kind, number in itertools.product((2, 3), (1, 2, 3))}
H6: Final = "10.0.0.10/31"
"""Of the underlay: the sixth link to a host."""


@pytest.fixture(scope="module", autouse=True)
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    change = ("overlay:\n", "overlay:\n  design: ibgp\n  underlay: ospf\n")
    with fabric_of(changed(tmp_path_factory.mktemp("ospf"), change, WITHOUT_H6), "--no-rdma"):
        yield


def told_by(leaf: str, version: str) -> dict[str, set[str]]:
    """Interfaces of each prefix's next hops, as OSPF itself has them in zebra."""
    found = {}
    for prefix, routes in frr(leaf, f"show {version} route {'ospf' if version == 'ip' else 'ospf6'} json").items():
        (route,) = routes
        hops = {hop["interfaceName"] for hop in route["nexthops"] if hop.get("active")}
        found[prefix.removesuffix("/32").removesuffix("/128")] = hops
    return found


@pytest.mark.parametrize("leaf", LEAVES)
def test_ospf_has_every_loopback_and_the_hosts_of_the_underlay_by_all_spines(leaf: str) -> None:
    own = {f"10.252.0.{leaf[-1]}", f"10.253.0.{leaf[-1]}"}
    told = {prefix: hops for prefix, hops in told_by(leaf, "ip").items() if prefix not in own}
    spines = {spine: {f"swp{number}"} for number, spine in enumerate(SPINES, start=1)}
    wanted = {**{key: {"swp1", "swp2"} for key in LOOPBACKS - own}, **spines}
    assert {prefix: hops for prefix, hops in told.items() if prefix != H6} == wanted
    assert leaf == "leaf3" or told[H6] == {"swp1", "swp2"}
    six = {f"fdc0:0:0:1::{other[-1]}": {"swp1", "swp2"} for other in LEAVES if other != leaf}
    assert {prefix: hops for prefix, hops in told_by(leaf, "ipv6").items() if prefix in six} == six
    kernel = json.loads(said(leaf, "ip", "-json", "route", "show", "protocol", "ospf"))
    assert {route["dst"] for route in kernel} == set(told) - ({H6} if leaf == "leaf3" else set())
    assert json.loads(said(leaf, "ip", "-json", "route", "show", "protocol", "bgp")) == []


def test_evpn_has_sessions_of_ibgp_between_loopbacks_and_bgp_nothing_else() -> None:
    for leaf in LEAVES:
        families = frr(leaf, "show bgp summary json")
        assert set(families) == {"l2VpnEvpn"}
        told = families["l2VpnEvpn"]
        assert {address: peer["desc"] for address, peer in told["peers"].items()} == SPINES
        assert {(peer["state"], peer["remoteAs"]) for peer in told["peers"].values()} == {("Established", told["as"])}


@pytest.mark.parametrize("tenant", [BLUE, BLUE6, {"h2": RED["h2"], "h4": RED["h4"]}], ids=["blue", "blue6", "red"])
def test_every_pair_of_a_tenant_reaches_each_other_at_full_mtu_once(tenant: dict[str, str]) -> None:
    for source, target, report in pings(tenant, MTU):
        assert "2 received" in report, (source, target, report)
        assert "duplicates" not in report, (source, target, report)


def test_bfd_watches_both_versions_on_every_link() -> None:
    """RFC 5881: between the borrowed addresses, and between those of the link."""
    deadline = time.monotonic() + 60
    while {peer["status"] for peer in frr("leaf1", "show bfd peers json")} != {"up"}:
        assert time.monotonic() < deadline
    found = {(peer["interface"], peer["peer"][:4]) for peer in frr("leaf1", "show bfd peers json")}
    assert found == {(interface, four) for interface in ("swp1", "swp2") for four in ("10.2", "fe80")}
    assert rocelab_json("status")["healthy"]


def adjacent(expect: int) -> dict[tuple[str, int], str]:
    """The neighbours of leaf1 as ``status`` has them."""
    told: dict[str, Any] = json.loads(rocelab("status", "--json", expect=expect).stdout)
    (leaf1,) = (node for node in told["nodes"] if node["name"] == "leaf1")
    assert leaf1["healthy"] is (expect == 0)
    return {(each["interface"], each["version"]): each["state"] for each in leaf1["neighbours"]}


def test_a_link_that_is_down_has_no_neighbour_and_its_way_is_not_taken() -> None:
    full = {(interface, version): "Full" for interface in ("swp1", "swp2") for version in (2, 3)}
    assert adjacent(0) == full
    said("leaf1", "ip", "link", "set", "swp1", "down")
    deadline = time.monotonic() + 60
    while told_by("leaf1", "ip")["10.252.0.3"] != {"swp2"}:
        assert time.monotonic() < deadline
    assert adjacent(1) == full | {("swp1", 2): "Down", ("swp1", 3): "Down"}
    for source, target, report in pings({host: BLUE[host] for host in ("h1", "h5")}, MTU):
        assert "2 received" in report, (source, target, report)
    said("leaf1", "ip", "link", "set", "swp1", "up")
    while told_by("leaf1", "ip")["10.252.0.3"] != {"swp1", "swp2"}:
        assert time.monotonic() < deadline
