"""The overlay plan of nodes: shared numbers, and addresses within their subnets."""

from pathlib import Path

import pytest

from lab.model.addressing import plan_addresses
from lab.model.load import load_topology, read_topology
from lab.model.overlay.node_plan import VxlanTunnel
from lab.model.overlay.plan import OverlayPlan, plan_overlay
from lab.model.topology import Topology
from lab.routing.wait.evpn_expectations import Floods, TenantRoutes, expected_overlay

TOPOLOGIES = Path(__file__).parents[4] / "topologies"
BRIDGED = """
name: bridged
generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 3, fabric_mtu: 9050}
overlay:
  tenants: {blue: {l3vni: 50010}}
  networks:
    web: {vlan: 10, l2vni: 10010, tenant: blue, subnets: [10.1.0.0/24], gateways: [10.1.0.1], untagged: [h1, h2]}
    one: {vlan: 20, l2vni: 10020, tenant: blue, subnets: [10.1.0.0/24], untagged: [h3, h4]}
    two: {vlan: 30, l2vni: 10030, tenant: blue, subnets: [10.1.0.0/24], untagged: [h5, h6]}
"""


@pytest.fixture(scope="module")
def topology() -> Topology:
    return read_topology(TOPOLOGIES / "tenant.yaml")


@pytest.fixture(scope="module")
def overlay(topology: Topology) -> OverlayPlan:
    planned = plan_overlay(topology)
    assert planned is not None
    return planned


def test_a_leaf_has_the_networks_of_its_hosts_and_the_l3vnis_of_their_tenants(overlay: OverlayPlan) -> None:
    assert overlay.leaves["leaf1"].tunnels == (
        VxlanTunnel(10010, 10),
        VxlanTunnel(10030, 30),
        VxlanTunnel(50010, 4094),
        VxlanTunnel(50020, 4093),
    )
    assert [tunnel.vni for tunnel in overlay.leaves["leaf3"].tunnels] == [10020, 10030, 50010, 50020]
    assert set(overlay.leaves) == {"leaf1", "leaf2", "leaf3"}


def test_the_vlan_of_an_l3vni_is_the_highest_that_no_network_has() -> None:
    text = (TOPOLOGIES / "tenant.yaml").read_text().replace("vlan: 20", "vlan: 4094")
    planned = plan_overlay(load_topology(text))
    assert planned is not None
    assert planned.l3_vlans == {"blue": 4093, "red": 4092}


def test_gateways_have_one_mac_and_routers_each_their_own(overlay: OverlayPlan) -> None:
    macs = {
        (bool(gateway.addresses), leaf): gateway.mac
        for leaf, planned in overlay.leaves.items()
        for gateway in planned.gateways
    }
    assert {mac for (addressed, _), mac in macs.items() if addressed} == {"02:1a:00:00:00:01"}
    assert len({mac for (addressed, _), mac in macs.items() if not addressed}) == 3


def test_no_mac_of_the_overlay_is_an_interfaces(topology: Topology, overlay: OverlayPlan) -> None:
    ours = {leaf.mac for leaf in overlay.leaves.values()} | {"02:1a:00:00:00:01"}
    assert not ours & {port.mac for node in plan_addresses(topology).values() for port in node.interfaces.values()}


def test_hosts_get_the_first_addresses_that_are_free(topology: Topology, overlay: OverlayPlan) -> None:
    def addresses(host: str) -> list[str]:
        return [str(each.address) for own in overlay.hosts[host] for each in own.addresses]

    assert addresses("h1") == ["10.1.10.2/24", "fd00:1:10::2/64"]
    assert addresses("h3") == ["10.1.10.3/24", "fd00:1:10::3/64"]
    assert addresses("h6") == ["10.1.10.4/24"]
    plan = plan_addresses(topology)
    assert str(plan["h1"].interfaces["eth1"].address) == "10.1.10.2/24"
    assert str(plan["h1"].interfaces["eth1"].gateway) == "10.1.10.1"


def test_a_tagged_host_has_an_interface_of_the_vlan_and_no_address_beside_it(
    topology: Topology, overlay: OverlayPlan
) -> None:
    (lan,) = overlay.hosts["h6"]
    assert lan.name == "eth1.30"
    assert plan_addresses(topology)["h6"].interfaces["eth1"].address is None
    port = next(port for port in overlay.leaves["leaf3"].ports if port.interface == "swp4")
    assert (port.untagged, port.tagged) == (0, (30,))


def test_a_leaf_has_no_address_of_the_underlay_towards_a_host_in_a_network(topology: Topology) -> None:
    assert all(port.address is None for port in plan_addresses(topology)["leaf1"].interfaces.values())


def test_a_host_in_no_network_stays_in_the_underlay() -> None:
    text = (TOPOLOGIES / "tenant.yaml").read_text().replace("untagged: [h5]", "untagged: []")
    plan = plan_addresses(load_topology(text))
    assert str(plan["h5"].interfaces["eth1"].address) == "10.0.0.9/31"
    assert str(plan["leaf3"].interfaces["swp3"].address) == "10.0.0.8/31"


def test_what_fits_a_tunnel_is_50_bytes_less_than_the_narrowest_link_between_switches(overlay: OverlayPlan) -> None:
    assert {leaf.mtu for leaf in overlay.leaves.values()} == {4300}


def test_every_leaf_is_expected_to_flood_to_the_others_of_each_network(topology: Topology) -> None:
    expected = expected_overlay(topology, plan_addresses(topology))
    floods, routes = expected["leaf1"]
    assert floods == Floods(
        {"vni10010": frozenset({"10.252.0.2"}), "vni10030": frozenset({"10.252.0.2", "10.252.0.3"})}
    )
    assert isinstance(routes, TenantRoutes)
    assert routes.vteps == {
        ("blue", "10.1.20.0/24"): frozenset({"10.252.0.3"}),
        ("blue", "fd00:1:20::/64"): frozenset({"10.252.0.3"}),
    }
    _, of_leaf3 = expected["leaf3"]
    assert isinstance(of_leaf3, TenantRoutes)
    assert of_leaf3.vteps["blue", "10.1.10.0/24"] == frozenset({"10.252.0.1", "10.252.0.2"})


def test_without_an_overlay_nothing_is_expected_of_one() -> None:
    plain = read_topology(TOPOLOGIES / "clos-2x2.yaml")
    assert plan_overlay(plain) is None
    assert expected_overlay(plain, plan_addresses(plain)) == {}


def test_networks_that_are_only_bridged_may_have_one_subnet() -> None:
    """Within each the hosts' addresses differ, and the tenant's VRF has the one that is routed, and no other."""
    planned = plan_overlay(load_topology(BRIDGED))
    assert planned is not None
    addresses = {host: str(own[0].addresses[0].address) for host, own in planned.hosts.items()}
    assert addresses == {"h1": "10.1.0.2/24", "h2": "10.1.0.3/24", "h3": "10.1.0.1/24", "h4": "10.1.0.2/24",
                         "h5": "10.1.0.1/24", "h6": "10.1.0.2/24"}  # fmt: skip
    (vrf,) = planned.leaves["leaf1"].vrfs
    assert list(map(str, vrf.subnets)) == ["10.1.0.0/24"]
    assert [gateway.vlan for gateway in planned.leaves["leaf1"].gateways if gateway.addresses] == [10]


def test_what_is_only_bridged_may_have_its_router_outside() -> None:
    """Which tells the subnet: in the VRF nobody else has it."""
    text = BRIDGED.replace("[10.1.0.0/24], gateways: [10.1.0.1]", "[10.9.0.0/24], gateways: [10.9.0.1]")
    topology = load_topology(f"{text}  border: [{{router: h1, asn: 65010, prefixes: [10.1.0.0/24]}}]\n")
    expected = expected_overlay(topology, plan_addresses(topology))["leaf2"]
    (routes,) = (each.vteps for each in expected if isinstance(each, TenantRoutes))
    assert routes == {("blue", prefix): {"10.252.0.1"} for prefix in ("10.9.0.0/24", "10.1.0.0/24")}


def test_only_so_many_networks_as_there_are_vlans() -> None:
    networks = "".join(f"    n{number}: {{vlan: {number}, l2vni: {number}}}\n" for number in range(1, 3991))
    tenants = "".join(f"    t{number}: {{l3vni: {number}}}\n" for number in range(5001, 5106))
    text = f"name: many\ngenerate: {{shape: leaf-spine, spines: 1, leaves: 1}}\noverlay:\n  tenants:\n{tenants}"
    with pytest.raises(Exception, match="3990 networks and 105 L3VNIs need 4095 VLANs"):
        load_topology(f"{text}  networks:\n{networks}")
