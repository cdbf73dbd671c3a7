"""``rocelab up --backend containerlab``: the nodes are containers, and what rocelab does to nodes it does to them.

Judges are Docker, containerlab, the containers' own vtysh and ping, tc(8), rdma(8) and tshark.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from lab.model.addressing import plan_addresses
from lab.model.load import read_topology
from lab.rdma import device_counters
from lab.rdma.rxe import device_name
from tests.fabric import snapshot
from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json, running
from tests.patience import PATIENCE, until

from .conftest import a_shell_has_its_links, docker, traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.timeout(1500), pytest.mark.usefixtures("fabric")]

FILE: Final = TOPOLOGIES / "incast.yaml"
TOPOLOGY: Final = read_topology(FILE)
NAME: Final = TOPOLOGY.name
PLAN: Final = plan_addresses(TOPOLOGY)
CONTAINERS: Final = {f"clab-{NAME}-{node.name}" for node in TOPOLOGY.nodes}


def inside(node: str, *words: str) -> str:
    return docker("exec", f"clab-{NAME}-{node}", *words)


def said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.fixture(scope="module")
def fabric() -> Iterator[str]:
    """The fabric, whose lab the last test destroys; nothing that it changes on the machine is left."""
    before, there = snapshot.take(), traces()
    rocelab("up", FILE, "--backend", "containerlab", "--timeout", "600", timeout=1200)
    yield NAME
    rocelab("down", "--all", timeout=600)
    assert before.differences(snapshot.take()) == []
    assert traces() == there


def test_each_node_is_a_container_of_containerlab() -> None:
    ((lab, boxes),) = json.loads(said("containerlab", "inspect", "--all", "--format", "json")).items()
    assert lab == NAME
    assert {box["name"]: box["state"] for box in boxes} == dict.fromkeys(CONTAINERS, "running")
    assert set(said("docker", "network", "ls", "--format", "{{.Name}}").split()) == {"host", "none"}


def test_every_session_is_established_as_the_containers_say() -> None:
    for switch in TOPOLOGY.switches:
        assert established(switch.name) == {"swp1", "swp2"}
    ours = rocelab("vtysh", "leaf2", "-c", "show bgp ipv4 unicast summary json").stdout
    assert json.loads(ours)["routerId"] == str(PLAN["leaf2"].loopback4)


def established(switch: str) -> set[str]:
    """Ports of the switch at which BGP has a session, as FRR says."""
    answer = json.loads(inside(switch, "vtysh", "-c", "show bgp ipv4 unicast summary json"))
    return {port for port, peer in answer.get("peers", {}).items() if peer["state"] == "Established"}


def test_hosts_reach_hosts_of_both_leaves_by_name_from_their_containers() -> None:
    for target in ("h4", "h5", "h8"):
        assert " 0% packet loss" in inside("h1", "ping", "-c", "1", "-W", "5", target)


def test_the_fabric_is_healthy() -> None:
    answer = rocelab_json("status")
    assert answer["healthy"]
    leaf = next(node for node in answer["nodes"] if node["name"] == "leaf1")
    assert {"zebra", "bgpd", "bfdd"} <= {daemon for daemon, lives in leaf["daemons"].items() if lives}


def test_links_are_lossless_ports_and_hosts_have_their_rdma_devices() -> None:
    for link in TOPOLOGY.links:
        for end in link.ends:
            words = ["tc", "-j", "qdisc", "show", "dev", end.interface, "root"]
            (port,) = json.loads(rocelab("exec", end.node, "--", *words).stdout)
            assert port["kind"] == f"rl_{NAME}"
    devices = {link["ifname"] for link in json.loads(said("rdma", "-j", "link", "show"))}
    assert devices == {device_name(NAME, host.name, "eth1") for host in TOPOLOGY.hosts}


def test_an_incast_loses_nothing() -> None:
    report = rocelab_json("rdma", "bw", "h1", "h4", "--pair", "h2:h4", "--pair", "h3:h4", "--duration", "2s")
    assert all(pair["messages"] for pair in report["pairs"])
    moved = {counter for host in report["counters"].values() for counter, grown in host.items() if grown}
    assert not [counter for counter in moved if device_counters.meaning(counter).trouble]
    links = json.loads(said("rdma", "-j", "statistic", "show", "link"))
    assert not any(link["out_of_seq_request"] or link["completer_retry_err"] for link in links)
    told = rocelab_json("counters", "--all")
    assert told["unbalanced"] == []
    ports: list[dict[str, int]] = [port for node in told["nodes"].values() for port in node["interfaces"].values()]
    assert sum(port["tx_prio3_pause"] for port in ports), "nothing paused: this was no incast"
    assert not [name for port in ports for name, count in port.items() if "drop" in name and count]


def test_what_comes_through_a_container_is_captured(tmp_path: Path) -> None:
    assert rocelab_json("path", "h1", "h4")["paths"] == [["h1:eth1", "leaf1:swp6"]]
    file = tmp_path / "h4.pcapng"
    with running("capture", "h4", "-o", file, "--filter", "ack", "--packets", "3") as capture:
        until(file.exists)
        rocelab("rdma", "lat", "h1", "h4", timeout=600)
        assert capture.wait(PATIENCE) == 0
    addresses = said("tshark", "-r", str(file), "-Y", "infiniband.bth.opcode == 17", "-T", "fields", "-e", "ip.src")
    assert set(addresses.split()) <= {address_of("h1"), address_of("h4")}
    assert len(addresses.split()) == 3


def address_of(host: str) -> str:
    (nic,) = PLAN[host].interfaces.values()
    assert nic.address is not None
    return str(nic.address.ip)


def test_a_slow_receiver_is_as_slow_as_its_setting() -> None:
    rocelab("qos", "set", "h4", "nic.drain=50Mbit")
    try:
        report = rocelab_json("rdma", "bw", "h1", "h4", "--duration", "2s")
    finally:
        rocelab("qos", "set", "h4", "nic.drain=unlimited")
    assert 45e6 < report["pairs"][0]["goodput_bps"] < 50e6


def test_a_daemon_that_a_fault_kills_stays_dead_until_it_is_healed() -> None:
    rocelab("fault", "inject", "daemon-killed", "leaf1", "daemon=bgpd")
    assert {"bgpd", "watchfrr"} & processes_of("leaf1").keys() == {"watchfrr"}
    assert processes_of("leaf1")["watchfrr"].startswith("T")
    rocelab("fault", "heal", "1")
    assert processes_of("leaf1")["bgpd"]
    assert not processes_of("leaf1")["watchfrr"].startswith("T")
    until(lambda: established("leaf1") == {"swp1", "swp2"})


def processes_of(node: str) -> dict[str, str]:
    """States of the programs in a container, as ps(1) says."""
    lines = docker("top", f"clab-{NAME}-{node}", "-eo", "pid,stat,comm").splitlines()[1:]
    return {comm: stat for _, stat, comm in map(str.split, lines)}


def test_what_happens_in_containers_is_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    rocelab("record", "start", "first", "-o", folder, "--capture", "h1")
    rocelab("rdma", "bw", "h1", "h4", "--duration", "1s", timeout=600)
    told = rocelab_json("record", "stop")
    assert (told["complete"], told["why"], told["captures"]) == (True, "", ["captures/packets.pcapng"])
    assert {"h1:eth1", "h4:eth1", "leaf1:swp6"} <= {each["port"] for each in told["busiest"]}


def test_a_shell_in_a_container_s_namespace_has_its_links() -> None:
    a_shell_has_its_links(NAME, "h1", address_of("h1"))


def test_a_scenario_is_played_on_containers_that_are_there(tmp_path: Path) -> None:
    rocelab("scenario", "run", "slow-receiver", "--output", tmp_path / "runs", timeout=1200)
    assert rocelab_json("status")["healthy"]
    assert set(docker("ps", "--format", "{{.Names}}").split()) == CONTAINERS


def test_a_container_that_somebody_removed_or_started_again_is_told_in_a_line() -> None:
    docker("rm", "--force", f"clab-{NAME}-h8")
    docker("restart", "--time", "0", f"clab-{NAME}-h7")
    nodes = json.loads(rocelab("status", "--json", expect=1).stdout)["nodes"]
    assert {node["name"]: node["complaint"] for node in nodes if node["complaint"]} == {
        "h8": "its container is gone: rocelab down, then up",
        "h7": "its container was started again, without its links: rocelab down, then up",
    }
    assert "0% packet loss" in rocelab("exec", "h1", "--", "ping", "-c", "1", "-W", "5", "h4").stdout


def test_a_lab_that_somebody_destroyed_is_taken_down_all_the_same() -> None:
    said("containerlab", "destroy", "--name", NAME, "--cleanup")
    rocelab("down", "--fabric", NAME, timeout=600)
    assert said("rdma", "link") == ""
    assert NAME not in said("ip", "netns", "list")
