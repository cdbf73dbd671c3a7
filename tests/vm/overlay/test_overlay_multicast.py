"""Flooding by multicast: how often each frame is where, and what the packets are that carry it.

The judges are tcpdump and tshark, the kernel's multicast routes, and FRR's own show commands. Who sends is told by
each frame's target: an address that nobody has, and whose owner the leaf does not know.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.model.topology import Bfd
from tests.fabric import resident, snapshot
from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json
from tests.vm.on_the_wire import captured, fields

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.long]
LAN: Final = {"h1": "10.1.10.1", "h3": "10.1.10.2", "h5": "10.1.10.3"}
GROUP, OWN_GROUP = "239.1.1.10", "239.0.39.36"
MTU: Final = 4300


@pytest.fixture(scope="module", autouse=True)
def fabric() -> Iterator[dict[str, Any]]:
    before = snapshot.take()
    told: dict[str, Any] = rocelab_json("up", TOPOLOGIES / "multicast.yaml", "--no-rdma")
    yield told
    rocelab("down", "--fabric", "multicast")
    assert before.differences(snapshot.take()) == []


def run(node: str, *argv: str) -> subprocess.CompletedProcess[str]:
    command = ["ip", "netns", "exec", f"rl-multicast.{node}", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def frr(node: str, command: str) -> Any:
    sockets = f"/run/rocelab/fabrics/multicast/nodes/{node}"
    return json.loads(run(node, "vtysh", "--vty_socket", sockets, "-c", command).stdout)


def ask_for_nobody(host: str, address: str) -> None:
    """Have ``host`` ask everybody whose an address is, as often as its kernel does before it gives up."""
    assert "0 received" in run(host, "ping", "-nqc1", "-W4", address).stdout


def asked_where(tmp_path: Path, host: str, address: str, places: list[tuple[str, str]]) -> tuple[dict[str, int], int]:
    """How often a question of ``host`` was seen at each place, in a tunnel or not; and how often it was asked."""
    own = [(host, "eth1"), *places]
    with contextlib.ExitStack() as listening:
        for node, interface in own:
            listening.enter_context(
                captured(f"rl-multicast.{node}", interface, tmp_path / f"{node}-{interface}.pcap")
            )
        ask_for_nobody(host, address)
    seen = {
        f"{node}:{interface}": len(
            fields(tmp_path / f"{node}-{interface}.pcap", f"arp.dst.proto_ipv4 == {address}", "frame.number")
        )
        for node, interface in own
    }
    return seen, seen.pop(f"{host}:eth1")


def speak_pim(leaf: str, interface: str, line: str) -> None:
    sockets = f"/run/rocelab/fabrics/multicast/nodes/{leaf}"
    words = (word for each in ("configure", f"interface {interface}", line) for word in ("-c", each))
    assert run(leaf, "vtysh", "--vty_socket", sockets, *words).returncode == 0


def test_up_does_not_wait_for_the_minute_after_which_frr_registers_again(fabric: dict[str, Any]) -> None:
    """A rendezvous point that has not heard what a leaf registers asks for nothing until then, or unasked."""
    assert fabric["seconds"]["convergence"] < 30


def test_what_is_flooded_comes_to_each_host_once_and_crosses_each_link_once(tmp_path: Path) -> None:
    """Three leaves: by ingress replication it would leave leaf1 twice."""
    hosts = [("h2", "eth1"), ("h3", "eth1"), ("h4", "eth1"), ("h5", "eth1"), ("h6", "eth1")]
    links = [(f"leaf{leaf}", f"swp{spine}") for leaf, spine in itertools.product((1, 2, 3), (1, 2))]
    seen, asked = asked_where(tmp_path, "h1", "10.1.10.99", hosts + links)
    assert asked >= 3
    once = {"h3:eth1", "h5:eth1", "leaf1:swp1", "leaf2:swp1", "leaf3:swp1"}
    assert {place: count for place, count in seen.items() if count} == dict.fromkeys(once, asked)


def test_the_other_network_has_the_other_spine_and_nothing_of_it_goes_where_it_is_not(tmp_path: Path) -> None:
    links = [(f"leaf{leaf}", f"swp{spine}") for leaf, spine in itertools.product((1, 2, 3), (1, 2))]
    seen, asked = asked_where(tmp_path, "h6", "10.1.20.99", [("h2", "eth1"), ("h1", "eth1"), *links])
    assert asked >= 3
    assert {place: count for place, count in seen.items() if count} == {
        "h2:eth1": asked, "leaf3:swp2": asked, "leaf1:swp2": asked
    }  # fmt: skip


def test_the_packet_has_the_group_the_vni_and_a_ttl_that_reaches_all(tmp_path: Path) -> None:
    """RFC 7348 section 4.2; the MAC of the group by RFC 1112 section 6.4. leaf1 and spine1 have routed it: 64 - 2."""
    file = tmp_path / "wire.pcap"
    with captured("rl-multicast.leaf3", "swp1", file):
        ask_for_nobody("h1", "10.1.10.98")
    rows = fields(file, "arp.dst.proto_ipv4 == 10.1.10.98", "ip.src", "ip.dst", "ip.ttl", "vxlan.vni", "eth.dst")
    assert {(source, group, ttl, vni, macs.split(",")[0]) for source, group, ttl, vni, macs in rows} == {
        ("10.252.0.1", GROUP, "62", "10010", "01:00:5e:01:01:0a")
    }


def test_hosts_reach_each_other_at_full_mtu_and_hear_each_answer_once() -> None:
    for source, target in itertools.permutations(LAN, 2):
        said = run(source, "ping", "-nqc2", "-i.3", "-W5", "-Mdo", f"-s{MTU - 28}", LAN[target]).stdout
        assert "2 received" in said, (source, target, said)
        assert "duplicates" not in said, (source, target, said)


@pytest.mark.parametrize(("group", "spine", "leaves"), [(GROUP, "spine1", "123"), (OWN_GROUP, "spine2", "13")])
def test_each_group_has_its_rendezvous_point_and_the_leaves_that_are_in_it(
    group: str, spine: str, leaves: str
) -> None:
    joined = {
        interface: set(frr(spine, "show ip pim join json").get(interface, {}))
        for interface in ("swp1", "swp2", "swp3")
    }
    assert {f"swp{leaf}" for leaf in leaves} == {name for name, groups in joined.items() if group in groups}
    told = frr("leaf1", "show ip pim rp-info json")
    loopback = {"spine1": "10.254.0.1", "spine2": "10.254.0.2"}[spine]
    assert any(str(each["group"]).startswith(group) for each in told[loopback])


def test_status_finds_a_leaf_that_is_in_no_tree() -> None:
    assert rocelab("status", "--evpn").returncode == 0
    speak_pim("leaf2", "swp1", "no ip pim")
    try:
        said = rocelab("status", "--evpn", expect=1)
        assert f"leaf2: tree to {GROUP} has no branch to ipmr-lo" in said.stdout + said.stderr
    finally:
        speak_pim("leaf2", "swp1", "ip pim")
    deadline = time.monotonic() + 60
    while resident.ended("status", "--evpn", timeout=120).returncode:
        assert time.monotonic() < deadline


def test_a_link_that_is_down_for_longer_than_bfd_waits_comes_back_with_its_trees(tmp_path: Path) -> None:
    """With BFD, FRR 10.3 would never bring the session back. BFD would see the link down in half of this time."""
    assert run("leaf1", "ip", "link", "set", "swp1", "down").returncode == 0
    bfd = Bfd()
    time.sleep(2 * bfd.interval * bfd.multiplier)
    assert run("leaf1", "ip", "link", "set", "swp1", "up").returncode == 0
    deadline = time.monotonic() + 60
    while resident.ended("status", "--evpn", timeout=120).returncode:
        assert time.monotonic() < deadline
    seen, asked = asked_where(tmp_path, "h1", "10.1.10.97", [("h3", "eth1"), ("h5", "eth1")])
    assert seen == {"h3:eth1": asked, "h5:eth1": asked}


def test_a_leaf_is_in_more_groups_than_a_socket_may_be_in_by_itself(tmp_path: Path) -> None:
    """ip(7): igmp_max_memberships, 20. All tunnels join by one socket, and so does what takes their packets in."""
    numbers = range(10, 32)
    networks = "".join(f"    n{n}: {{vlan: {n}, l2vni: {10000 + n}, tagged: [h1, h2]}}\n" for n in numbers)
    shape = "generate: {shape: leaf-spine, spines: 1, leaves: 2, fabric_mtu: 9050}\n"
    file = tmp_path / "many.yaml"
    file.write_text(f"name: many\n{shape}overlay:\n  flooding: multicast\n  networks:\n{networks}")
    rocelab("up", file, "--no-rdma")
    try:
        said = json.loads(subprocess.run(
            ["ip", "netns", "exec", "rl-many.leaf1", "ip", "-json", "maddress", "show"],
            capture_output=True, text=True, timeout=120, check=True,
        ).stdout)  # fmt: skip
        joined = {each["ifname"]: {one.get("address") for one in each["maddr"]} for each in said}
        groups = {f"239.0.39.{n + 10000 - 39 * 256}" for n in numbers}
        assert groups <= joined["lo"]
        assert groups <= joined["ipmr-lo"]
    finally:
        rocelab("down", "--fabric", "many")
