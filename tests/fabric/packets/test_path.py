"""``rocelab path`` against what interfaces count of a live flow, and against traceroute's arithmetic of a Clos."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from lab.backends.fabric_state import FabricState
from lab.kernel.process.netns import Namespace
from tests.fabric import resident
from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json
from tests.inside import entered
from tests.patience import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.fabric, pytest.mark.backends]

NAME = "paths"
PACKETS = 500
"""So many of a flow, beside which the daemons' own packets are few."""


@pytest.fixture(scope="module", autouse=True)
def fabric() -> Iterator[None]:
    rocelab("up", TOPOLOGIES / "clos-2x4.yaml", "--name", NAME, "--no-rdma")
    yield
    rocelab("down", "--fabric", NAME)


def node(name: str) -> Namespace:
    return Namespace(f"rl-{NAME}.{name}", FabricState(NAME).groups / name)


def sent(name: str) -> dict[str, int]:
    """Packets that each interface of a node has sent."""
    links: list[dict[str, Any]] = json.loads(node(name).run(["ip", "-j", "-s", "link"]).stdout)
    return {link["ifname"]: link["stats64"]["tx"]["packets"] for link in links}


def left_by(name: str, sport: int) -> str:
    """The interface by which a switch sends a flow from h1 to h7 that is under way."""
    before = sent(name)
    with entered(node("h1")), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flow:
        flow.bind(("10.0.0.1", sport))
        for _ in range(PACKETS):
            flow.sendto(b"x", ("10.0.0.13", 4791))
    deadline = time.monotonic() + PATIENCE
    while True:  # what was sent is still on its way where the machine is busy
        grown = {interface: count - before[interface] for interface, count in sent(name).items()}
        most = max(grown, key=lambda interface: grown[interface])
        if grown[most] >= PACKETS:
            return most
        assert time.monotonic() < deadline, grown


def test_all_paths_are_one_over_each_spine() -> None:
    found = rocelab_json("path", "h1", "h7")
    assert sorted(found["paths"]) == [
        ["h1:eth1", "leaf1:swp1", "spine1:swp4", "leaf4:swp3"],
        ["h1:eth1", "leaf1:swp2", "spine2:swp4", "leaf4:swp3"],
    ]
    assert rocelab_json("path", "h1", "h2")["paths"] == [["h1:eth1", "leaf1:swp4"]]


def test_a_flow_takes_the_path_that_is_told() -> None:
    told = set()
    for sport in range(49152, 49160):
        ((_, uplink, *_rest),) = rocelab_json("path", "h1", "h7", "--sport", str(sport))["paths"]
        assert uplink == f"leaf1:{left_by('leaf1', sport)}"
        told.add(uplink)
    assert told == {"leaf1:swp1", "leaf1:swp2"}, "of eight flows some take each way"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("h1", "h99"), "no host 'h99' in fabric paths"),
        (("h1", "leaf1"), "leaf1 is a switch: hosts are h1"),
        (("h1", "h1"), "are the same host"),
        (("h1:eth7", "h2"), "no interface 'eth7' on h1: it has eth1"),
        (("h1", "h2", "--sport", "70000"), "out of range"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], told: str) -> None:
    assert told in rocelab("path", *words, expect=2).stderr


def test_a_route_that_is_gone_is_told() -> None:
    node("leaf1").run(["ip", "route", "add", "unreachable", "10.0.0.12/31", "metric", "1"])
    try:
        assert "leaf1" in rocelab("path", "h1", "h7", expect=1).stderr
        assert "leaf1" in rocelab("path", "h1", "h7", "--sport", "49152", expect=1).stderr
    finally:
        node("leaf1").run(["ip", "route", "del", "unreachable", "10.0.0.12/31", "metric", "1"])


@pytest.mark.parametrize(
    ("broken", "complaint", "where", "cause"),
    [
        ("ip route del default", "no default route by eth1", "h1 has no route to 10.0.0.9",
         ("default-route-lost", ["h1:eth1"])),
        ("ip route add blackhole default metric 1", "its default route refuses", "h1 has no route to 10.0.0.9",
         ("static-route", ["h1"])),
        ("ip route replace default via 10.0.0.9 dev eth1 onlink metric 100", "default route to 10.0.0.9", "",
         ("wrong-gateway", ["h1:eth1"])),
        ("ip link set eth1 down; ip link set eth1 up", "no default route by eth1", "h1 has no route to 10.0.0.9",
         ("default-route-lost", ["h1:eth1"])),
    ],
)  # fmt: skip
def test_a_host_without_a_way_out_is_not_well_and_path_says_where_to_look(
    broken: str, complaint: str, where: str, cause: tuple[str, list[str]]
) -> None:
    """And diagnose names the cause: none of the three refers back to the first."""
    rocelab("exec", "h1", "--", "sh", "-c", broken)
    try:
        until(lambda: complaint_of_h1().startswith(complaint))
        refused = rocelab("path", "h1", "h5", expect=1).stderr if where else ""
        assert where in refused
        assert "rocelab status" not in refused
        found = json.loads(rocelab("diagnose", "--seconds", "1", "--json", expect=1).stdout)["causes"]
        assert cause in [(each["cause"], each["places"]) for each in found]
    finally:
        right = "ip route flush default; ip route add default via 10.0.0.0 dev eth1 metric 100"
        rocelab("exec", "h1", "--", "sh", "-c", right)
        until(lambda: status()["healthy"])


def status() -> Any:
    return json.loads(resident.ended("status", "--json", timeout=PATIENCE).stdout)


def complaint_of_h1() -> str:
    (complaint,) = [str(each["complaint"]) for each in status()["nodes"] if each["name"] == "h1"]
    return complaint


def test_a_loop_is_seen_by_path_and_named_by_diagnose() -> None:
    fault = rocelab_json("fault", "inject", "routing-loop", "leaf1--spine1", "to=h5")
    try:
        refused = rocelab("path", "h1", "h5", expect=1).stderr
        assert "go in a circle" in refused
        assert "rocelab diagnose" in refused
        found = json.loads(rocelab("diagnose", "--seconds", "1", "--json", expect=1).stdout)["causes"]
        assert [(each["cause"], each["places"]) for each in found] == [("routing-loop", ["spine1"])]
    finally:
        rocelab("fault", "heal", str(fault["number"]))
    assert len(rocelab_json("path", "h1", "h5")["paths"]) == 2


def test_the_table_names_its_columns_without_the_word_for_a_switch() -> None:
    heads = rocelab("path", "h1", "h7", "--fabric", NAME).stdout.splitlines()[2]
    assert "egress ports" in heads
    assert "leaves" not in heads


@pytest.mark.parametrize("kind", ["blackhole", "unreachable", "prohibit"])
def test_a_route_of_a_switch_that_refuses_is_named_by_the_command_that_path_names(kind: str) -> None:
    rocelab("exec", "leaf1", "--", "ip", "route", "add", kind, "10.0.0.12/31")
    try:
        refused = rocelab("path", "h1", "h7", expect=1).stderr
        assert "leaf1 has no route to 10.0.0.13" in refused
        assert "rocelab diagnose --probe" in refused
        found = json.loads(rocelab("diagnose", "--probe", "--seconds", "1", "--json", expect=1).stdout)["causes"]
        assert any("leaf1" in each["places"] for each in found), found
    finally:
        rocelab("exec", "leaf1", "--", "ip", "route", "del", kind, "10.0.0.12/31")


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_a_switch_that_does_not_forward_the_version_of_the_hosts_is_named(tmp_path: Path, family: str) -> None:
    """The kernel has a route of IPv6 for such packets, and drops them nevertheless."""
    name = f"way{family[-1]}"
    file = tmp_path / "way.yaml"
    file.write_text(
        f"name: {name}\ngenerate: {{shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1, rdma: false}}\n"
        f"routing: {{host_family: {family}}}\n"
    )
    sysctl = {"ipv4": "net/ipv4/ip_forward", "ipv6": "net/ipv6/conf/all/forwarding"}[family]
    rocelab("up", file)
    try:
        way = ("path", "h1", "h2", "--fabric", name)
        assert len(rocelab_json(*way)["paths"]) == 1
        rocelab("exec", "--fabric", name, "spine1", "--", "sysctl", "-qw", f"{sysctl}=0")
        for more in ((), ("--sport", "49152")):
            refused = rocelab(*way, *more, expect=1).stderr
            assert f"spine1 does not forward IP{family[2:]} packets" in refused
            assert f"rocelab exec spine1 -- sysctl -w {sysctl}=1" in refused
    finally:
        rocelab("down", "--fabric", name)
