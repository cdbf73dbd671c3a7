"""Figures against values computed by hand."""

from collections.abc import Callable
from itertools import combinations

import pytest

from lab.model.flow import FlowNetwork
from lab.model.load import load_topology
from lab.model.output.fabric_summary import bisection_bandwidth, diameter, format_ratio, summarise
from lab.model.topology import Role, Topology

Generate = Callable[..., Topology]
G = 10**9


def test_leaf_spine_by_hand(generate: Generate) -> None:
    """4 leaves, each 3 x 10G down and 2 x 2 x 5G up."""
    fabric = generate(
        "leaf-spine",
        spines=2,
        leaves=4,
        hosts_per_leaf=3,
        uplinks_per_pair=2,
        host_rate="10Gbit",
        fabric_rate="5Gbit",
    )
    summary = summarise(fabric)
    assert (summary.nodes, summary.links, summary.hosts, summary.rdma_nics) == (18, 28, 12, 12)
    assert summary.oversubscription == dict.fromkeys(("leaf1", "leaf2", "leaf3", "leaf4"), 1.5)
    assert summary.host_bandwidth == 120 * G
    assert summary.bisection_bandwidth == 2 * 20 * G  # two leaves' uplinks; their six hosts could send 60G
    assert summary.diameter == 4
    assert [(tier.role, tier.nodes) for tier in summary.tiers] == [(Role.SPINE, 2), (Role.LEAF, 4), (Role.HOST, 12)]


def test_hosts_can_be_the_bottleneck(generate: Generate) -> None:
    fabric = generate("leaf-spine", spines=4, leaves=2, hosts_per_leaf=2, fabric_rate="10Gbit")
    assert bisection_bandwidth(fabric) == 2 * G
    assert summarise(fabric).oversubscription["leaf1"] == 2 / 40


def test_clos_is_limited_by_its_narrowest_tier(generate: Generate) -> None:
    """A pod: hosts 8G, leaf uplinks 8G, spine uplinks 2 spines x 3 x 500M = 3G."""
    fabric = generate(
        "clos", pods=2, superspines=3, spines_per_pod=2, leaves_per_pod=4, hosts_per_leaf=2, superspine_rate="500Mbit"
    )
    summary = summarise(fabric)
    assert summary.bisection_bandwidth == 3 * G
    assert summary.oversubscription["spine1"] == pytest.approx(4 / 1.5)
    assert (summary.diameter, summary.pods) == (6, 2)


def test_rails_of_one_unit_need_no_spine(generate: Generate) -> None:
    """One unit: every rail's leaf joins all hosts, so half the NICs send at full rate."""
    one = generate("rail-optimised", rails=4, hosts_per_unit=4, spines=1)
    assert bisection_bandwidth(one) == 2 * 4 * G
    assert diameter(one) == 2
    two = generate("rail-optimised", rails=4, hosts_per_unit=4, units=2, spines=1)
    assert bisection_bandwidth(two) == 4 * G  # four leaves with one uplink each
    assert diameter(two) == 4


def test_one_slow_link_counts_once(generate: Generate) -> None:
    fabric = generate(
        "leaf-spine", "overrides: {leaf1--spine1: {rate: 100Mbit}}", spines=2, leaves=2, hosts_per_leaf=2
    )
    assert bisection_bandwidth(fabric) == G + G // 10
    assert summarise(fabric).oversubscription == {"leaf1": pytest.approx(2 / 1.1), "leaf2": 1.0}


def test_flow_does_not_come_down_and_go_up_again() -> None:
    """leaf1 and leaf2 share spine1, leaf2 and leaf3 share spine2: no path from leaf1 to leaf3 that routing has."""
    text = """
name: t
nodes: {s1: {role: spine}, s2: {role: spine}, s3: {role: spine}, l1: {role: leaf}, l2: {role: leaf}, l3: {role: leaf},
  h1: {role: host}, h3: {role: host}}
links: [{ends: [l1, s1]}, {ends: [l2, s1]}, {ends: [l2, s2]}, {ends: [l3, s2]}, {ends: [h1, l1]}, {ends: [h3, l3]},
  {ends: [l1, s3], rate: 3Mbit}, {ends: [l3, s3], rate: 2Mbit}]
"""
    assert bisection_bandwidth(load_topology(text)) == 2_000_000


@pytest.mark.parametrize("hosts", [0, 1])
def test_without_two_hosts_there_is_nothing_to_bisect(generate: Generate, hosts: int) -> None:
    fabric = generate("leaf-spine", spines=1, leaves=1, hosts_per_leaf=hosts)
    summary = summarise(fabric)
    assert (summary.bisection_bandwidth, summary.diameter) == (0, 0)


def test_flow_equals_the_smallest_cut_on_every_small_graph() -> None:
    """Against all cuts: max-flow min-cut (Ford and Fulkerson)."""
    edges = list(combinations(range(5), 2))
    for seed in range(200):
        capacities = {edge: (seed * 7919 + number * 104729) % 5 for number, edge in enumerate(edges)}
        network: FlowNetwork[int] = FlowNetwork()
        for (start, end), capacity in capacities.items():
            network.add(start, end, capacity)
        cuts = [
            sum(room for (start, end), room in capacities.items() if start in near and end not in near)
            for size in range(4)
            for inner in combinations((1, 2, 3), size)
            for near in [{0, *inner}]
        ]
        assert network.consume_maximum(0, 4) == min(cuts)


def test_ratios_as_people_say_them() -> None:
    assert [format_ratio(r) for r in ((1, 1), (2, 2), (0.25, 0.25), (1, 3), None)] == [
        "1:1",
        "2:1",
        "1:4",
        "1:1 to 3:1",
        "",
    ]
