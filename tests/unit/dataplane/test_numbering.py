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
    assert number_ports(wide(most, "qos: lab\n")).nodes["n1"].count == most + 1
    assert number_ports(wide(most + 1, "")).nodes["n1"].count == most + 2
    with pytest.raises(UsageError, match=r"^node n[12] has 4096 lossless ports, and may have 4095:"):
        number_ports(wide(most + 1, "qos: lab\n"))
