"""Fabrics whose underlay is OSPF or IS-IS, without BGP: adjacencies, all equal paths, BFD, and a link that fails."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab.backends import lifecycle
from lab.telemetry.read.recording import Recording
from tests.fabric import resident, snapshot
from tests.fabric.command import rocelab, rocelab_json
from tests.patience import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.kernel.process.netns import Namespace

pytestmark = pytest.mark.fabric

PATIENCE = 90.0
FABRIC = """
name: {underlay}
routing: {{underlay: {underlay}, host_family: {family}, bfd: {{interval: 0.3}}}}
generate: {{shape: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 1, rdma: false}}
"""
PROTOCOLS = {"ospf": ["OSPFv2", "OSPFv3"], "isis": ["IS-IS"]}
KINDS = {"ospf": ("ospf", "ospf6"), "isis": ("isis",)}
READY = {"ospf": "Full", "isis": "Up"}
SHOWN = {"ospf": "show ip ospf interface", "isis": "show isis interface detail"}
DAEMONS = {"ospf": {"ospfd", "ospf6d"}, "isis": {"isisd"}}


LONG = pytest.mark.long


@pytest.fixture(
    scope="module",
    params=["ospf ipv4", pytest.param("isis ipv4", marks=LONG), "isis ipv6", pytest.param("ospf ipv6", marks=LONG)],
)
def underlay(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    protocol, family = request.param.split()
    file = tmp_path_factory.mktemp("underlay") / "fabric.yaml"
    file.write_text(FABRIC.format(underlay=protocol, family=family))
    before = snapshot.take()
    rocelab("up", file)
    yield protocol
    rocelab("down")
    assert before.differences(snapshot.take()) == []


@pytest.fixture(autouse=True)
def shown_routers(request: pytest.FixtureRequest, underlay: str) -> Iterator[None]:
    """Print the routers' logs and how they see their ports if a test fails: once, OSPF stayed down at one of them."""
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed == failed:
        return
    for log in sorted(Path("/run/rocelab/fabrics").glob("*/nodes/*/*.log")):
        print(f"--- {log}\n{log.read_text(errors='replace')[-2000:]}")
    for switch in ("spine1", "spine2", "leaf1", "leaf2"):
        for what in (SHOWN[underlay], "show interface brief", "show zebra client summary"):
            done = resident.ended("vtysh", switch, "-c", what, timeout=PATIENCE)
            print(f"--- {switch}: {what}\n{done.stdout}{done.stderr}")


def status(expect: int = 0) -> Any:
    return json.loads(rocelab("status", "--json", expect=expect).stdout)


def leaf1(expect: int = 0) -> Any:
    return next(node for node in status(expect)["nodes"] if node["name"] == "leaf1")


def paths(sender: str = "h1", receiver: str = "h2") -> list[list[str]]:
    """The equal paths between two hosts; none while the fabric has not converged."""
    done = resident.ended("path", sender, receiver, "--json", timeout=PATIENCE)
    return json.loads(done.stdout)["paths"] if done.returncode == 0 else []


def test_every_link_has_its_adjacencies_and_nobody_speaks_bgp(underlay: str) -> None:
    said = rocelab_json("status")
    assert said["healthy"]
    for node in said["nodes"]:
        assert node["sessions"] == []
        assert {each["protocol"] for each in node["neighbours"]} == (
            set() if node["role"] == "host" else set(PROTOCOLS[underlay])
        )
    leaf = leaf1()
    assert DAEMONS[underlay] <= leaf["daemons"].keys()
    assert "bgpd" not in leaf["daemons"]
    assert [(each["interface"], each["description"]) for each in leaf["neighbours"]] == [
        (port, peer) for port, peer in (("swp1", "spine1:swp1"), ("swp2", "spine2:swp1")) for _ in PROTOCOLS[underlay]
    ]


def test_bfd_watches_every_link(underlay: str) -> None:
    assert underlay
    until(lambda: leaf1()["bfd"] == {"swp1": "up", "swp2": "up"})


def test_all_equal_paths_are_used(underlay: str) -> None:
    assert underlay
    said = rocelab_json("path", "h1", "h2")
    assert sorted(path[1] for path in said["paths"]) == ["leaf1:swp1", "leaf1:swp2"]
    assert "1 received" in rocelab("exec", "h1", "ping", "-nqc1", "-W5", "h2").stdout


def test_a_link_that_fails_is_routed_around_and_comes_back(underlay: str) -> None:
    rocelab("fault", "inject", "link-down", "leaf1--spine1")
    until(lambda: paths() == [["h1:eth1", "leaf1:swp2", "spine2:swp2", "leaf2:swp3"]])
    states = {(each["interface"], each["state"]) for each in leaf1(expect=1)["neighbours"]}
    up = "Up" if underlay == "isis" else "Full"
    assert states == {("swp1", "Down"), ("swp2", up)}
    assert "1 received" in rocelab("exec", "h1", "ping", "-nqc1", "-W5", "h2").stdout
    rocelab("fault", "heal", "--all")
    until(lambda: len(paths()) == 2)


def test_a_lost_adjacency_is_recorded_and_diagnosed_and_one_that_stays_is_told_once(
    underlay: str, tmp_path: Path
) -> None:
    """The daemon that a fault kills by default is the one that the fabric runs."""
    kinds, ready = KINDS[underlay], READY[underlay]
    rocelab("record", "start", "lost", "-o", tmp_path)
    try:
        until(lambda: standing(tmp_path, "leaf1") == dict.fromkeys(itertools.product(kinds, ("swp1", "swp2")), ready))
        rocelab("fault", "inject", "daemon-killed", "spine1")
        until(lambda: standing(tmp_path, "leaf1")[kinds[0], "swp1"] == "Down")
        rocelab("fault", "heal", "--all")
        until(lambda: standing(tmp_path, "leaf1")[kinds[0], "swp1"] == ready)
    finally:
        rocelab("record", "stop")
    recording = Recording.open(tmp_path / "lost")
    for kind in kinds:
        assert [event.data["state"] for event in recording.events(kind=kind, node="leaf1", interface="swp2")] == [
            ready
        ]
    (first, *_) = recording.events(kind=kinds[0], node="leaf1", interface="swp1")
    assert first.data["before"] == ""
    assert first.data["age"] >= 0
    assert "daemon-killed" in rocelab("diagnose", tmp_path / "lost", expect=1).stdout


def standing(folder: Path, node: str) -> dict[tuple[str, str], str]:
    """The last state that was recorded of each adjacency of a switch, by protocol and interface."""
    events = Recording.open(folder / "lost").events(source="routing", node=node)
    return {
        (event.kind, event.interface): event.data["state"]
        for event in events
        if event.kind in {"ospf", "ospf6", "isis"}
    }


def test_one_path_leaves_the_other_uplink_idle(underlay: str) -> None:
    assert underlay
    until(lambda: [len(paths()), len(paths("h2", "h1"))] == [2, 2])
    rocelab("fault", "inject", "one-path", "leaf1")
    until(lambda: [len(paths()), len(paths("h2", "h1"))] == [1, 2])
    rocelab("fault", "heal", "--all")
    until(lambda: len(paths()) == 2)


def test_a_metric_that_changes_leaves_no_switch_without_a_route(underlay: str, tmp_path: Path) -> None:
    """A spine replaces its routes of IS-IS: it never deletes one to add another, whatever the family."""
    file = tmp_path / "monitor"
    until(lambda: [len(paths()), len(paths("h2", "h1"))] == [2, 2])
    spine = lifecycle.open_fabric(underlay).namespace("spine1")
    with file.open("wb") as output:
        monitor = spine.start(["ip", "-oneline", "monitor", "route"], stdout=output)
    try:
        until(lambda: _is_heard(spine, file))
        rocelab("fault", "inject", "one-path", "leaf1")
        until(lambda: len(paths()) == 1)
        rocelab("fault", "heal", "--all")
        until(lambda: len(paths()) == 2)
    finally:
        monitor.kill()
        monitor.wait()
    assert [line for line in file.read_text().splitlines() if "Deleted" in line and "proto isis" in line] == []


def _is_heard(spine: Namespace, file: Path) -> bool:
    """Whether the monitor reports a change; ``ip monitor`` does not say when it listens."""
    spine.run(["ip", "route", "add", "blackhole", "192.0.2.1", "table", "99"])
    spine.run(["ip", "route", "del", "blackhole", "192.0.2.1", "table", "99"])
    return "192.0.2.1" in file.read_text()


def test_a_router_is_asked_by_vtysh(underlay: str) -> None:
    """Its daemon was killed before; with IPv6 hosts, paths do not say when OSPFv2 has its neighbours back."""
    command = {"ospf": "show ip ospf neighbor", "isis": "show isis neighbor"}[underlay]

    def said() -> str:
        return rocelab("exec", "spine1", "vtysh", "-c", command).stdout

    until(lambda: all(port in said() for port in ("swp1", "swp2")))
