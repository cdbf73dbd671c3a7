"""``rocelab adopt``: a lab that containerlab has deployed is looked at, and given back as it was.

Judges are Docker, ip(8), tc(8), tshark and the containers' own vtysh; nothing of rocelab deploys the lab.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from lab.export.containerlab import BUILT_IMAGE, DEFINITION, Images, export_lab
from lab.export.folder import write
from lab.model.addressing import plan_addresses
from lab.model.load import read_topology
from lab.telemetry.read.recording import Recording
from tests.fabric import snapshot
from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json, running
from tests.patience import PATIENCE, until

from .conftest import a_shell_has_its_links, containerlab, docker, seen_in, traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(1500)

TOPOLOGY: Final = read_topology(TOPOLOGIES / "clos-2x2.yaml")
NAME: Final = TOPOLOGY.name
PLAN: Final = plan_addresses(TOPOLOGY)
_OF_DOCKER: Final = ("cgroup_device", "/run/docker/netns/default")
"""Things that come and go by themselves: programs that each container gets when it starts, and a name of this
machine's namespace. The kernel frees replaced programs late, and Docker keeps the name."""


def container(node: str) -> str:
    return f"clab-{NAME}-{node}"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file of the lab, which is deployed and converged."""
    folder = tmp_path_factory.mktemp("theirs") / "lab"
    write(export_lab(TOPOLOGY, Images(BUILT_IMAGE)), folder)
    containerlab("deploy", folder / DEFINITION)
    for switch in TOPOLOGY.switches:
        until(lambda name=switch.name: "Established" in sessions(name) and "Active" not in sessions(name))  # type: ignore[misc]
    yield folder / DEFINITION
    containerlab("destroy", folder / DEFINITION)


def sessions(switch: str) -> str:
    return docker("exec", container(switch), "vtysh", "-c", "show bgp ipv4 unicast summary json")


def theirs() -> dict[str, list[str]]:
    """Each container of the lab and what is in its namespace, as its own programs say; sessions, too."""
    found = {}
    for node in TOPOLOGY.nodes:
        found[node.name] = seen_in(container(node.name), *PLAN[node.name].interfaces)
    for switch in TOPOLOGY.switches:
        peers = json.loads(sessions(switch.name))["peers"]
        found[switch.name] += [f"{name} {peer['connectionsEstablished']}" for name, peer in sorted(peers.items())]
    return found


@pytest.fixture(autouse=True)
def as_it_was(file: Path) -> Iterator[None]:
    """The lab and the machine are as before, once there is no fabric."""
    assert file.is_file()
    before, there, lab = snapshot.take(), traces(), theirs()
    yield
    rocelab("down", "--all", timeout=600)
    assert theirs() == lab
    differences = before.differences(snapshot.take())
    assert [line for line in differences if not any(word in line for word in _OF_DOCKER)] == []
    assert traces() == there


def test_a_lab_is_adopted_by_its_file_and_looked_at(file: Path, tmp_path: Path) -> None:
    told = rocelab_json("adopt", file)
    assert told == {"fabric": NAME, "nodes": len(TOPOLOGY.nodes), "links": len(TOPOLOGY.links), "left_out": []}
    status = rocelab_json("status")
    assert status["healthy"], status
    leaf = next(node for node in status["nodes"] if node["name"] == "leaf1")
    assert {"zebra", "bgpd", "bfdd"} <= {daemon for daemon, lives in leaf["daemons"].items() if lives}
    assert {session["state"] for session in leaf["sessions"]} == {"Established"}
    paths = rocelab_json("path", TOPOLOGY.hosts[0].name, TOPOLOGY.hosts[-1].name)["paths"]
    assert len(paths) == 2
    pinged = rocelab("exec", "h1", "--", "ping", "-c", "1", "-W", "5", TOPOLOGY.hosts[-1].name).stdout
    assert " 0% packet loss" in pinged
    ours = rocelab("vtysh", "leaf1", "-c", "show bgp ipv4 unicast summary json").stdout
    assert json.loads(ours)["routerId"] == str(PLAN["leaf1"].loopback4)
    assert captured("h1", tmp_path / "h1.pcapng") == {address_of("h1"), address_of(TOPOLOGY.hosts[-1].name)}


def captured(host: str, file: Path) -> set[str]:
    """The senders of ICMP past a host, by tshark from rocelab's capture there."""
    with running("capture", host, "-o", file, "--packets", "2", "--filter", f"dst {host} or src {host}") as capture:
        until(file.exists)
        rocelab("exec", host, "--", "ping", "-c", "4", "-i", "0.2", address_of(TOPOLOGY.hosts[-1].name))
        assert capture.wait(PATIENCE) == 0
    words = ["tshark", "-r", str(file), "-Y", "icmp", "-T", "fields", "-e", "ip.src"]
    return set(subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout.split())


def address_of(host: str) -> str:
    (nic,) = PLAN[host].interfaces.values()
    assert nic.address is not None
    return str(nic.address.ip)


@pytest.mark.usefixtures("file")
def test_a_lab_is_adopted_by_its_name_under_another_one() -> None:
    assert rocelab_json("adopt", NAME, "--name", "mine")["fabric"] == "mine"
    assert rocelab_json("ls")[0]["fabric"] == "mine"
    broken = rocelab("fault", "inject", "daemon-killed", "leaf1", "daemon=bgpd", expect=2).stderr
    assert "rocelab breaks only fabrics of its own" in broken
    assert "has no lossless ports" in rocelab("counters", expect=2).stderr
    assert "has no lossless ports" in rocelab("qos", "set", "h1", "nic.drain=50Mbit", expect=2).stderr
    assert "fabric mine exists" in rocelab("adopt", NAME, "--name", "mine", expect=2).stderr


def test_a_shell_in_a_lab_s_node_has_its_links(file: Path) -> None:
    rocelab("adopt", file)
    a_shell_has_its_links(NAME, "h1", address_of("h1"))


def test_ports_and_devices_come_and_go_while_it_runs(file: Path) -> None:
    """Sessions live on, and shapers, offloads and steering come back: ``as_it_was`` compares."""
    rocelab("adopt", file, "--qos", "pfc-ecn", "--rdma", timeout=600)
    status = rocelab_json("status")
    assert status["healthy"], status
    measured = rocelab_json("rdma", "bw", "h1", TOPOLOGY.hosts[-1].name, "--iterations", "200")
    assert measured["pairs"][0]["messages"] == 200
    assert not any(host.get("out_of_seq_request", 0) for host in measured["counters"].values())
    told = rocelab_json("counters")
    assert told["unbalanced"] == []
    counted = [names for node in told["nodes"].values() for names in node["interfaces"].values()]
    assert [name for names in counted for name in names if "_drop_" in name] == []
    assert sum(names.get("rx_prio3_packets", 0) for names in told["nodes"]["leaf2"]["interfaces"].values()) > 0


def test_one_with_ports_is_watched_recorded_and_diagnosed(file: Path, tmp_path: Path) -> None:
    """Its own daemons answer, tshark counts as the ports do, and nothing is wrong."""
    rocelab("adopt", file, "--qos", "pfc-ecn", "--rdma", timeout=600)
    rocelab("record", "start", "theirs", "-o", tmp_path, "--capture", "h1")
    with running("rdma", "bw", "h1", TOPOLOGY.hosts[-1].name, "--duration", "5s") as writer:
        until(lambda: rocelab_json("top")["ports"]["h1:eth1"]["tx_bps"] > 0)
        assert writer.wait(PATIENCE) == 0
    assert rocelab_json("record", "stop")["complete"]
    recording = Recording.open(tmp_path / "theirs")
    heard = {(event.node, event.interface) for event in recording.events(kind="bgp", source="routing")}
    assert heard == {
        (switch.name, peer) for switch in TOPOLOGY.switches for peer in json.loads(sessions(switch.name))["peers"]
    }
    capture = str(tmp_path / "theirs" / "captures" / "packets.pcapng")
    words = ["tshark", "-r", capture, "-Y", f"infiniband && ip.src == {address_of('h1')}"]
    seen = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()
    assert len(seen) == recording.port("h1:eth1").tx_packets(3).delta() > 0
    theirs = json.loads(rocelab("diagnose", tmp_path / "theirs", "--json", expect=3).stdout)
    assert (theirs["outcome"], theirs["causes"]) == ("unchecked", [])  # two of the hosts have talked
    assert diagnosed("--probe", "--seconds", "2") == ("healthy", [])


def diagnosed(*words: str | Path) -> tuple[str, list[dict[str, object]]]:
    answer = rocelab_json("diagnose", *words)
    return answer["outcome"], answer["causes"] + answer["unexplained"]


def test_down_ends_what_was_started_there_and_nothing_else(file: Path) -> None:
    rocelab("adopt", file)
    before = docker("top", container("h1"), "-eo", "pid,args")
    with running("exec", "h1", "--", "sh", "-c", "echo there; exec sleep infinity") as ours:
        assert ours.stdout is not None
        assert ours.stdout.readline() == "there\n"
        rocelab("down", "--fabric", NAME)
        assert ours.wait(PATIENCE) != 0
    assert docker("top", container("h1"), "-eo", "pid,args") == before


def test_an_adopting_that_is_killed_is_undone(file: Path) -> None:
    with running("adopt", file) as adopting:
        until(lambda: has_begun() or adopting.poll() is not None)
        adopting.kill()
        adopting.wait()
    assert has_begun()
    rocelab("down", "--fabric", NAME, timeout=600)


def has_begun() -> bool:
    return NAME in {entry["fabric"] for entry in json.loads(rocelab("ls", "--json").stdout)}


def test_what_cannot_be_adopted_is_told_in_a_line(tmp_path: Path) -> None:
    assert "no lab nowhere is deployed" in rocelab("adopt", "nowhere", expect=2).stderr
    assert "there is no file" in rocelab("adopt", tmp_path / "nothing.yml", expect=2).stderr
    other = tmp_path / "other.clab.yml"
    nodes = ", ".join(f"{name}: {{kind: linux}}" for name in ("leaf1", "leaf9"))
    other.write_text(f"name: {NAME}\ntopology: {{nodes: {{{nodes}}}}}\n")
    assert f"node leaf9 of lab {NAME} has no container" in rocelab("adopt", other, expect=4).stderr
    nodes = "leaf1: {kind: linux}, spine1: {kind: linux}"
    ends = "{endpoints: ['leaf1:eth99', 'spine1:swp1']}"
    other.write_text(f"name: {NAME}\ntopology: {{nodes: {{{nodes}}}, links: [{ends}]}}\n")
    assert "leaf1 has no interface eth99" in rocelab("adopt", other, expect=4).stderr


def test_a_node_that_has_no_namespace_of_its_own_is_refused(tmp_path: Path) -> None:
    with small_lab(tmp_path, "shared", h1="host"):
        said = rocelab("adopt", "shared", expect=2).stderr
        assert "node h1 has no network namespace of its own: it has that of this machine" in said
        docker("stop", "--time", "0", "clab-shared-h1")
        assert "the container of h1 does not run" in rocelab("adopt", "shared", expect=4).stderr


def test_what_becomes_of_a_lab_that_was_adopted_is_told(tmp_path: Path) -> None:
    part = tmp_path / "part.clab.yml"
    part.write_text("name: pair\ntopology: {nodes: {h1: {kind: linux}}}\n")
    with small_lab(tmp_path, "pair", h1="none", h2="container:h1"):
        said = rocelab("adopt", "pair", expect=2).stderr
        assert "node h2 has no network namespace of its own: it has that of h1" in said
        rocelab("adopt", part)
        assert rocelab_json("status")["healthy"]
        docker("restart", "--time", "0", "clab-pair-h1")
        (node,) = json.loads(rocelab("status", "--json", expect=1).stdout)["nodes"]
        assert node["complaint"] == "its container was removed or started again: rocelab down, then rocelab adopt"
    assert "rl-pair.h1" in namespaces()
    rocelab("down", "--fabric", "pair")
    assert "rl-pair.h1" not in namespaces()


def namespaces() -> str:
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True, timeout=120).stdout


@contextlib.contextmanager
def small_lab(folder: Path, name: str, **modes: str) -> Iterator[None]:
    """A lab of hosts in which each has its network-mode, and no links.

    Its management network is its own: who destroys a lab takes away that of others, too, where nobody is in it.
    """
    file = folder / f"{name}.clab.yml"
    made = f"kind: linux, image: '{BUILT_IMAGE}', entrypoint: sleep, cmd: infinity"
    nodes = ", ".join(f"{node}: {{{made}, network-mode: '{mode}'}}" for node, mode in modes.items())
    network = f"{{network: {name}, ipv4-subnet: auto, ipv6-subnet: auto}}"
    file.write_text(f"name: {name}\nmgmt: {network}\ntopology: {{nodes: {{{nodes}}}}}\n")
    containerlab("deploy", file)
    try:
        yield
    finally:
        containerlab("destroy", file)
