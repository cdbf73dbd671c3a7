"""An exported lab, built as containerlab builds one, is to the kernel and to FRR what ``rocelab up`` builds.

Namespaces, links and sysctls are made by ip(8) and sysctl(8) from clab.yml alone; then each node's start.sh runs.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lab.export.containerlab import Images, export_lab
from lab.export.folder import write
from lab.model.load import load_topology
from tests.fabric.command import ROOT, rocelab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.topology import Topology

# Delays need netem, which is tried where it is there for sure: in the VM.
SOURCE = re.sub(r", delay: [\d.]+[a-z]+", "", (ROOT / "tests/unit/export/fabrics/two-rails.yaml").read_text())
PREFIX = "exported."
NETNS = Path("/run/netns")
pytestmark = pytest.mark.usefixtures("unchanged")


def run(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def topology() -> Topology:
    return load_topology(SOURCE)


@pytest.fixture
def folder(topology: Topology, tmp_path: Path) -> Path:
    write(export_lab(topology, Images()), tmp_path / "lab")
    return tmp_path / "lab"


@pytest.fixture
def built(folder: Path) -> Iterator[None]:
    """The lab's nodes, as namespaces of their names."""
    lab = yaml.safe_load((folder / "clab.yml").read_text())["topology"]
    was_there = NETNS.exists()
    try:
        for name, node in lab["nodes"].items():
            run("ip", "netns", "add", PREFIX + name)
            settings = lab["groups"][node["group"]]["sysctls"]
            run("ip", "netns", "exec", PREFIX + name, "sysctl", "-q", *(f"{k}={v}" for k, v in settings.items()))
            run("ip", "-n", PREFIX + name, "link", "set", "dev", "lo", "up")
        for link in lab["links"]:
            one, other = link["endpoints"]
            cable(one, other, link["mtu"])
        for _ in range(2):  # run again it changes nothing
            for name in lab["nodes"]:
                start(folder, name)
        yield
    finally:
        for name in lab["nodes"]:
            subprocess.run(["ip", "netns", "delete", PREFIX + name], capture_output=True, check=False)
        if not was_there:  # ip has made it, and a mount on it
            subprocess.run(["umount", NETNS], check=False)
            NETNS.rmdir()


def cable(a: dict[str, str], b: dict[str, str], mtu: int) -> None:
    def end(of: dict[str, str]) -> list[str]:
        return ["name", of["interface"], "mtu", str(mtu), "address", of["mac"], "netns", PREFIX + of["node"]]

    run("ip", "link", "add", *end(a), "type", "veth", "peer", *end(b))


def start(folder: Path, name: str) -> None:
    """Run a node's script with the lab's own hosts.txt, and in place of the machine's /etc/hosts another file."""
    text = (folder / name / "start.sh").read_text()
    text = text.replace("> /etc/hosts", f"> {folder / name / 'names'}").replace(
        "/etc/rocelab/hosts", str(folder / "hosts.txt")
    )
    script = folder / name / "tried.sh"
    script.write_text(text)
    run("ip", "netns", "exec", PREFIX + name, "sh", str(script))


def state(namespace: str) -> dict[str, Any]:
    """All that a node is given: links, addresses, a host's routes and rules, sysctls, shapers."""
    ip = ["ip", "-n", namespace, "-j"]
    links = json.loads(run(*ip, "address", "show"))
    found: dict[str, Any] = {
        "links": {
            link["ifname"]: (
                link["address"],
                link["mtu"],
                link["operstate"],
                sorted((each["local"], each["prefixlen"], each["scope"]) for each in link["addr_info"]),
            )
            for link in links
        },
        "rules": json.loads(run(*ip, "rule")) + json.loads(run(*ip, "-6", "rule")),
        "qdiscs": [
            (each["dev"], each["kind"], each["handle"], each["options"].get("rate"), each["options"].get("overhead"))
            for each in shapers(namespace)
        ],
        "sysctls": sorted(
            line
            for line in run("ip", "netns", "exec", namespace, "sysctl", "-a", "-r", "^net.ipv[46]").splitlines()
            if re.match(r"net\.ipv[46]\.(conf\.|fib_|ip_forward)", line) and "stable_secret" not in line
        ),
    }
    if namespace.endswith(("h1", "h2")):
        found["routes"] = [
            sorted(
                json.dumps(route, sort_keys=True)
                for route in json.loads(run(*ip, family, "route", "show", "table", "all"))
            )
            for family in ("-4", "-6")
        ]
    return found


def shapers(namespace: str) -> list[Any]:
    return list(json.loads(run("tc", "-n", namespace, "-j", "qdisc", "show")))


def bursts(namespace: str) -> list[float]:
    """Seconds that each shaper sends at once."""
    return [
        each["options"]["burst"] / each["options"]["rate"] for each in shapers(namespace) if each["kind"] == "tbf"
    ]


@pytest.mark.usefixtures("built")
def test_every_node_is_to_the_kernel_what_up_makes_of_it(topology: Topology, tmp_path: Path) -> None:
    file = tmp_path / "two-rails.yaml"
    file.write_text(SOURCE)
    rocelab("up", file, "--no-rdma")
    for node in topology.nodes:
        ours, theirs = (state(prefix + node.name) for prefix in ("rl-two-rails.", PREFIX))
        assert {key: theirs[key] for key in ours} == ours, node.name
        # tc(8) computes in whole microseconds, and rounds up twice.
        assert bursts(PREFIX + node.name) == pytest.approx(bursts(f"rl-two-rails.{node.name}"), abs=2.1e-6)


def test_vtysh_knows_every_line(folder: Path, topology: Topology) -> None:
    for switch in topology.switches:
        file = folder / switch.name / "frr.conf"
        run("vtysh", "-C", "-f", str(file))
        file.write_text(file.read_text() + "no such line\n")
        assert subprocess.run(["vtysh", "-C", "-f", str(file)], capture_output=True, check=False).returncode


@pytest.mark.usefixtures("built")
def test_names_of_nodes_are_known(folder: Path, topology: Topology) -> None:
    known = (folder / "h1" / "names").read_text()
    assert all(re.search(rf"\b{node.name}\b", known) for node in topology.nodes)
