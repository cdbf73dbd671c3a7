"""The paths between two hosts: what the kernel of each switch is asked, and whether it forwards."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import OperationFailed
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology
from lab.model.topology import Endpoint
from lab.routing.paths.underlay_path import HostAttachment, Walker

FLOW = {"h1": {"dev": "eth1"}, "leaf1": {"dev": "swp1"}, "spine1": {"dev": "swp2"}, "leaf2": {"dev": "swp2"}}
ROUTES = {**FLOW, "leaf1": {"nexthops": [FLOW["leaf1"]]}}


def test_all_paths_are_those_of_packets_that_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch that does not forward has no route for them, but one for packets of its own."""
    topology = load_topology("name: way\ngenerate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}\n")
    plan = plan_addresses(topology)
    asked: dict[str, str] = {}

    def inside(node: str) -> Any:
        def run(argv: list[str], **_: bool) -> SimpleNamespace:
            asked[node] = " ".join(argv[argv.index("get") + 1 :])
            return SimpleNamespace(stdout=json.dumps([ROUTES[node]]), stderr="")

        return SimpleNamespace(run=run, inside=lambda work: work())

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


@pytest.mark.parametrize(
    ("family", "off"), [("ipv4", "net/ipv4/conf/swp1/forwarding"), ("ipv6", "net/ipv6/conf/all/forwarding")]
)
@pytest.mark.parametrize("sport", [None, 49152])
def test_a_switch_that_forwards_nothing_has_no_path(
    family: str, off: str, sport: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's answer alone has none in IPv4, and a route in IPv6."""
    shape = "generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}"
    topology = load_topology(f"name: way\n{shape}\nrouting: {{host_family: {family}}}\n")
    plan = plan_addresses(topology)
    node = ""

    def inside(name: str) -> Any:
        nonlocal node
        node = name
        said = json.dumps([FLOW[name]])
        return SimpleNamespace(
            run=lambda *_, **__: SimpleNamespace(stdout=said, stderr=""), inside=lambda work: work()
        )

    def read(names: list[str]) -> dict[str, str]:
        stopped = {off} if node == "spine1" else set()
        return {name: "0" if name in stopped or "force" in name else "1" for name in names}

    monkeypatch.setattr("lab.kernel.process.tuning.read_sysctls", read)
    monkeypatch.setattr("lab.routing.paths.underlay_path.process.find_tool", lambda *_: "ip")
    src, dst = (
        HostAttachment(Endpoint(host, "eth1"), address.ip)
        for host in ("h1", "h2")
        if (address := plan[host].interfaces["eth1"].address)
    )
    walker = Walker(topology, inside)
    with pytest.raises(OperationFailed) as refused:
        _ = walker.of_flow(src, dst, sport) if sport else walker.every(src, dst)
    assert refused.value.message.startswith(f"spine1 does not forward {family.replace('ip', 'IP')} packets")
    assert off in refused.value.message
