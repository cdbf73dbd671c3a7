"""A lab as other people write it: numbered BGP, a management network, names of its own, hosts set up by commands.

It is adopted, made lossless as it runs, and imported. Judges are Docker, the containers' own programs and tc(8).
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.export.containerlab import BUILT_IMAGE
from tests.fabric import snapshot
from tests.fabric.command import rocelab, rocelab_json
from tests.patience import until

from .conftest import containerlab, docker, seen_in, traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(1500)

NAME: Final = "campus"
HOST_IMAGE: Final = "campus-pc:1"
"""The same image by a name that says nothing of routing."""
ROUTERS: Final = {
    "agg1": (65000, {"eth1": "10.1.1.0/31", "eth2": "10.1.2.0/31"}, {"10.1.1.1": 65001, "10.1.2.1": 65002}),
    "rack1": (
        65001,
        {"eth1": "10.1.1.1/31", "eth2": "192.168.1.1/24", "eth3": "192.168.2.1/24"},
        {"10.1.1.0": 65000},
    ),
    "rack2": (65002, {"eth1": "10.1.2.1/31", "eth2": "192.168.3.1/24"}, {"10.1.2.0": 65000}),
}
"""AS number, addresses of interfaces, and neighbours."""
HOSTS: Final = {"pc1": "192.168.1", "pc2": "192.168.2", "pc3": "192.168.3"}
LINKS: Final = ("agg1:eth1 rack1:eth1", "agg1:eth2 rack2:eth1", "rack1:eth2 pc1:eth1", "rack1:eth3 pc2:eth1",
                "rack2:eth2 pc3:eth1")  # fmt: skip
DAEMONS: Final = "zebra=yes\nbgpd=yes\nvtysh_enable=yes\n"


def lab_of() -> str:
    """The file."""
    files = ("frr.conf", "daemons", "vtysh.conf")
    nodes: dict[str, Any] = {
        router: {"image": BUILT_IMAGE, "binds": [f"{router}/{file}:/etc/frr/{file}" for file in files]}
        for router in ROUTERS
    }
    for host, network in HOSTS.items():
        commands = [f"ip address add {network}.10/24 dev eth1", f"ip route add 192.168.0.0/16 via {network}.1"]
        nodes[host] = {"image": HOST_IMAGE, "entrypoint": "sleep", "cmd": "infinity", "exec": commands}
    topology = {
        "defaults": {"kind": "linux"},
        "nodes": nodes,
        "links": [{"endpoints": link.split()} for link in LINKS],
    }
    management = {"network": NAME, "ipv4-subnet": "auto", "ipv6-subnet": "auto"}
    return json.dumps({"name": NAME, "mgmt": management, "topology": topology})


def config_of(router: str) -> str:
    number, interfaces, neighbours = ROUTERS[router]
    lines = [f"hostname {router}"]
    for name, address in interfaces.items():
        lines += [f"interface {name}", f" ip address {address}", "exit"]
    lines += [f"router bgp {number}", " no bgp ebgp-requires-policy"]
    lines += [f" neighbor {address} remote-as {other}" for address, other in neighbours.items()]
    return "\n".join([*lines, " address-family ipv4 unicast", "  redistribute connected", " exit-address-family", ""])


def containers() -> dict[str, list[str]]:
    """The contents of each."""
    ends = {end for link in LINKS for end in link.split()}
    return {
        node: seen_in(f"clab-{NAME}-{node}", *(end.partition(":")[2] for end in sorted(ends) if end.startswith(node)))
        for node in (*ROUTERS, *HOSTS)
    }


def changes(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    """Lines by which what is in a container differs."""
    return [
        f"{node}: {line}"
        for node in before
        for one, other in zip(before[node], after[node], strict=True)
        for line in difflib.unified_diff(one.split(", "), other.split(", "), lineterm="", n=1)
    ]


def reaches(host: str, address: str) -> bool:
    return " 0% packet loss" in docker("exec", f"clab-{NAME}-{host}", "sh", "-c", f"ping -c1 -W2 {address} || true")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where it is; it is deployed, and its hosts reach each other."""
    folder = tmp_path_factory.mktemp("others")
    for router in ROUTERS:
        (folder / router).mkdir()
        (folder / router / "frr.conf").write_text(config_of(router))
        (folder / router / "daemons").write_text(DAEMONS)
        (folder / router / "vtysh.conf").write_text("service integrated-vtysh-config\n")
    found = folder / f"{NAME}.clab.yml"
    found.write_text(lab_of())
    docker("tag", BUILT_IMAGE, HOST_IMAGE)
    containerlab("deploy", found)
    until(lambda: reaches("pc1", "192.168.3.10") and reaches("pc3", "192.168.2.10"))
    yield found
    containerlab("destroy", found)
    docker("rmi", HOST_IMAGE)


@pytest.fixture(autouse=True)
def as_it_was(file: Path) -> Iterator[None]:
    """The lab and the machine are as before, once there is no fabric."""
    assert file.is_file()
    before, there, lab = snapshot.take(), traces(), containers()
    yield
    rocelab("down", "--all", timeout=600)
    assert changes(lab, containers()) == []
    assert [line for line in before.differences(snapshot.take()) if "cgroup_device" not in line] == []
    assert traces() == there


def test_it_is_adopted_and_looked_at() -> None:
    assert rocelab_json("adopt", NAME) == {"fabric": NAME, "nodes": 6, "links": 5, "left_out": []}
    status = rocelab_json("status")
    assert status["healthy"], status
    assert {node["name"]: node["role"] for node in status["nodes"]} == {
        **dict.fromkeys(HOSTS, "host"), "rack1": "leaf", "rack2": "leaf", "agg1": "spine",
    }  # fmt: skip
    assert rocelab_json("path", "pc1", "pc3")["paths"] == [["pc1:eth1", "rack1:eth1", "agg1:eth2", "rack2:eth2"]]
    assert " 0% packet loss" in rocelab("exec", "pc1", "--", "ping", "-c", "1", "-W", "5", "pc3").stdout
    assert rocelab_json("top")["ports"]["pc1:eth1"]["rx_bps"] >= 0
    assert json.loads(rocelab("diagnose", "--seconds", "1", "--json", expect=3).stdout)["causes"] == []


def test_it_becomes_lossless_as_it_runs() -> None:
    rocelab("adopt", NAME, "--qos", "pfc-ecn", "--rate", "100Mbit", "--rdma", timeout=600)
    an_incast_loses_nothing("pc1", "pc2", "pc3")
    assert rocelab_json("diagnose", "--probe", "--seconds", "2")["outcome"] == "healthy"


def an_incast_loses_nothing(one: str, other: str, target: str) -> None:
    report = rocelab_json("rdma", "bw", one, target, "--pair", f"{other}:{target}", "--duration", "2s")
    assert all(pair["messages"] for pair in report["pairs"])
    told = rocelab_json("counters", "--all")
    assert told["unbalanced"] == []
    ports: list[dict[str, int]] = [port for node in told["nodes"].values() for port in node["interfaces"].values()]
    assert sum(port["tx_prio3_pause"] for port in ports), "nothing paused: this was no incast"
    assert not [name for port in ports for name, count in port.items() if "drop" in name and count]


def test_it_is_imported_and_comes_up_lossless_in_three_commands(file: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    rocelab("import", "containerlab", file, "-o", mine)
    with mine.open("a") as topology:
        topology.write("qos: pfc-ecn\ndefaults: {rate: 100Mbit}\n")
    rocelab("up", mine, "--backend", "containerlab", "--name", "lossless", "--timeout", "600", timeout=1200)
    an_incast_loses_nothing("pc1", "pc2", "pc3")
