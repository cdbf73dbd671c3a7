"""The two tenants with EVPN over sessions of its own: between loopbacks, eBGP or iBGP with the spines as reflectors.

The judges are FRR's own show commands, the kernel's tables and ping, as in test_overlay.
"""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.fabric.command import rocelab_json
from tests.vm.tenants import (
    BLUE,
    BLUE6,
    LEAVES,
    MTU,
    RED,
    await_routes,
    changed,
    fabric_of,
    frr,
    greet_gateways,
    pings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.long]
SPINES: Final = {"10.254.0.1": "spine1", "10.254.0.2": "spine2"}


@pytest.fixture(scope="module", autouse=True, params=["ebgp-multihop", "ibgp"])
def design(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    change = ("overlay:\n", f"overlay:\n  design: {request.param}\n")
    with fabric_of(changed(tmp_path_factory.mktemp(request.param), change), "--no-rdma"):
        yield request.param


def test_evpn_has_sessions_between_loopbacks_and_no_others(design: str) -> None:
    assert rocelab_json("status")["healthy"]
    for leaf in LEAVES:
        said = frr(leaf, "show bgp l2vpn evpn summary json")
        assert {address: peer["desc"] for address, peer in said["peers"].items()} == SPINES
        assert {peer["state"] for peer in said["peers"].values()} == {"Established"}
        inside = {peer["remoteAs"] == said["as"] for peer in said["peers"].values()}
        assert inside == {design == "ibgp"}, leaf
    told = frr("spine1", "show bgp l2vpn evpn summary json")["peers"]
    assert set(told) == {f"10.253.0.{leaf[-1]}" for leaf in LEAVES}


def test_the_underlay_is_ebgp_hop_by_hop_all_the_same() -> None:
    """A spine knows a leaf by the AS number that RFC 7938 gives it, whatever EVPN's is."""
    (paths,) = [frr("leaf1", "show bgp ipv4 unicast 10.252.0.3/32 json")["paths"]]
    assert {path["aspath"]["string"] for path in paths} == {"4200001000 4200100003"}
    assert len(paths) == len(SPINES)
    assert all(path["valid"] for path in paths)


@pytest.mark.parametrize("tenant", [BLUE, BLUE6, RED], ids=["blue", "blue6", "red"])
def test_every_pair_of_a_tenant_reaches_each_other_at_full_mtu_once(tenant: dict[str, str]) -> None:
    for source, target, report in pings(tenant, MTU):
        assert "2 received" in report, (source, target, report)
        assert "duplicates" not in report, (source, target, report)


def test_no_pair_across_tenants_reaches_each_other_nor_the_switches() -> None:
    for source, target in (("h2", BLUE["h5"]), ("h1", "10.253.0.1"), ("h1", RED["h6"])):
        argv = ["ping", "-nqc1", "-W2", target]
        done = subprocess.run(["ip", "netns", "exec", f"rl-tenant.{source}", *argv], check=False, timeout=60)
        assert done.returncode == 1, (source, target)


def test_each_leaf_tells_of_what_it_has_and_nothing_else() -> None:
    """And every other leaf has it: spines hand on what they are told, next hops as they are."""
    assert len(list(greet_gateways())) == len(BLUE) + len(RED)
    await_routes()
    told = rocelab_json("status", "--evpn")
    assert told["healthy"]
    for each in told["routes"]:
        assert each["route"]["next_hop"] == f"10.252.0.{each['leaf'][-1]}"
        assert set(each["received"]) == set(LEAVES) - {each["leaf"]}


def test_sessions_without_bfd_are_well_when_they_are_old() -> None:
    """Those of links are judged after 8 s: 5, and three intervals."""
    deadline = time.monotonic() + 30
    while min(_ages()) < 9000:
        assert time.monotonic() < deadline
    nodes = rocelab_json("status")["nodes"]
    assert all(node["healthy"] for node in nodes)
    assert {name for node in nodes for name in node["bfd"]} == {"swp1", "swp2", "swp3"}


def test_spines_reflect_where_all_are_in_one_as(design: str) -> None:
    """RFC 4456 section 8: the ORIGINATOR_ID is who told it first; without reflection the AS path tells."""
    found = [path for path in _paths(frr("leaf1", "show bgp l2vpn evpn route detail json")) if _is_of_leaf3(path)]
    assert found
    for path in found:
        if design == "ibgp":
            assert path["originatorId"] == "10.253.0.3", path
            assert path["aspath"]["string"] == "Local", path
        else:
            assert "originatorId" not in path, path
            assert path["aspath"]["string"].split()[-1] == "4200100003", path


def _ages() -> list[int]:
    """Of all sessions of EVPN at leaves, milliseconds."""
    said = [frr(leaf, "show bgp l2vpn evpn summary json")["peers"] for leaf in LEAVES]
    return [peer["peerUptimeMsec"] for peers in said for peer in peers.values()]


def _is_of_leaf3(path: dict[str, Any]) -> bool:
    return any(hop.get("ip") == "10.252.0.3" for hop in path["nexthops"])


def _paths(said: Any) -> Iterator[dict[str, Any]]:
    """All paths in what FRR says of its routes."""
    if isinstance(said, dict) and "nexthops" in said and "aspath" in said:
        yield said
    elif isinstance(said, dict | list):
        for each in said.values() if isinstance(said, dict) else said:
            yield from _paths(each)
