"""Bridges in a spanning tree, from the output of ip(8): iproute2 6.15 in spine2 of topologies/vlans.yaml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.kernel.netlink.bridges import BridgePort, parse_tree

ROOT, OWN, LEAF1 = "1000.02:1a:00:01:00:00", "2000.02:1a:00:02:00:00", "8000.02:1a:00:03:00:00"


@pytest.fixture
def shown() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "stp-spine2.json").read_text())
    return found


def test_ports_have_their_roles_and_identifiers_all_their_digits(shown: list[dict[str, Any]]) -> None:
    found = parse_tree(shown, "bridge")
    assert found is not None
    assert (found.bridge, found.root, found.cost) == (OWN, ROOT, 38)
    assert found.ports[0] == BridgePort("swp1", "forwarding", "root", 19, LEAF1)
    assert [(port.state, port.role) for port in found.ports[1:]] == [("blocking", "alternate")] * 2


def test_a_port_that_its_own_bridge_is_nearest_to_is_designated(shown: list[dict[str, Any]]) -> None:
    shown[2]["linkinfo"]["info_slave_data"]["bridge_id"] = "2000.2:1a:0:2:0:0"
    shown[3]["linkinfo"]["info_slave_data"]["state"] = "disabled"
    found = parse_tree(shown, "bridge")
    assert found is not None
    assert [port.role for port in found.ports] == ["root", "designated", "disabled"]


def test_a_bridge_without_a_tree_and_none_at_all_are_none(shown: list[dict[str, Any]]) -> None:
    assert parse_tree(shown, "br0") is None
    shown[-1]["linkinfo"]["info_data"]["stp_state"] = 0
    assert parse_tree(shown, "bridge") is None
