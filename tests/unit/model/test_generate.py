"""Generators: counts, wiring and names, against what the shapes are defined to be."""

from collections.abc import Callable
from itertools import product

from lab.model.generate import census
from lab.model.load import load_topology
from lab.model.spec import ClosSpec, LeafSpineSpec, RailOptimisedSpec
from lab.model.topology import Role, Topology

Generate = Callable[..., Topology]


def _pairs(topology: Topology, *roles: Role) -> set[tuple[str, str]]:
    wanted = set(roles)
    return {
        (link.a.node, link.b.node)
        for link in topology.links
        if {topology.node(end.node).role for end in link.ends} == wanted
    }


def test_leaf_spine_is_a_full_mesh(generate: Generate) -> None:
    fabric = generate("leaf-spine", spines=3, leaves=4, hosts_per_leaf=2, uplinks_per_pair=2)
    mesh = set(product([f"leaf{n}" for n in range(1, 5)], [f"spine{n}" for n in range(1, 4)]))
    assert _pairs(fabric, Role.LEAF, Role.SPINE) == mesh
    assert len(fabric.links) == 4 * 3 * 2 + 8
    assert len(fabric.nodes) == 3 + 4 + 8


def test_uplinks_come_first_and_count_like_the_spines(generate: Generate) -> None:
    fabric = generate("leaf-spine", spines=2, leaves=3, hosts_per_leaf=2)
    for leaf, spine in product(range(1, 4), range(1, 3)):
        (link,) = [ln for ln in fabric.links_of(f"leaf{leaf}") if ln.b.node == f"spine{spine}"]
        assert str(link) == f"leaf{leaf}:swp{spine}--spine{spine}:swp{leaf}"
    assert [str(link) for link in fabric.links_of("leaf2")[2:]] == ["h3:eth1--leaf2:swp3", "h4:eth1--leaf2:swp4"]


def test_nodes_come_from_the_top_tier_down(shipped: Topology) -> None:
    tiers = [node.role.tier for node in shipped.nodes]
    assert tiers == sorted(tiers, reverse=True)


def test_clos_joins_pods_only_through_superspines(generate: Generate) -> None:
    fabric = generate("clos", pods=3, superspines=2, spines_per_pod=2, leaves_per_pod=2, hosts_per_leaf=1)
    for leaf, spine in _pairs(fabric, Role.LEAF, Role.SPINE):
        assert fabric.node(leaf).pod == fabric.node(spine).pod
    assert len(_pairs(fabric, Role.LEAF, Role.SPINE)) == 3 * 2 * 2
    tops = set(product([f"spine{n}" for n in range(1, 7)], ["superspine1", "superspine2"]))
    assert _pairs(fabric, Role.SPINE, Role.SUPERSPINE) == tops
    assert [fabric.node(f"spine{n}").pod for n in range(1, 7)] == [1, 1, 2, 2, 3, 3]


def test_each_nic_is_on_the_leaf_of_its_rail_and_unit(generate: Generate) -> None:
    rails, hosts, units = 4, 3, 2
    fabric = generate("rail-optimised", rails=rails, hosts_per_unit=hosts, units=units, spines=2)
    for number in range(1, units * hosts + 1):
        unit = (number - 1) // hosts
        for rail, link in enumerate(fabric.links_of(f"h{number}"), start=1):
            assert link.a.interface == f"eth{rail}"
            assert link.b.node == f"leaf{unit * rails + rail}"
        assert fabric.node(f"h{number}").pod == unit + 1
    assert len(_pairs(fabric, Role.LEAF, Role.SPINE)) == units * rails * 2


def test_rates_by_kind_of_link(generate: Generate) -> None:
    fabric = generate(
        "clos",
        "defaults: {mtu: 1500, delay: 5us}",
        pods=2,
        superspines=1,
        spines_per_pod=1,
        leaves_per_pod=1,
        hosts_per_leaf=1,
        host_rate="100Mbit",
        fabric_rate="400Mbit",
        superspine_rate="800Mbit",
        rdma="false",
    )
    rates = {fabric.node(link.b.node).role: link.rate for link in fabric.links}
    assert rates == {Role.LEAF: 10**8, Role.SPINE: 4 * 10**8, Role.SUPERSPINE: 8 * 10**8}
    assert {(link.mtu, link.delay) for link in fabric.links} == {(1500, 5e-6)}
    assert not any(host.rdma for host in fabric.hosts)


def test_census_tells_the_truth_without_building() -> None:
    specs = (
        LeafSpineSpec(shape="leaf-spine", spines=3, leaves=5, hosts_per_leaf=4, uplinks_per_pair=2),
        ClosSpec(shape="clos", pods=3, superspines=2, spines_per_pod=2, leaves_per_pod=3, uplinks_per_pair=2),
        RailOptimisedSpec(shape="rail-optimised", rails=4, hosts_per_unit=3, units=2, spines=2, uplinks_per_pair=2),
    )
    for spec in specs:
        settings = ", ".join(
            f"{key}: {value}" for key, value in spec.model_dump(exclude_none=True, mode="json").items()
        )
        built = load_topology(f"name: t\ngenerate: {{{settings.replace('True', 'true')}}}")
        assert census(spec) == (len(built.nodes), len(built.links))
