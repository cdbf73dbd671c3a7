"""The plan: every number once, by the rules in the module's table, and one fabric spelled out."""

import os
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lab.model.addressing import InterfacePlan, NodePlan, plan_addresses
from lab.model.load import load_topology
from lab.model.topology import Role, Topology

GOLDEN = Path(__file__).parent / "golden" / "clos-2x2.plan"

SHAPES = st.one_of(
    st.builds(
        "shape: leaf-spine, spines: {}, leaves: {}, hosts_per_leaf: {}, uplinks_per_pair: {}".format,
        *[st.integers(1, 4)] * 4,
    ),
    st.builds(
        "shape: clos, pods: {}, superspines: {}, spines_per_pod: {}, leaves_per_pod: {}, hosts_per_leaf: {}".format,
        *[st.integers(1, 3)] * 5,
    ),
    st.builds(
        "shape: rail-optimised, rails: {}, hosts_per_unit: {}, units: {}, spines: {}".format, *[st.integers(1, 4)] * 4
    ),
)
TOPOLOGIES = st.builds(
    lambda shape, family: load_topology(f"name: t\nrouting: {{host_family: {family}}}\ngenerate: {{{shape}}}"),
    SHAPES,
    st.sampled_from(["ipv4", "ipv6"]),
)


def _lines(plans: Iterable[NodePlan]) -> Iterable[str]:
    for plan in plans:
        loopbacks = " ".join(map(str, plan.loopbacks))
        yield f"{plan.node.name} AS {plan.asn} seed {plan.hash_seed:#x} {loopbacks}".rstrip()
        for port in plan.interfaces.values():
            yield f"  {port.name} {port.mac} {port.address or port.link_local} {port.gateway or ''}".rstrip()


def test_golden_plan(small: Topology) -> None:
    """ROCELAB_UPDATE_GOLDEN=1 writes it anew."""
    text = "\n".join(_lines(plan_addresses(small).values())) + "\n"
    if "ROCELAB_UPDATE_GOLDEN" in os.environ:
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def _unique(values: Iterable[object]) -> bool:
    everything = list(values)
    return len(everything) == len(set(everything))


@given(TOPOLOGIES)
def test_every_number_is_given_once(topology: Topology) -> None:
    plans = list(plan_addresses(topology).values())
    ports = [port for plan in plans for port in plan.interfaces.values()]
    assert _unique(port.mac for port in ports)
    assert _unique(port.link_local for port in ports)
    loopbacks = [address.ip for plan in plans for address in plan.loopbacks]
    assert _unique([*loopbacks, *(port.address.ip for port in ports if port.address)])
    assert _unique(plan.asn for plan in plans if plan.node.role is Role.LEAF)
    assert _unique(plan.hash_seed for plan in plans if plan.node.role.is_switch)
    assert len(ports) == 2 * len(topology.links)


@given(TOPOLOGIES)
def test_both_ends_of_a_host_link_share_its_subnet_and_nobody_else_does(topology: Topology) -> None:
    plans = plan_addresses(topology)
    subnets = []
    for link in topology.links:
        low, high = (plans[end.node].interfaces[end.interface] for end in link.ends)
        if topology.node(link.a.node).role is not Role.HOST:
            assert low.address is None
            assert high.address is None
            continue
        assert low.address is not None
        assert high.address is not None
        assert low.address.network == high.address.network
        assert low.gateway == high.address.ip
        assert high.gateway is None
        subnets.append(low.address.network)
    assert _unique(subnets)


@given(TOPOLOGIES)
def test_no_path_has_one_as_number_twice(topology: Topology) -> None:
    """Valley-free paths between leaves: up, one turn, down (RFC 7938 section 5.2.2)."""
    asn = {name: plan.asn for name, plan in plan_addresses(topology).items()}
    spines = {node.name: node.pod for node in topology.having(Role.SPINE)}
    tops = [asn[node.name] for node in topology.having(Role.SUPERSPINE)]
    leaves = [asn[node.name] for node in topology.having(Role.LEAF)]
    assert len(set(tops)) <= 1
    assert not set(tops) & set(leaves)
    assert not {asn[spine] for spine in spines} & {*tops, *leaves}
    assert len({asn[spine] for spine in spines}) == len(set(spines.values()))


def test_private_as_numbers(shipped: Topology) -> None:
    """RFC 6996 section 5."""
    for plan in plan_addresses(shipped).values():
        assert plan.asn == 0 or 4_200_000_000 <= plan.asn <= 4_294_967_294


def test_macs_are_unicast_and_locally_administered(shipped: Topology) -> None:
    """IEEE 802c: the second least significant bit of the first octet set, the least significant one clear."""
    for plan in plan_addresses(shipped).values():
        for port in plan.interfaces.values():
            assert int(port.mac[:2], 16) & 0b11 == 0b10


def test_link_local_is_modified_eui_64() -> None:
    """The example of RFC 4291 appendix A: 34-56-78-9A-BC-DE gives 3656:78FF:FE9A:BCDE."""
    assert InterfacePlan("swp1", "34:56:78:9a:bc:de").link_local == IPv6Address("fe80::3656:78ff:fe9a:bcde")


def test_pools_of_the_file_are_used(generate: Callable[..., Topology]) -> None:
    pools = {
        "leaf_loopbacks": "192.0.2.0/27",
        "spine_loopbacks": "192.0.2.32/27",
        "vteps": "192.0.2.64/27",
        "host_links": "198.51.100.0/24",
        "loopbacks6": "2001:db8::/48",
    }
    extra = "addressing: {" + ", ".join(f'{name}: "{pool}"' for name, pool in pools.items()) + "}"
    plans = plan_addresses(generate("leaf-spine", extra, spines=2, leaves=2))
    assert plans["leaf2"].loopback4 == IPv4Address("192.0.2.2")
    assert plans["spine1"].loopback4 == IPv4Address("192.0.2.33")
    assert plans["leaf1"].vtep == IPv4Address("192.0.2.65")
    assert plans["leaf1"].loopback6 == ip_address("2001:db8:0:1::1")
    assert all(
        port.address.network.subnet_of(ip_network("198.51.100.0/24"))  # type: ignore[arg-type]
        for name in ("h1", "h2", "h3", "h4")
        for port in plans[name].interfaces.values()
        if port.address
    )


def test_a_pool_of_just_enough_is_enough(generate: Callable[..., Topology]) -> None:
    """4 leaves need the addresses 1 to 4, so a /29; 8 links of a /31 need 16 addresses, so a /28."""
    pools = "leaf_loopbacks: 192.0.2.0/29, vteps: 192.0.2.8/29, host_links: 198.51.100.16/28"
    fabric = generate("leaf-spine", f"addressing: {{{pools}}}", spines=1, leaves=4, hosts_per_leaf=2)
    plans = plan_addresses(fabric)
    assert str(plans["h8"].interfaces["eth1"].address) == "198.51.100.31/31"
    assert plans["leaf4"].vtep in ip_network("192.0.2.8/29")


def test_shared_seeds_leave_the_choice_to_the_kernel(generate: Callable[..., Topology]) -> None:
    fabric = generate("leaf-spine", "routing: {hash_seed: shared}", spines=2, leaves=2)
    assert {plan.hash_seed for plan in plan_addresses(fabric).values()} == {0}


def test_seeds_differ_in_the_largest_fabric(generate: Callable[..., Topology]) -> None:
    fabric = generate("leaf-spine", spines=32, leaves=512, hosts_per_leaf=0)
    seeds = [plan.hash_seed for plan in plan_addresses(fabric).values()]
    assert _unique(seeds)
    assert all(0 < seed < 2**32 for seed in seeds)
