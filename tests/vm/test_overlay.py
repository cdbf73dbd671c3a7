"""Two tenants over EVPN and VXLAN: what their leaves have when ``up`` returns, and who reaches whom.

The judges are the kernel's tables and ping. One fabric, since each takes a while.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from tests.fabric import snapshot
from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.vm
LEAVES: Final = ("leaf1", "leaf2", "leaf3")
BLUE: Final = {"h1": "10.1.10.2", "h3": "10.1.10.3", "h5": "10.1.20.2"}
BLUE6: Final = {"h1": "fd00:1:10::2", "h3": "fd00:1:10::3", "h5": "fd00:1:20::2"}
RED: Final = {"h2": "10.1.10.2", "h4": "10.1.10.3", "h6": "10.1.10.4"}
MTU: Final = 4300
GATEWAY_MAC: Final = "02:1a:00:00:00:01"
MAC: Final = {f"h{number}": f"02:1a:00:{5 + number:02x}:00:01" for number in range(1, 7)}


def said(node: str, *argv: str) -> str:
    done = subprocess.run(
        ["ip", "netns", "exec", f"rl-tenant.{node}", *argv], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def fabric() -> Iterator[None]:
    before = snapshot.take()
    rocelab("up", TOPOLOGIES / "tenant.yaml")
    yield
    rocelab("down", "--fabric", "tenant")
    assert before.differences(snapshot.take()) == []


def test_when_up_returns_every_vtep_is_in_the_flood_lists_and_every_subnet_in_its_vrf() -> None:
    """First: nothing has been sent yet, and no time has passed."""
    vtep = {leaf: f"10.252.0.{leaf[-1]}" for leaf in LEAVES}
    at = {10010: ("leaf1", "leaf2"), 10020: ("leaf3",), 10030: LEAVES}
    for leaf in LEAVES:
        database = json.loads(said(leaf, "bridge", "-json", "fdb", "show"))
        floods = {(entry["ifname"], entry["dst"]) for entry in database if entry["mac"] == "00:00:00:00:00:00"}
        own = {vni for vni, leaves in at.items() if leaf in leaves}
        wanted = {(f"vni{vni}", vtep[other]) for vni in own for other in at[vni] if other != leaf}
        assert floods == wanted, leaf
    routes = json.loads(said("leaf3", "ip", "-json", "route", "show", "vrf", "blue", "protocol", "bgp"))
    subnet = next(route for route in routes if route["dst"] == "10.1.10.0/24")
    assert {hop["gateway"] for hop in subnet["nexthops"]} == {vtep["leaf1"], vtep["leaf2"]}
    assert {hop["dev"] for hop in subnet["nexthops"]} == {"vlan4094"}
    leaf1 = {route["dst"] for route in json.loads(said("leaf1", "ip", "-json", "route", "show", "vrf", "blue"))}
    assert "10.1.20.0/24" in leaf1


def test_status_of_the_fabric_and_of_its_overlay_is_well() -> None:
    assert rocelab_json("status")["healthy"]


def pings(tenant: dict[str, str], size: int) -> Iterator[tuple[str, str, str]]:
    """From each host to each other, all at once, of exactly ``size`` bytes each, never in fragments."""
    begun = []
    for source, target in itertools.permutations(tenant, 2):
        address = tenant[target]
        payload = size - 8 - (40 if ":" in address else 20)
        argv = ["ping", "-nqc2", "-i.3", "-W5", "-Mdo", f"-s{payload}", address]
        command = ["ip", "netns", "exec", f"rl-tenant.{source}", *argv]
        begun.append((source, target, subprocess.Popen(command, stdout=subprocess.PIPE, text=True)))
    for source, target, ping in begun:
        yield source, target, ping.communicate(timeout=120)[0]


@pytest.mark.parametrize("tenant", [BLUE, BLUE6, RED], ids=["blue", "blue6", "red"])
def test_every_pair_of_a_tenant_reaches_each_other_at_full_mtu_once(tenant: dict[str, str]) -> None:
    """A frame to the gateway that is flooded is routed by every leaf: answers would come twice."""
    for source, target, report in pings(tenant, MTU):
        assert "2 received" in report, (source, target, report)
        assert "duplicates" not in report, (source, target, report)


def test_no_byte_more_than_the_mtu_goes_through() -> None:
    """The negative of the test above: with one byte more, ping itself is told."""
    for source, _, report in pings({"h1": BLUE["h1"], "h3": BLUE["h3"]}, MTU + 1):
        assert "0 received" in report, (source, report)


def test_no_pair_across_tenants_reaches_each_other_nor_the_switches() -> None:
    for source, target in (("h2", BLUE["h5"]), ("h4", BLUE["h5"]), ("h1", "10.253.0.1"), ("h1", RED["h6"])):
        argv = ["ping", "-nqc1", "-W2", target]
        done = subprocess.run(["ip", "netns", "exec", f"rl-tenant.{source}", *argv], check=False, timeout=60)
        assert done.returncode == 1, (source, target)


def test_addresses_that_two_tenants_share_are_two_hosts() -> None:
    """By the MAC that each has for the same address, 10.1.10.3: its own tenant's host's."""
    for source, target in (("h1", "h3"), ("h2", "h4")):
        (entry,) = json.loads(said(source, "ip", "-json", "neigh", "show", "to", "10.1.10.3", "dev", "eth1"))
        assert entry["lladdr"] == MAC[target]


def test_the_gateway_has_one_mac_on_all_leaves() -> None:
    for host in (*BLUE, *RED):
        gateway = "10.1.20.1" if host == "h5" else "10.1.10.1"
        said(host, "ping", "-qc1", "-W5", gateway)
        (entry,) = json.loads(said(host, "ip", "-json", "neigh", "show", "to", gateway))
        assert entry["lladdr"] == GATEWAY_MAC, host


def test_the_kernel_has_remote_macs_behind_their_vteps() -> None:
    database = json.loads(said("leaf1", "bridge", "-json", "fdb", "show", "dev", "vni10030"))
    remote = {entry["mac"]: entry["dst"] for entry in database if "dst" in entry}
    assert remote[MAC["h4"]] == "10.252.0.2"
    assert remote[MAC["h6"]] == "10.252.0.3"
