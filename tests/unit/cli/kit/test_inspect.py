"""``rocelab inspect`` on a fabric that seems to run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.kit.output import stdout
from lab.model.addressing import plan_addresses
from lab.model.load import read_topology
from tests.unit.model.qos.fabrics import fabric
from tests.unit.running import run


@pytest.fixture(autouse=True)
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdout, "width", 200)
    run(fabric("pfc-ecn"), tmp_path, monkeypatch)


def said(*words: str) -> str:
    result = CliRunner().invoke(app, ["inspect", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_host_and_a_switch() -> None:
    text = said("h1", "leaf1")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line[:1] == "│"]
    assert rows[0] == ["h1", "host", "", "eth1", "10.0.0.1/31", "leaf1:swp3", "rocelab shell h1", "rl-t.h1"]
    assert rows[1][:5] == ["leaf1", "leaf", "4200100001", "lo", "10.253.0.1"]
    assert ["", "", "", "swp1", "", "spine1:swp1", "", ""] in rows


def test_json_has_all_nodes() -> None:
    nodes = {node["name"]: node for node in json.loads(said("--json"))["nodes"]}
    assert set(nodes) == {"spine1", "spine2", "leaf1", "leaf2", "h1", "h2", "h3", "h4"}
    (nic,) = nodes["h4"]["interfaces"]
    assert (nic["address"], nic["peer"], nodes["h4"]["get_in"]) == ("10.0.0.7/31", "leaf2:swp4", "rocelab shell h4")


def test_json_has_the_addresses_that_no_interface_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a tagged network, a second one, and a leaf's tunnel end: filters of a host name need all of them."""
    tenant = read_topology(Path(__file__).parents[4] / "topologies" / "tenant.yaml")
    run(tenant, tmp_path / "tenant", monkeypatch)
    nodes = {node["name"]: node for node in json.loads(said("--fabric", tenant.name, "--json"))["nodes"]}
    assert nodes["h6"]["addresses"] == ["10.1.10.4"]
    assert nodes["h1"]["addresses"] == ["10.1.10.2", "fd00:1:10::2"]
    leaf = nodes["leaf1"]
    (tunnel,) = set(leaf["addresses"]) - set(leaf["loopbacks"])
    assert tunnel == str(plan_addresses(tenant)["leaf1"].vtep)


def test_a_bond_leads_to_where_its_members_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bonded = read_topology(Path(__file__).parents[4] / "topologies" / "multihomed.yaml")
    run(bonded, tmp_path / "bonded", monkeypatch)
    (host,) = json.loads(said("h1", "--fabric", bonded.name, "--json"))["nodes"]
    assert {nic["name"]: (nic["address"], nic["peer"]) for nic in host["interfaces"]} == {
        "eth1": (None, "leaf1:swp2"), "eth2": (None, "leaf2:swp2"), "bond1": ("10.1.10.1/24", "leaf1:swp2 leaf2:swp2")
    }  # fmt: skip
