"""Errors of ``rocelab path`` that need no kernel."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.cli.fabrics.path import _check, _station
from lab.errors import UsageError
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology, read_topology

TENANT = read_topology(Path(__file__).parents[4] / "topologies" / "tenant.yaml")
MIXED = """
name: mixed
defaults: {mtu: 4300}
generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 2, fabric_mtu: 4350}
overlay:
  networks:
    lan: {vlan: 10, l2vni: 10010, subnets: [10.1.10.0/24], untagged: [h1]}
    bare: {vlan: 20, l2vni: 10020, untagged: [h2]}
"""


def running(topology: Any) -> Any:
    return SimpleNamespace(name=topology.name, topology=topology, plan=plan_addresses(topology))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("h9", "no host 'h9' in fabric tenant"),
        ("leaf1", "leaf1 is a switch: hosts are h1, h2"),
        ("10.0.0.99", "no host .10.0.0.99. in fabric tenant: there is h1, h2, h3"),
        ("h1:eth7", "no interface 'eth7' on h1"),
        ("h6:eth1", "no interface 'eth1' on h6"),
    ],
)
def test_who_is_no_host_of_the_fabric_is_told(name: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        _station(running(TENANT), name)


def test_a_host_of_a_network_without_subnets_has_no_address_to_go_to() -> None:
    with pytest.raises(UsageError, match="h2 has no address"):
        _station(running(load_topology(MIXED)), "h2")


def test_two_hosts_between_which_there_is_no_way_are_told() -> None:
    mixed = running(load_topology(MIXED))
    inside, outside = _station(mixed, "h1"), _station(mixed, "h3")
    for start, goal in ((inside, outside), (outside, inside)):
        with pytest.raises(UsageError, match="h1:eth1 is in network lan and h3:eth1 in none"):
            _check(start, goal, None)
    with pytest.raises(UsageError, match="h1:eth1 and h1:eth1 are the same host"):
        _check(inside, inside, None)


def test_the_address_of_another_network_with_the_same_subnet_is_nobodys_on_the_way() -> None:
    blue, red = (_station(running(TENANT), host) for host in ("h1", "h4"))
    with pytest.raises(UsageError, match=r"10\.1\.10\.3 of h4:eth1 is in h1:eth1's own subnet, and in network lan"):
        _check(blue, red, None)


def test_a_tagged_host_has_no_flow_of_rdma() -> None:
    tagged, other = (_station(running(TENANT), host) for host in ("h6", "h2"))
    _check(tagged, other, None)
    with pytest.raises(UsageError, match=r"h6:eth1\.30 is in a VLAN"):
        _check(tagged, other, 49152)
