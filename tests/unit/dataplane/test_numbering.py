"""Ids of ports: what a node may have, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.dataplane.numbering import number_ports
from lab.dataplane.port_layout import NODE_PORTS
from lab.errors import UsageError
from lab.model.load import load_topology

if TYPE_CHECKING:
    from lab.model.topology import Topology


def wide(links: int, qos: str) -> Topology:
    """Two nodes with so many links."""
    ends = "".join("  - ends: [n1, n2]\n" for _ in range(links))
    nodes = "nodes:\n  n1: {role: spine}\n  n2: {role: leaf}\n"
    return load_topology(f"name: wide\n{qos}{nodes}links:\n{ends}")


def test_a_node_has_as_many_ports_as_its_clock_looks_at() -> None:
    most = NODE_PORTS - 1
    assert number_ports(wide(most, "qos: pfc-ecn\n")).nodes["n1"].count == most + 1
    assert number_ports(wide(most + 1, "")).nodes["n1"].count == most + 2
    with pytest.raises(UsageError, match=r"^node n[12] has 4096 lossless ports, and may have 4095:"):
        number_ports(wide(most + 1, "qos: pfc-ecn\n"))


def test_the_nics_of_all_hosts_are_numbered_and_switches_have_none() -> None:
    """A NIC's number is the place of its rate limiters: no two have the same, and no memory is for switches."""
    text = "name: wide\nnodes: {s1: {role: leaf}, h1: {role: host}, h2: {role: host}}\n"
    text += "links:\n  - ends: [h1, s1]\n  - ends: [h1, s1]\n  - ends: [h2, s1]\n"
    numbering = number_ports(load_topology(text))
    found = {name: [node.nic(each) for each in node.interfaces] for name, node in numbering.nodes.items()}
    assert found["h1"] + found["h2"] == [0, 1, 2]
    assert (numbering.nics, numbering.nodes["s1"].nics) == (3, 0)
