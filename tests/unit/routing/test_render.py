"""FRR configuration against golden files, and against the RFCs that it follows."""

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv6Address, IPv6Interface, IPv6Network
from pathlib import Path

import pytest

from lab.kernel.process.netns import Namespace
from lab.model.addressing import NodePlan, plan_addresses
from lab.model.load import load_topology, read_topology
from lab.model.overlay.intent import Design
from lab.model.overlay.node_plan import External, InterfaceAddress
from lab.model.overlay.plan import plan_overlay
from lab.model.topology import Bfd, HostFamily, Topology
from lab.routing import daemons
from lab.routing.daemons import Router
from lab.routing.frr_config.render import RouterConfig, advertised, render_external, render_router
from lab.routing.frr_config.render_pim import rendezvous_points
from lab.routing.frr_config.render_segments import filters, reach_script

GOLDEN = Path(__file__).parent / "golden"
TOPOLOGIES = Path(__file__).parents[3] / "topologies"


@pytest.fixture(scope="module")
def small() -> Topology:
    return read_topology(TOPOLOGIES / "clos-2x2.yaml")


@pytest.mark.parametrize("router", ["spine1", "leaf2"])
def test_matches_the_golden_file(small: Topology, router: str) -> None:
    config = render_router(small, plan_addresses(small), router)
    files = {**config.files, "interfaces": config.managed}
    text = "".join(f"### {name}.conf\n{content}" for name, content in files.items())
    assert text == (GOLDEN / f"clos-2x2-{router}.conf").read_text()


@pytest.mark.parametrize("router", ["spine1", "leaf3"])
def test_an_overlay_matches_the_golden_file(router: str) -> None:
    """A spine hands EVPN's routes on; a leaf has a VRF for each tenant of its networks."""
    tenants = read_topology(TOPOLOGIES / "tenant.yaml")
    config = render_router(tenants, plan_addresses(tenants), router)
    text = f"### interfaces and vrfs\n{config.managed}### bgpd.conf\n{config.bgpd}"
    assert text == (GOLDEN / f"tenant-{router}.conf").read_text()


@pytest.mark.parametrize("design", [Design.EBGP_MULTIHOP, Design.IBGP])
@pytest.mark.parametrize("router", ["spine1", "leaf3"])
def test_a_design_with_sessions_of_its_own_matches_the_golden_file(router: str, design: Design) -> None:
    config = render_router(*designed("tenant.yaml", design), router)
    assert config.bgpd == (GOLDEN / f"tenant-{design}-{router}.conf").read_text()


def designed(file: str, design: Design) -> tuple[Topology, Mapping[str, NodePlan]]:
    topology = read_topology(TOPOLOGIES / file)
    assert topology.overlay is not None
    wanted = replace(topology, overlay=replace(topology.overlay, design=design))
    return wanted, plan_addresses(wanted)


@pytest.mark.parametrize("design", [Design.EBGP, Design.EBGP_MULTIHOP, Design.IBGP])
def test_the_family_is_on_sessions_of_one_kind_alone(design: Design) -> None:
    """Of two kinds each route would come twice, and leaves would reach spines that are gone by others."""
    text = render_router(*designed("l2vni.yaml", design), "leaf1").bgpd
    family = text.split("address-family l2vpn evpn")[1]
    assert ("neighbor FABRIC activate" in family) == (design is Design.EBGP)
    assert ("neighbor OVERLAY activate" in family) == (design is not Design.EBGP)
    assert "neighbor FABRIC activate" in text.split("address-family ipv4 unicast")[1].split("exit")[0]


def test_tenants_that_leak_and_targets_of_ones_own_match_the_golden_file() -> None:
    """leaf3 has both tenants; blue's distinguisher and target are said, red's are FRR's."""
    topology = read_topology(TOPOLOGIES / "tenant.yaml")
    assert topology.overlay is not None
    (blue, red), (web, db, lan) = topology.overlay.tenants, topology.overlay.networks
    leaking = replace(
        topology.overlay,
        tenants=(replace(blue, rd=10001, rt="65000:50010"), red),
        networks=(web, replace(db, rd=10002, rt="65000:20"), lan),
        leaks=(("blue", "red"),),
    )
    wanted = replace(topology, overlay=leaking)
    config = render_router(wanted, plan_addresses(wanted), "leaf3")
    assert config.bgpd == (GOLDEN / "leaks-leaf3.conf").read_text()


def over_ospf() -> Topology:
    """h6 is in no network: its link is told, and has no neighbour."""
    text = (TOPOLOGIES / "tenant.yaml").read_text().replace("      tagged: [h6]\n", "")
    return load_topology(text.replace("overlay:\n", "overlay:\n  design: ibgp\n  underlay: ospf\n"))


def test_an_underlay_of_ospf_matches_the_golden_file() -> None:
    config = render_router(over_ospf(), plan_addresses(over_ospf()), "leaf3")
    assert list(config.files) == ["zebra", "ospfd", "ospf6d", "bgpd", "bfdd"]
    assert config.ospfd + config.ospf6d + config.bgpd == (GOLDEN / "ospf-leaf3.conf").read_text()


def test_ospf_without_bfd_and_hosts_of_ipv6() -> None:
    topology = over_ospf()
    routing = replace(topology.routing, bfd=Bfd(enabled=False), host_family=HostFamily.IPV6)
    changed = replace(topology, routing=routing)
    config = render_router(changed, plan_addresses(changed), "leaf3")
    assert "bfd" not in config.integrated
    assert "passive" not in config.ospfd
    assert "interface swp4\n ipv6 ospf6 area 0.0.0.0\n ipv6 ospf6 passive\n" in config.ospf6d


PLAIN = """
name: plain
generate: {shape: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 2, rdma: false}
routing: {underlay: UNDERLAY}
"""


@pytest.mark.parametrize(("underlay", "daemons"), [("ospf", ["ospfd", "ospf6d"]), ("isis", ["isisd"])])
@pytest.mark.parametrize("router", ["spine1", "leaf2"])
def test_a_fabric_without_bgp_matches_the_golden_file(underlay: str, daemons: list[str], router: str) -> None:
    topology = load_topology(PLAIN.replace("UNDERLAY", underlay))
    plan = plan_addresses(topology)
    config = render_router(topology, plan, router)
    assert list(config.files) == ["zebra", *daemons, "bfdd"]
    assert plan[router].asn == 0
    text = "".join(f"### {name}.conf\n{content}" for name, content in config.files.items())
    assert text == (GOLDEN / f"plain-{underlay}-{router}.conf").read_text()


def test_isis_carries_an_overlay_as_ospf_does() -> None:
    text = (TOPOLOGIES / "tenant.yaml").read_text().replace("overlay:\n", "overlay:\n  design: ibgp\n")
    ospf, isis = (load_topology(f"{text}\nrouting: {{underlay: {each}}}\n") for each in ("ospf", "isis"))
    by_ospf, by_isis = (render_router(each, plan_addresses(each), "leaf3") for each in (ospf, isis))
    assert list(by_isis.files) == ["zebra", "isisd", "bgpd", "bfdd"]
    assert by_isis.bgpd == by_ospf.bgpd


def test_isis_without_bfd_hosts_of_ipv6_and_small_links() -> None:
    wanted = PLAIN.replace("UNDERLAY", "isis, host_family: ipv6, bfd: {enabled: false}")
    topology = load_topology(f"{wanted}defaults: {{mtu: 1280}}\n")
    config = render_router(topology, plan_addresses(topology), "leaf1")
    assert "bfd" not in config.integrated
    assert "interface swp3\n ipv6 router isis fabric\n isis passive\n" in config.isisd
    assert " lsp-mtu 1277\n" in config.isisd


def test_ospf_runs_nowhere_else() -> None:
    topology = read_topology(TOPOLOGIES / "tenant.yaml")
    config = render_router(topology, plan_addresses(topology), "leaf3")
    assert list(config.files) == ["zebra", "bgpd", "bfdd"]
    borrowed = [each.borrowed for plan in plan_addresses(topology).values() for each in plan.interfaces.values()]
    assert set(borrowed) == {None}


def test_links_between_switches_borrow_the_loopbacks_address_for_ospf() -> None:
    plan = plan_addresses(over_ospf())
    assert {name: str(each.borrowed) for name, each in plan["leaf3"].interfaces.items()} == {
        "swp1": "10.253.0.3/32", "swp2": "10.253.0.3/32", "swp3": "None", "swp4": "None"
    }  # fmt: skip


@pytest.mark.parametrize("router", ["spine1", "leaf2"])
def test_flooding_by_multicast_matches_the_golden_file(router: str) -> None:
    """The rendezvous point asks for what each leaf of its group sends; leaves hear of their groups from zebra."""
    topology = read_topology(TOPOLOGIES / "multicast.yaml")
    config = render_router(topology, plan_addresses(topology), router)
    assert list(config.files)[:2] == ["zebra", "pimd"], "neighbors are known before routes come"
    text = f"{config.pimd}### late\n" + "".join(f"{line}\n" for line in config.late)
    assert text == (GOLDEN / f"multicast-{router}.conf").read_text()


def test_rendezvous_points_are_of_the_top_tier_in_turn() -> None:
    networks = "".join(
        f"    n{n}: {{vlan: {n}, l2vni: 100{n}0, subnets: [10.1.{n}.0/24], untagged: [h{n}]}}\n" for n in range(1, 5)
    )
    shape = (
        "generate: {shape: clos, superspines: 2, pods: 2, spines_per_pod: 2, leaves_per_pod: 2, fabric_mtu: 9050}\n"
    )
    topology = load_topology(f"name: big\n{shape}overlay:\n  flooding: multicast\n  networks:\n{networks}")
    points = rendezvous_points(topology, plan_addresses(topology))
    assert list(map(str, points.values())) == ["10.255.0.1", "10.255.0.2", "10.255.0.1", "10.255.0.2"]


def test_pim_runs_nowhere_else() -> None:
    topology = read_topology(TOPOLOGIES / "l2vni.yaml")
    config = render_router(topology, plan_addresses(topology), "leaf1")
    assert list(config.files) == ["zebra", "bgpd", "bfdd"]


BORDER = """
    wan:
      vlan: 40
      l2vni: 10040
      tenant: blue
      subnets: [10.9.0.0/29, "fd00:9::/64"]
      gateways: [10.9.0.1, "fd00:9::1"]
      untagged: [h6]
  leaks: [[blue, red]]
  border:
    - {router: h6, asn: 65010, prefixes: [0.0.0.0/0, 203.0.113.0/24, "2001:db8:9::/48"]}
"""


def bordered(more: str = "", *changes: tuple[str, str]) -> Topology:
    """h6 is a router outside, in a network of blue's of its own; blue leaks to red."""
    text = (TOPOLOGIES / "tenant.yaml").read_text() + BORDER + more
    red_apart = (
        "[10.1.10.0/24]\n      gateways: [10.1.10.1]\n      untagged: [h2, h4]",
        "[10.3.30.0/24]\n      gateways: [10.3.30.1]\n      untagged: [h2, h4]",
    )
    for old, new in (("      tagged: [h6]\n", ""), red_apart, *changes):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return load_topology(text)


def test_a_border_leaf_and_its_router_match_the_golden_file() -> None:
    """Of what blue may tell the outside is a part, of what red may not."""
    topology, plan = bordered(), plan_addresses(bordered())
    overlay = plan_overlay(topology)
    assert overlay is not None
    router = render_external(topology, plan, overlay.externals["h6"])
    assert list(router.files) == ["zebra", "bgpd"]
    leaf = render_router(topology, plan, "leaf3")
    assert router.bgpd + leaf.bgpd == (GOLDEN / "border-leaf3-h6.conf").read_text()
    assert list(map(str, overlay.externals["h6"].addresses)) == ["203.0.113.1/32", "2001:db8:9::1/128"]


def test_two_routers_of_one_leaf_have_sessions_and_tell_a_prefix_once() -> None:
    """A prefix list has it once. In one AS the paths of EVPN are of iBGP and those of routers of eBGP: both count."""
    two = bordered(
        "    - {router: h5, asn: 65011, prefixes: [203.0.113.0/24]}\n",
        ("untagged: [h5]", "tagged: [h1]"),
        ("untagged: [h6]", "untagged: [h6, h5]"),
        ("overlay:\n", "overlay:\n  design: ibgp\n"),
    )
    text = render_router(two, plan_addresses(two), "leaf3").bgpd
    assert text.count("permit 203.0.113.0/24") == 1
    vrf = text.partition("vrf blue\n")[2].partition("\nexit\n")[0]
    assert " neighbor 10.9.0.2 remote-as 65010\n" in vrf
    assert " neighbor 10.9.0.3 remote-as 65011\n" in vrf
    assert vrf.count("  maximum-paths 64\n  maximum-paths ibgp 64\n") == 2


def test_other_leaves_have_no_session_with_the_router() -> None:
    plan = plan_addresses(bordered())
    for leaf in ("leaf1", "leaf2"):
        assert "65010" not in render_router(bordered(), plan, leaf).bgpd


def test_a_router_without_ipv4_is_called_by_its_as_number() -> None:
    """RFC 6286 section 2.1: any four bytes that are not 0."""
    session = InterfaceAddress(IPv6Interface("fd00:9::2/64"), IPv6Address("fd00:9::1"))
    external = External("h6", "eth1", 65010, "leaf3", "blue", (session,), (IPv6Network("::/0"),))
    text = render_external(bordered(), plan_addresses(bordered()), external).bgpd
    assert " bgp router-id 0.0.253.242\n" in text
    assert "ipv4 unicast\n" not in text.replace("default ipv4-unicast", "")
    assert external.addresses == ()


def test_a_leaf_has_the_tenants_that_its_own_reach() -> None:
    """Or it had nobody to import from: h1's leaf has red, which has no host there."""
    text = (TOPOLOGIES / "tenant.yaml").read_text().replace("untagged: [h2, h4]", "untagged: [h4]")
    text = text.replace("10.1.10.0/24]\n      gateways: [10.1.10.1]\n      untagged: [h4]",
                        "10.3.30.0/24]\n      gateways: [10.3.30.1]\n      untagged: [h4]")  # fmt: skip
    leaking = load_topology(text.replace("overlay:\n", "overlay:\n  leaks: [[blue, red]]\n"))
    for topology, count in ((load_topology(text), 1), (leaking, 2)):
        assert render_router(topology, plan_addresses(topology), "leaf1").managed.count("exit-vrf") == count


def test_of_three_tiers_each_reflects_to_those_below() -> None:
    """RFC 4456 section 7: clusters of clusters; a leaf reflects to nobody, and has a session with each spine once."""
    text = (
        "name: tall\ngenerate: {shape: clos, pods: 2, superspines: 2, spines_per_pod: 2, leaves_per_pod: 2,\n"
        "  uplinks_per_pair: 2, fabric_mtu: 9050}\n"
        "overlay: {design: ibgp, networks: {lan: {vlan: 10, l2vni: 10, untagged: [h1, h8]}}}\n"
    )
    tall = load_topology(text)
    plans = plan_addresses(tall)
    leaf, spine, top = (render_router(tall, plans, name).bgpd for name in ("leaf1", "spine1", "superspine1"))
    assert "route-reflector-client" not in leaf
    assert leaf.count("peer-group OVERLAY\n") == 2
    assert (spine.count("peer-group CLIENTS\n"), spine.count("peer-group OVERLAY\n")) == (2, 2)
    assert (top.count("peer-group CLIENTS\n"), top.count("peer-group OVERLAY\n")) == (4, 0)
    assert "neighbor CLIENTS route-reflector-client" in spine
    assert "neighbor OVERLAY route-reflector-client" not in spine


def test_without_tenants_leaves_take_the_family_and_have_no_vrf() -> None:
    bridged = read_topology(TOPOLOGIES / "l2vni.yaml")
    config = render_router(bridged, plan_addresses(bridged), "leaf1")
    assert config.managed == "".join(f"interface {swp}\n no ipv6 nd suppress-ra\nexit\n" for swp in ("swp1", "swp2"))
    assert "advertise-all-vni" in config.bgpd
    assert "vrf" not in config.bgpd


def test_vrfs_are_in_zebras_own_file_where_no_manager_tells_it_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FRR 8.4 to 9; what mgmtd is given is seen in tests/vm."""
    monkeypatch.setattr(daemons, "_has_manager", lambda: False)
    monkeypatch.setattr("shutil.chown", lambda *_: None)
    Router("leaf1", Namespace("x"), tmp_path / "leaf1").write(
        RouterConfig("", "zebra\n", "", "bgp\n", managed="vrf blue\n")
    )
    assert (tmp_path / "leaf1" / "zebra.conf").read_text() == "zebra\nvrf blue\n"


def test_without_bfd_there_is_no_bfdd_and_no_mention_of_it(small: Topology) -> None:
    quiet = replace(small, routing=replace(small.routing, bfd=Bfd(enabled=False)))
    config = render_router(quiet, plan_addresses(quiet), "leaf1")
    assert list(config.files) == ["zebra", "bgpd"]
    assert "bfd" not in config.bgpd


def test_bfd_timers_are_whole_milliseconds(small: Topology) -> None:
    fast = replace(small, routing=replace(small.routing, bfd=Bfd(interval=0.3, multiplier=4)))
    config = render_router(fast, plan_addresses(fast), "leaf1")
    assert "  transmit-interval 300\n  receive-interval 300\n  detect-multiplier 4\n" in config.bfdd


def test_a_leaf_originates_its_loopbacks_and_host_links_and_nothing_else(small: Topology) -> None:
    plan = plan_addresses(small)
    prefixes = {str(prefix) for prefix in advertised(plan["leaf1"])}
    assert prefixes == {"10.253.0.1/32", "10.252.0.1/32", "fdc0:0:0:1::1/128", "10.0.0.0/31", "10.0.0.2/31"}


def test_ipv6_hosts_are_announced_in_the_ipv6_family(small: Topology) -> None:
    modern = replace(small, routing=replace(small.routing, host_family=HostFamily.IPV6))
    text = render_router(modern, plan_addresses(modern), "leaf1").bgpd
    ipv4, ipv6 = text.split("address-family ipv6 unicast")
    assert "network fdc0:0:1::/64" in ipv6
    assert "10.0.0." not in ipv4.split("address-family ipv4 unicast")[1]


def test_no_router_speaks_bgp_to_a_host(small: Topology) -> None:
    text = render_router(small, plan_addresses(small), "leaf1").bgpd
    towards_hosts = [
        end.interface
        for link in small.links_of("leaf1")
        for end in link.ends
        if end.node == "leaf1" and not small.node(link.other(end).node).role.is_switch
    ]
    assert len(towards_hosts) == 2
    assert all(f"neighbor {interface} " not in text for interface in towards_hosts)


@pytest.mark.parametrize("router", ["leaf1", "leaf3"])
def test_bonds_match_the_golden_file(router: str) -> None:
    """leaf1 has a segment; leaf3 has none, and reaches those of others."""
    bonded = read_topology(TOPOLOGIES / "multihomed.yaml")
    config = render_router(bonded, plan_addresses(bonded), router)
    text = f"### zebra.conf\n{config.zebra}### managed\n{config.managed}### segments.lua\n{config.script}"
    assert text == (GOLDEN / f"multihomed-{router}.conf").read_text()


def test_the_filters_of_bonds_match_the_golden_file() -> None:
    """leaf1's, of a tenant that is routed: what is routed says no sender."""
    text = (TOPOLOGIES / "multihomed.yaml").read_text()
    text = text.replace("untagged: [h1, h2, h3]", "untagged: [h1, h2, h3]\n      tenant: blue")
    bonded = load_topology(text.replace("  networks:\n", "  tenants:\n    blue: {l3vni: 50010}\n  networks:\n"))
    overlay = plan_overlay(bonded)
    assert overlay is not None
    vteps = {leaf: str(plan.vtep) for leaf, plan in plan_addresses(bonded).items()}
    lines = "".join(f"{line}\n" for line in filters(overlay.leaves["leaf1"], vteps, overlay.numbers))
    assert lines == (GOLDEN / "multihomed-leaf1-filters.tc").read_text()
    assert list(filters(overlay.leaves["leaf3"], vteps, overlay.numbers)) == []


def test_without_bonds_zebra_has_no_script(small: Topology) -> None:
    for topology in (small, read_topology(TOPOLOGIES / "tenant.yaml")):
        config = render_router(topology, plan_addresses(topology), "leaf2")
        assert config.script == ""
        assert "evpn mh" not in config.zebra + config.managed


def test_macs_of_segments_are_reached_by_a_script_that_has_the_routers_folder() -> None:
    assert reach_script("/run/x") == (GOLDEN / "multihomed-reach.sh").read_text()
