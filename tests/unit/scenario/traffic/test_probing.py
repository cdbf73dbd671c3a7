"""Between which NICs a diagnosis probes: every leaf and NIC sends and receives, and nobody across tenants."""

import pytest

from lab.model.load import load_topology
from lab.scenario.probes.nic_rings import host_of, links_of_nic, nic_pairs, of_each_leaf, rings
from lab.scenario.traffic.patterns import ring

SHAPE = "generate: {shape: leaf-spine, spines: 2, leaves: 3, hosts_per_leaf: 2}\n"


def test_neighbours_in_a_ring_are_at_different_leaves() -> None:
    topology = load_topology(f"name: three\nqos: pfc-ecn\n{SHAPE}")
    (hosts,) = rings(topology)
    assert hosts == ["h1", "h3", "h5", "h2", "h4", "h6"]
    leaf = {host.name: topology.links_of(host.name)[0].other(topology.links_of(host.name)[0].end_at(host.name)).node
            for host in topology.hosts}  # fmt: skip
    pairs = [pair.split(":") for pair in ring(hosts)]
    assert all(leaf[src] != leaf[dst] for src, dst in pairs)
    assert {leaf[src] for src, _ in pairs} == {leaf[dst] for _, dst in pairs} == {"leaf1", "leaf2", "leaf3"}


def test_of_a_tenant_those_that_are_only_bridged_meet_their_own_network_alone() -> None:
    """Two have one subnet: the address of h2 is that of h1, and a ping from h3 to the one would reach the other."""
    networks = """
    web: {vlan: 10, l2vni: 10010, tenant: blue, subnets: [10.1.10.0/24], untagged: [h1, h3]}
    db: {vlan: 20, l2vni: 10020, tenant: blue, subnets: [10.1.10.0/24], untagged: [h2, h4], tagged: [h5]}
    """
    overlay = f"overlay:\n  tenants: {{blue: {{l3vni: 50010}}}}\n  networks: {networks}"
    shape = SHAPE.replace("hosts_per_leaf: 2", "hosts_per_leaf: 2, fabric_mtu: 9050")
    assert rings(load_topology(f"name: two\n{shape}{overlay}")) == [["h1", "h3"], ["h2", "h4"]]
    routed = overlay.replace("subnets: [10.1.10.0/24], untagged: [h2", "subnets: [10.2.0.0/24], untagged: [h2")
    gateways = routed.replace("10.0/24],", "10.0/24], gateways: [10.1.10.1],").replace(
        "2.0.0/24],", "2.0.0/24], gateways: [10.2.0.1],"
    )
    assert rings(load_topology(f"name: two\n{shape}{gateways}")) == [["h1", "h3", "h2", "h4"]]


@pytest.mark.parametrize(("leaves", "hosts"), [(1, 1), (2, 0)])
def test_who_has_nobody_to_write_to_is_in_no_ring(leaves: int, hosts: int) -> None:
    shape = f"generate: {{shape: leaf-spine, spines: 1, leaves: {leaves}, hosts_per_leaf: {hosts}}}\n"
    assert rings(load_topology(f"name: few\nqos: pfc-ecn\n{shape}")) == []


RAILS = load_topology(
    "name: rails\nqos: pfc-ecn\ngenerate: {shape: rail-optimised, rails: 2, hosts_per_unit: 3, units: 2, spines: 1}\n"
)


def test_every_nic_of_every_host_is_in_a_ring_of_its_rail() -> None:
    first, second = rings(RAILS)
    assert first == [f"{host}:eth1" for host in ("h1", "h4", "h2", "h5", "h3", "h6")]
    assert second == [nic.replace("eth1", "eth2") for nic in first]


def test_the_only_host_with_two_nics_is_probed_at_both() -> None:
    """Its second one is alone of its kind: it is with a NIC of another host, and never with its own sibling."""
    text = """
name: storage
nodes:
  spine1: {role: spine}
  leaf1: {role: leaf}
  leaf2: {role: leaf}
  h1: {role: host, rdma: true}
  h2: {role: host, rdma: true}
links:
  - ends: [leaf1, spine1]
  - ends: [leaf2, spine1]
  - ends: [h1, leaf1]
  - ends: [h1, leaf2]
  - ends: [h2, leaf2]
"""
    assert rings(load_topology(text)) == [["h1:eth1", "h2:eth1"], ["h1:eth2", "h2:eth1"]]


def test_a_sweep_takes_a_nic_of_each_leaf_and_neighbours_are_of_different_hosts() -> None:
    chosen = of_each_leaf(RAILS, [nic for each in rings(RAILS) for nic in each])
    links = {nic: links_of_nic(RAILS, nic)[0] for nic in chosen}
    leaves = {link.other(link.end_at(host_of(nic))).node for nic, link in links.items()}
    assert (len(chosen), leaves) == (4, {"leaf1", "leaf2", "leaf3", "leaf4"})
    assert len(set(map(host_of, chosen))) == 4


def test_tenants_that_leak_their_routes_reach_each_other() -> None:
    """Three tenants of one host each: the second one leaks to both others, and these have no route to each other."""
    text = (
        "name: leaks\ndefaults: {rate: 100Mbit, mtu: 4300}\n"
        "generate: {shape: leaf-spine, spines: 1, leaves: 3, hosts_per_leaf: 1, fabric_mtu: 4350}\n"
        "overlay:\n  tenants: {a: {l3vni: 51}, b: {l3vni: 52}, c: {l3vni: 53}}\n  LEAKS\n  networks:\n"
    ) + "".join(
        f"    net{number}: {{vlan: {number}, l2vni: {number}, tenant: {tenant}, subnets: [10.0.{number}.0/24],"
        f" gateways: [10.0.{number}.1], untagged: [h{number}]}}\n"
        for number, tenant in enumerate("abc", 1)
    )
    assert nic_pairs(load_topology(text.replace("LEAKS", ""))) == []
    leaking = load_topology(text.replace("LEAKS", "leaks: [[a, b], [b, c]]"))
    assert nic_pairs(leaking) == [("h1", "h2"), ("h2", "h3")]
