"""Ranks on NICs: each rule puts every rank on a host of its own, in the order that it promises."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

import pytest

from lab.errors import UsageError
from lab.jobs.collective_job import run_job
from lab.jobs.job_spec import Collective, JobSpec
from lab.jobs.rank_placement import (
    PlacementRule,
    leaf_of_nic,
    nic_links,
    place,
    place_on_rails,
    ranks_on_each_host,
    refuse_shared_host,
)
from lab.kernel.process.netns import Namespace
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology
from lab.rdma.measure import Nic
from lab.shipped import shipped

SPEC: Final = JobSpec(collective=Collective.ALLREDUCE, sizes=(1024,))
LEAVES: Final = {"a1": "leaf1", "b1": "leaf2", "a2": "leaf1", "b2": "leaf2", "a3": "leaf1"}
NICS: Final = tuple(
    Nic(host, "eth1", Namespace(f"t-{host}"), f"t.{host}.eth1", ip_address(f"10.0.0.{number}"))
    for number, host in enumerate(LEAVES, 1)
)
LEAF_OF: Final = {nic: LEAVES[nic.host] for nic in NICS}
RAILS: Final = {
    Nic(host, rail, Namespace(f"t-{host}"), f"t.{host}.{rail}", ip_address("10.0.0.1"), only=False): f"leaf-{rail}"
    for host in ("h1", "h2", "h3")
    for rail in ("eth1", "eth2")
}
"""The leaf of each NIC of three hosts with two rails."""


def hosts(rule: PlacementRule, ranks: int | None = None, seed: int = 0) -> list[str]:
    return [nic.host for nic in place(NICS, LEAF_OF, ranks, rule, seed)]


def test_packed_fills_a_leaf_before_the_next() -> None:
    assert hosts(PlacementRule.PACKED) == ["a1", "a2", "a3", "b1", "b2"]
    assert hosts(PlacementRule.PACKED, 2) == ["a1", "a2"]


def test_scattered_takes_leaves_in_turn() -> None:
    assert hosts(PlacementRule.SCATTERED) == ["a1", "b1", "a2", "b2", "a3"]
    assert hosts(PlacementRule.SCATTERED, 2) == ["a1", "b1"]


def test_random_is_the_same_for_the_same_seed_and_uses_each_nic_once() -> None:
    assert hosts(PlacementRule.RANDOM, seed=3) == hosts(PlacementRule.RANDOM, seed=3)
    assert sorted(hosts(PlacementRule.RANDOM, seed=3)) == sorted(LEAVES)
    assert len({tuple(hosts(PlacementRule.RANDOM, seed=seed)) for seed in range(8)}) > 1


@pytest.mark.parametrize(
    ("rule", "order"),
    [
        (PlacementRule.PACKED, ["h1:eth1", "h2:eth1", "h3:eth1"]),
        (PlacementRule.SCATTERED, ["h1:eth1", "h2:eth2", "h3:eth1"]),
    ],
)
def test_rails_are_packed_or_used_in_turn(rule: PlacementRule, order: list[str]) -> None:
    assert list(map(str, place(list(RAILS), RAILS, None, rule))) == order


@pytest.mark.parametrize("rule", PlacementRule)
@pytest.mark.parametrize("seed", range(5))
def test_no_host_has_two_ranks(rule: PlacementRule, seed: int) -> None:
    assert sorted(nic.host for nic in place(list(RAILS), RAILS, None, rule, seed)) == ["h1", "h2", "h3"]


def test_two_nics_of_a_host_are_refused_with_its_name() -> None:
    h1_eth1, h1_eth2, h2_eth1, h2_eth2, *_ = RAILS
    refuse_shared_host([h1_eth1, h2_eth2])
    why = "ranks 1 and 2 are both on h2, whose NICs do not reach each other by RDMA: name one NIC of each host"
    for run in (refuse_shared_host, lambda nics: run_job(nics, SPEC, link_rate=1, report=lambda *_: None)):
        with pytest.raises(UsageError, match=why):
            run([h1_eth2, h2_eth1, h2_eth2])


def test_ranks_of_a_hierarchical_collective_are_host_by_host() -> None:
    assert list(map(str, place_on_rails(list(RAILS), 4))) == ["h1:eth1", "h1:eth2", "h2:eth1", "h2:eth2"]
    assert place_on_rails(list(RAILS), None) == tuple(RAILS)
    assert ranks_on_each_host(list(RAILS)) == 2


@pytest.mark.parametrize(
    ("nics", "why"),
    [
        (list(RAILS)[:3], "h2 has 1 rank, and h1 has 2: use as many ranks on each host"),
        (list(RAILS)[:2], "all ranks are on h1: use at least 4 ranks, on two hosts"),
        (list(RAILS)[::2], "a hierarchical collective needs several NICs in each host: see topologies/rails.yaml"),
        (list(RAILS)[1:5], "h2 has 2 ranks, and h1 has 1: use as many"),
        ([list(RAILS)[number] for number in (0, 2, 1, 3)], "other ranks are between those of h1: name the NICs of"),
    ],
)
def test_hosts_that_are_not_alike_are_refused_for_a_hierarchical_collective(nics: list[Nic], why: str) -> None:
    spec = JobSpec(collective=Collective.ALLREDUCE, sizes=(1024,), algorithm="hierarchical")
    with pytest.raises(UsageError, match=why):
        run_job(nics, spec, link_rate=1, report=lambda *_: None)
    with pytest.raises(UsageError, match=why):
        place_on_rails(nics, None)


def test_more_ranks_than_nics_are_refused_for_a_hierarchical_collective() -> None:
    with pytest.raises(UsageError, match="7 ranks need 7 NICs with RDMA, and there are 6: use at most 6 ranks"):
        place_on_rails(list(RAILS), 7)


@pytest.mark.parametrize("rule", PlacementRule)
def test_more_ranks_than_hosts_are_refused(rule: PlacementRule) -> None:
    with pytest.raises(UsageError, match="6 ranks need 6 hosts with RDMA, and there are 5: use at most 5 ranks"):
        place(NICS, LEAF_OF, 6, rule)
    with pytest.raises(UsageError, match="4 ranks need 4 hosts with RDMA, and there are 3: use at most 3 ranks"):
        place(list(RAILS), RAILS, 4, rule)


@pytest.mark.parametrize(
    ("topology", "host", "interface", "leaf", "links"),
    [
        ("rails", "h2", "eth1", "leaf1", ["leaf1"]),
        ("rails", "h2", "eth2", "leaf2", ["leaf2"]),
        ("multihomed", "h1", "bond1", "leaf1", ["leaf1", "leaf2"]),
    ],
)
def test_a_nic_has_the_links_of_its_interface_or_of_its_bond(
    topology: str, host: str, interface: str, leaf: str, links: list[str]
) -> None:
    fabric = load_topology(shipped(f"topologies/{topology}.yaml").read_text(encoding="utf-8"))
    plan = plan_addresses(fabric)
    nic = Nic(host, interface, Namespace(f"t-{host}"), "t", ip_address("10.0.0.1"))
    assert leaf_of_nic(fabric, plan, nic) == leaf
    found = nic_links(fabric, plan, nic)
    assert [link.other(link.end_at(host)).node for link in found] == links
