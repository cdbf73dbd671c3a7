"""Plain VLANs over a spanning tree: who reaches whom, what is on the wire, and that it is a tree.

The judges are ping, the kernel's own words of its bridges, and tshark.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.fabric import snapshot
from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json
from tests.vm.on_the_wire import captured, fields

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.vm
SWITCHES: Final = ("spine1", "spine2", "leaf1", "leaf2", "leaf3")
LAN: Final = {"h1": "10.1.10.1", "h3": "10.1.10.2", "h5": "10.1.10.3"}
OWN: Final = {"h2": "10.1.20.1", "h4": "10.1.20.2", "h6": "10.1.20.3"}
"""h6 has its VLAN with a tag."""
MTU: Final = 1500


@pytest.fixture(scope="module", autouse=True)
def fabric() -> Iterator[None]:
    before = snapshot.take()
    rocelab("up", TOPOLOGIES / "vlans.yaml", "--no-rdma")
    yield
    rocelab("down", "--fabric", "vlans")
    assert before.differences(snapshot.take()) == []


def run(node: str, *argv: str) -> subprocess.CompletedProcess[str]:
    command = ["ip", "netns", "exec", f"rl-vlans.{node}", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def ports() -> dict[str, dict[str, Any]]:
    """By switch and port what bridge(8) says."""
    return {
        switch: {each["ifname"]: each for each in json.loads(run(switch, "bridge", "-json", "link", "show").stdout)}
        for switch in SWITCHES
    }


def test_when_up_returns_a_tree_is_left() -> None:
    """First: five switches and six links, of which the generator's first is leaf1 to spine1."""
    states = {f"{switch}:{name}": each["state"] for switch, own in ports().items() for name, each in own.items()}
    assert set(states.values()) == {"forwarding", "blocking"}
    blocked = [port for port, state in states.items() if state == "blocking"]
    assert blocked == ["spine2:swp2", "spine2:swp3"]
    assert {each["cost"] for each in ports()["leaf1"].values() if each["ifname"] in {"swp1", "swp2"}} == {19}


def test_lldp_sees_every_cable_of_bridges_and_of_ports_that_block() -> None:
    """A bridge neither forwards the frames nor hides them from lldpd; blocking ports receive them, too."""
    cabling = rocelab_json("lldp")
    assert cabling["as_planned"]
    assert len(cabling["ports"]) == 24


def test_status_says_so() -> None:
    told = rocelab_json("status")
    assert told["healthy"]
    assert told["tree"] == {
        "root": "spine1", "links": 6, "blocked": ["leaf2:swp2--spine2:swp2", "leaf3:swp2--spine2:swp3"], "gaps": []
    }  # fmt: skip
    leaf = next(node for node in told["nodes"] if node["name"] == "leaf2")
    assert {port["name"]: port["role"] for port in leaf["tree"]["ports"]} == {
        "swp1": "root", "swp2": "designated", "swp3": "designated", "swp4": "designated"
    }  # fmt: skip
    assert leaf["daemons"] == {}


@pytest.mark.parametrize("network", [LAN, OWN], ids=["lan", "own"])
def test_hosts_of_a_vlan_reach_each_other_at_full_mtu_and_once(network: dict[str, str]) -> None:
    for source, target in itertools.permutations(network, 2):
        said = run(source, "ping", "-nqc2", "-i.3", "-W5", "-Mdo", f"-s{MTU - 28}", network[target])
        assert "2 received" in said.stdout, (source, target, said)
        assert "duplicates" not in said.stdout, (source, target, said)


def test_hosts_of_two_vlans_do_not_even_with_addresses_of_one_subnet() -> None:
    assert run("h2", "ip", "address", "add", "10.1.10.9/24", "dev", "eth1").returncode == 0
    try:
        assert run("h2", "ping", "-nqc1", "-W2", "-I10.1.10.9", LAN["h1"]).returncode == 1
    finally:
        run("h2", "ip", "address", "del", "10.1.10.9/24", "dev", "eth1")


def test_trunks_carry_tags_and_the_messages_of_the_root(tmp_path: Path) -> None:
    """By tshark: IEEE 802.1Q's identifier, and of IEEE 802.1D's messages root, cost and timers."""
    file = tmp_path / "trunk.pcap"
    with captured("rl-vlans.leaf2", "swp1", file):
        run("h1", "ping", "-nqc3", "-i.5", "-W5", LAN["h3"])
        run("h2", "ping", "-nqc3", "-i.5", "-W5", OWN["h4"])
    tags = {(row[0], row[1].rsplit(".", 1)[0]) for row in fields(file, "icmp", "vlan.id", "ip.src")}
    assert tags == {("10", "10.1.10"), ("20", "10.1.20")}
    of = ("stp.root.hw", "stp.root.cost", "stp.hello", "stp.max_age", "stp.forward")
    assert {tuple(row) for row in fields(file, "stp", *of)} == {("02:1a:00:01:00:00", "0", "1", "6", "4")}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("path", "h1", "h3"), "fabric vlans uses plain VLANs"),
        (("status", "--evpn"), "fabric vlans is of plain VLANs and has no EVPN"),
        (("vtysh", "leaf1", "-c", "show version"), "leaf1 bridges plain VLANs and runs no router"),
        (("fault", "inject", "daemon-killed", "leaf1"), "leaf1"),
    ],
)
def test_what_there_is_nothing_to_ask_about_says_so_in_a_line(argv: tuple[str, ...], said: str) -> None:
    done = rocelab(*argv, expect=2)
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_link_that_is_down_is_not_well() -> None:
    run("leaf1", "ip", "link", "set", "dev", "swp2", "down")
    try:
        told = json.loads(rocelab("status", "--json", expect=1).stdout)
        assert "leaf1:swp2 is disabled" in told["tree"]["gaps"]
    finally:
        run("leaf1", "ip", "link", "set", "dev", "swp2", "up")
