"""The files of ``rocelab export``, judged by the real containerlab: it deploys the lab, and the lab is a fabric.

Nothing of rocelab runs here but the export. Docker, FRR's vtysh and ping say what became of it.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.export.containerlab import BUILT_IMAGE, DEFINITION, Images, export_lab
from lab.export.folder import write
from lab.model.addressing import plan_addresses
from lab.model.load import read_topology
from tests.fabric.command import TOPOLOGIES
from tests.patience import until

from .conftest import docker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lab.model.addressing import NodePlan
    from lab.model.topology import Link

pytestmark = pytest.mark.timeout(1500)

TOPOLOGY: Final = read_topology(TOPOLOGIES / "clos-2x2.yaml")


def containerlab(*words: str | Path) -> None:
    command = ["containerlab", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"


def inside(node: str, *words: str) -> str:
    return docker("exec", f"clab-{TOPOLOGY.name}-{node}", *words)


@pytest.fixture(scope="module")
def plan() -> Mapping[str, NodePlan]:
    return plan_addresses(TOPOLOGY)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The lab, deployed; nothing is left of it."""
    folder = tmp_path_factory.mktemp("deployed") / "lab"
    write(export_lab(TOPOLOGY, Images(BUILT_IMAGE)), folder)
    containerlab("deploy", "--topo", folder / DEFINITION)
    yield folder
    containerlab("destroy", "--topo", folder / DEFINITION, "--cleanup")


def established(switch: str) -> set[str]:
    """Ports of the switch at which BGP has a session, as FRR says."""
    said: dict[str, Any] = json.loads(inside(switch, "vtysh", "-c", "show bgp ipv4 unicast summary json"))
    return {port for port, peer in said.get("peers", {}).items() if peer["state"] == "Established"}


def uplinks(switch: str) -> set[str]:
    """Ports of the switch that lead to another."""
    ends = [link.end_at(switch) for link in TOPOLOGY.links_of(switch) if is_between_switches(link)]
    return {end.interface for end in ends}


def is_between_switches(link: Link) -> bool:
    return all(TOPOLOGY.node(end.node).role.is_switch for end in link.ends)


@pytest.mark.usefixtures("lab")
def test_every_session_of_every_switch_is_established() -> None:
    for switch in TOPOLOGY.switches:
        until(lambda name=switch.name: established(name) == uplinks(name) != set())  # type: ignore[misc]


@pytest.mark.usefixtures("lab")
def test_every_host_reaches_every_other(plan: Mapping[str, NodePlan]) -> None:
    for source in TOPOLOGY.hosts:
        for target in TOPOLOGY.hosts:
            (nic,) = plan[target.name].interfaces.values()
            assert nic.address is not None
            until(lambda name=source.name, to=str(nic.address.ip): " 0% packet loss" in ping(name, to))  # type: ignore[misc]


def ping(source: str, address: str) -> str:
    command = ["docker", "exec", f"clab-{TOPOLOGY.name}-{source}", "ping", "-c", "1", "-W", "5", address]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout


@pytest.mark.usefixtures("lab")
def test_links_have_their_rate() -> None:
    for link in TOPOLOGY.links:
        for end in link.ends:
            (shaper,) = json.loads(inside(end.node, "tc", "-j", "qdisc", "show", "dev", end.interface, "root"))
            assert shaper["kind"] == "tbf"
            assert shaper["options"]["rate"] * 8 == link.rate
