"""The paths between two hosts: what the kernel of each switch is asked."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lab.model.addressing import plan_addresses
from lab.model.load import load_topology
from lab.model.topology import Endpoint
from lab.routing.paths.underlay_path import HostAttachment, Walker

if TYPE_CHECKING:
    import pytest

ROUTES = {
    "h1": {"dev": "eth1"},
    "leaf1": {"nexthops": [{"dev": "swp1"}]},
    "spine1": {"dev": "swp2"},
    "leaf2": {"dev": "swp2"},
}


def test_all_paths_are_those_of_packets_that_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch that does not forward has no route for them, but one for packets of its own."""
    topology = load_topology("name: way\ngenerate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}\n")
    plan = plan_addresses(topology)
    asked: dict[str, str] = {}

    def inside(node: str) -> Any:
        def run(argv: list[str], **_: bool) -> SimpleNamespace:
            asked[node] = " ".join(argv[argv.index("get") + 1 :])
            return SimpleNamespace(stdout=json.dumps([ROUTES[node]]), stderr="")

        return SimpleNamespace(run=run)

    monkeypatch.setattr("lab.routing.paths.underlay_path.process.find_tool", lambda *_: "ip")
    ends = [Endpoint(host, "eth1") for host in ("h1", "h2")]
    addresses = [plan[end.node].interfaces["eth1"].address for end in ends]
    src, dst = (
        HostAttachment(end, address.ip) for end, address in zip(ends, addresses, strict=True) if address is not None
    )
    (path,) = Walker(topology, inside).every(src, dst)
    assert list(map(str, path)) == ["h1:eth1", "leaf1:swp1", "spine1:swp2", "leaf2:swp2"]
    for node, interface in (("leaf1", "swp2"), ("spine1", "swp1"), ("leaf2", "swp1")):
        assert asked[node] == f"fibmatch {dst.address} from {src.address} iif {interface}"
