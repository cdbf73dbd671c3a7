"""Two tenants over EVPN and VXLAN: who tells what, who reaches whom, and what is on the wire.

The judges are FRR's own show commands, the kernel's tables, ping and tshark. One fabric, since each takes a while.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json
from tests.vm.on_the_wire import captured, fields
from tests.vm.tenants import (
    BLUE,
    BLUE6,
    GATEWAY_MAC,
    LEAVES,
    MAC,
    MTU,
    RED,
    TENANTS,
    assert_healthy,
    await_routes,
    fabric_of,
    greet_gateways,
    pings,
    said,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module", autouse=True)
def fabric() -> Iterator[None]:
    with fabric_of(TENANTS):
        yield


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


def remote_vteps() -> dict[tuple[str, str], float]:
    """The gauge of remote VTEPs, by leaf and VNI."""
    family = "frr_bgp_l2vpn_evpn_remote_vteps"
    return {
        (sample.labels["instance"], sample.labels["vni"]): sample.value
        for metric in text_string_to_metric_families(rocelab("metrics", "print", "--format", "text").stdout)
        for sample in metric.samples
        if sample.name == family
    }


def test_a_healthy_overlay_has_no_differences() -> None:
    """Those of other shapes are in test_healthy_overlays.py."""
    assert_healthy("tenant")


def test_metrics_count_the_remote_vteps_of_each_network() -> None:
    """blue has one network on two leaves and one on leaf3 alone, red one on all three. L3VNIs flood to nobody."""
    assert remote_vteps() == {
        ("leaf1", "10010"): 1, ("leaf2", "10010"): 1, ("leaf3", "10020"): 0,
        ("leaf1", "10030"): 2, ("leaf2", "10030"): 2, ("leaf3", "10030"): 2,
    }  # fmt: skip


def test_status_of_the_fabric_and_of_its_overlay_is_well() -> None:
    assert rocelab_json("status")["healthy"]


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
    for host, gateway in greet_gateways():
        (entry,) = json.loads(said(host, "ip", "-json", "neigh", "show", "to", gateway))
        assert entry["lladdr"] == GATEWAY_MAC, host


def test_each_leaf_tells_of_what_it_has_and_nothing_else() -> None:
    """FRR's own tables, entry by entry, then rocelab's reading of them."""
    await_routes()
    told = rocelab_json("status", "--evpn")
    assert told["healthy"]
    assert {route["route"]["type"] for route in told["routes"]} == {2, 3, 5}
    assert {(each["leaf"], each["vni"]) for each in told["vnis"] if each["kind"] == "L3"} == {
        (leaf, vni) for leaf in LEAVES for vni in (50010, 50020)
    }
    for each in told["routes"]:
        assert each["route"]["next_hop"] == f"10.252.0.{each['leaf'][-1]}"
        assert set(each["received"]) == set(LEAVES) - {each["leaf"]}


def test_the_kernel_has_remote_macs_behind_their_vteps() -> None:
    database = json.loads(said("leaf1", "bridge", "-json", "fdb", "show", "dev", "vni10030"))
    remote = {entry["mac"]: entry["dst"] for entry in database if "dst" in entry}
    assert remote[MAC["h4"]] == "10.252.0.2"
    assert remote[MAC["h6"]] == "10.252.0.3"


def test_arp_for_a_known_host_is_answered_by_the_leaf(tmp_path: Path) -> None:
    """By a capture where the other host is: it hears no question (RFC 9161 section 3.2)."""
    said("h1", "ip", "neigh", "flush", "all")
    with captured("rl-tenant.h3", "eth1", tmp_path / "h3.pcap"):
        said("h1", "ping", "-qc1", "-W5", BLUE["h3"])
    assert fields(tmp_path / "h3.pcap", "icmp.type == 8", "ip.src") == [[BLUE["h1"]]]
    asked = fields(tmp_path / "h3.pcap", "arp.opcode == 1", "arp.src.hw_mac", "arp.dst.proto_ipv4")
    assert [MAC["h1"], BLUE["h3"]] not in asked
    (entry,) = json.loads(said("h1", "ip", "-json", "neigh", "show", "to", BLUE["h3"], "dev", "eth1"))
    assert entry["lladdr"] == MAC["h3"]


def test_the_tunnel_has_the_vni_of_the_network_or_of_the_tenant_and_keeps_the_class(tmp_path: Path) -> None:
    """Bridged by the L2VNI, routed by the L3VNI; the outer DSCP is the inner one's, ECN too (RFC 6040)."""
    files = [tmp_path / f"{spine}.pcap" for spine in ("spine1", "spine2")]
    with captured("rl-tenant.leaf1", "swp1", files[0]), captured("rl-tenant.leaf1", "swp2", files[1]):
        for target in (BLUE["h3"], BLUE["h5"]):
            said("h1", "ping", "-qc2", "-i.2", "-W5", "-Q", "0x6a", target)
    seen = set()
    for file in files:
        for vni, addresses, dscp, ecn in fields(
            file, "vxlan && icmp.type == 8", "vxlan.vni", "ip.dst", "ip.dsfield.dscp", "ip.dsfield.ecn"
        ):
            outer, inner = addresses.split(",")
            assert set(dscp.split(",")) == {"26"}
            assert set(ecn.split(",")) == {"2"}
            seen.add((vni, outer, inner))
    assert seen == {("10010", "10.252.0.2", BLUE["h3"]), ("50010", "10.252.0.3", BLUE["h5"])}


def test_rdma_goes_through_the_tunnel_bridged_and_routed() -> None:
    for target in ("h3", "h5"):
        report = rocelab_json("rdma", "bw", "h1", target, "--size", "4096", "--iterations", "200")
        assert report["pairs"][0]["messages"] == 200, report


@pytest.mark.long
def test_one_broadcast_domain_without_a_tenant_beside_it() -> None:
    """RFC 7432 types 2 and 3 alone; type 2 of MACs, since no leaf has an address there to learn theirs by."""
    rocelab("up", TOPOLOGIES / "l2vni.yaml", "--no-rdma")
    try:
        argv = ["ping", "-nqc2", "-i.3", "-W5", "-Mdo", f"-s{MTU - 28}", "10.1.10.3"]
        done = subprocess.run(["ip", "netns", "exec", "rl-l2vni.h1", *argv], check=False, timeout=60)
        assert done.returncode == 0
        told = rocelab_json("status", "--evpn", "--fabric", "l2vni")
    finally:
        rocelab("down", "--fabric", "l2vni")
    assert told["healthy"]
    routes = [(each["leaf"], each["route"]) for each in told["routes"]]
    assert {(leaf, route["ip"]) for leaf, route in routes if route["type"] == 3} == {
        (leaf, f"10.252.0.{leaf[-1]}") for leaf in LEAVES
    }
    # h1 is the sixth node of this fabric: two spines and three leaves are before it.
    told_macs = {(leaf, route["mac"], route["ip"]) for leaf, route in routes if route["type"] == 2}
    assert {("leaf1", "02:1a:00:06:00:01", ""), ("leaf3", "02:1a:00:08:00:01", "")} <= told_macs
    assert {route["type"] for _, route in routes} == {2, 3}
    assert all(not route["ip"] for _, route in routes if route["type"] == 2)


def test_a_vtep_that_is_gone_is_told() -> None:
    """Last: it breaks the fabric."""
    said("leaf2", "ip", "link", "set", "vni10010", "down")
    deadline = time.monotonic() + 60
    while "10.252.0.2" in said("leaf1", "bridge", "fdb", "show", "dev", "vni10010"):
        assert time.monotonic() < deadline
    done = rocelab("status", "--evpn", expect=1)
    assert "leaf1: vni10010 has no tunnel to 10.252.0.2" in done.stdout
    assert remote_vteps()["leaf1", "10010"] == 0
