"""Lines of FRR's configuration that siblings do not have, also those of a single session, without a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from lab.audit.audited import FabricAudit, NodeAudit
from lab.audit.comparisons.frr_lines import of_frr_lines
from lab.audit.objects.routing_objects import FrrLineAudit
from lab.audit.placement import FabricRoles
from lab.audit.readers.router_reader import configuration_lines
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology, read_topology
from lab.routing.frr_config.render import has_routers, render_router
from tests.fabric.command import TOPOLOGIES

if TYPE_CHECKING:
    from lab.model.topology import Topology

TOPOLOGY: Final = load_topology(
    "name: lines\ndefaults: {rate: 100Mbit, mtu: 9000}\n"
    "generate: {shape: leaf-spine, spines: 2, leaves: 4, hosts_per_leaf: 2}\n"
)
RAILS: Final = load_topology(
    "name: lines\ndefaults: {rate: 100Mbit, mtu: 9000}\n"
    "generate: {shape: rail-optimised, rails: 2, hosts_per_unit: 4, units: 1, spines: 1}\n"
)
FAMILY: Final = "address-family ipv4 unicast"


def lines_of(topology: Topology) -> dict[str, list[str]]:
    """The lines of each switch as FRR prints them: leaves have numbers of their own, and spines share one."""
    found: dict[str, list[str]] = {}
    for number, switch in enumerate(topology.switches):
        asn = 65000 if switch.name.startswith("spine") else 65100 + number
        ends = {link.end_at(switch.name).interface: link.other(link.end_at(switch.name))
                for link in topology.links_of(switch.name)}  # fmt: skip
        uplinks = {port: peer for port, peer in ends.items() if topology.node(peer.node).role.is_switch}
        found[switch.name] = [
            f"router bgp {asn}",
            f"router bgp {asn} / bgp router-id 10.253.0.{number}",
            *(line for port, peer in uplinks.items() for line in (
                f"router bgp {asn} / neighbor {port} interface peer-group FABRIC",
                f"router bgp {asn} / neighbor {port} description to {peer}",
                f"router bgp {asn} / neighbor {port} remote-as {65000 if asn > 65000 else 65100 + int(port[3:])}",
                f"router bgp {asn} / neighbor {port} timers 3 9",
            )),
            f"router bgp {asn} / {FAMILY}",
            f"router bgp {asn} / {FAMILY} / network 10.253.0.{number}/32",
            f"router bgp {asn} / {FAMILY} / maximum-paths 64",
            *(line for port in uplinks for line in (
                f"interface {port}", f"interface {port} / ip ospf cost 10",
                f"interface {port} / ip ospf area 0.0.0.0",
            )),
            "no zebra nexthop kernel enable",
        ]  # fmt: skip
    return found


def differences(topology: Topology, found: dict[str, list[str]]) -> list[tuple[str, str, str, str, str, str]]:
    nodes = {
        name: NodeAudit(name=name, role=str(topology.node(name).role), frr=tuple(map(FrrLineAudit, lines)))
        for name, lines in found.items()
    }
    return [
        (each.node, each.interface, each.object, each.field, each.value, each.expected)
        for each in of_frr_lines(FabricAudit(topology.name, nodes), FabricRoles(topology))
    ]


@pytest.mark.parametrize("topology", [TOPOLOGY, RAILS], ids=["clos", "rails"])
def test_a_healthy_fabric_has_no_differences(topology: Topology) -> None:
    assert differences(topology, lines_of(topology)) == []


@pytest.mark.parametrize("name", [file.stem for file in sorted(TOPOLOGIES.glob("*.yaml"))])
def test_the_configuration_of_each_example_has_no_differences(name: str) -> None:
    """Overlays, OSPF, IS-IS and multicast have lines of their own at some switches and ports."""
    topology = read_topology(TOPOLOGIES / f"{name}.yaml")
    if not has_routers(topology):
        return
    plan = plan_addresses(topology)
    routers = {each.name: render_router(topology, plan, each.name) for each in topology.switches}
    found = {name: configuration_lines(each.integrated + each.managed) for name, each in routers.items()}
    assert all(found.values())
    assert differences(topology, found) == []


@pytest.mark.parametrize(
    ("node", "port", "line"),
    [
        ("leaf3", "swp2", f"router bgp 65104 / {FAMILY} / neighbor swp2 maximum-prefix 1"),
        ("leaf3", "swp2", "router bgp 65104 / neighbor swp2 shutdown"),
        ("spine1", "swp4", f"router bgp 65000 / {FAMILY} / neighbor swp4 route-map NEW out"),
        ("spine1", "swp4", "router bgp 65000 / no neighbor swp4 bfd"),
        ("leaf1", "swp1", "interface swp1 / ipv6 nd suppress-ra"),
        ("spine2", "", f"router bgp 65000 / {FAMILY} / aggregate-address 10.0.0.0/28 summary-only"),
        ("spine2", "", "ip protocol bgp route-map NEW"),
        ("leaf4", "", f"router bgp 65105 / {FAMILY} / distance bgp 255 255 255"),
    ],
)
def test_a_line_that_no_sibling_has_is_found_at_its_port(node: str, port: str, line: str) -> None:
    """Two spines are enough: no other switch has the line."""
    found = lines_of(TOPOLOGY)
    found[node].append(line)
    assert differences(TOPOLOGY, found) == [(node, port, f"frr {line}", "presence", "present", "absent")]


@pytest.mark.parametrize(
    ("node", "port", "old", "new", "expected"),
    [
        ("leaf2", "swp1", "neighbor swp1 timers 3 9", "neighbor swp1 timers 3 30",
         ("frr router bgp 65103 / neighbor swp1 timers 3", "value", "30", "9")),
        ("leaf2", "swp1", "neighbor swp1 interface peer-group FABRIC", "",
         ("frr router bgp 65103 / neighbor swp1 interface peer-group FABRIC", "presence", "absent", "present")),
        ("spine2", "", "maximum-paths 64", "maximum-paths 1",
         (f"frr router bgp 65000 / {FAMILY} / maximum-paths", "value", "1", "64")),
        ("leaf2", "swp2", "interface swp2 / ip ospf cost 10", "interface swp2 / ip ospf cost 99",
         ("frr interface swp2 / ip ospf cost", "value", "99", "10")),
        ("leaf2", "swp2", "interface swp2 / ip ospf area 0.0.0.0", "interface swp2 / ip ospf area 7",
         ("frr interface swp2 / ip ospf area", "value", "7", "0.0.0.0")),  # noqa: S104
    ],
)  # fmt: skip
def test_a_line_that_siblings_have_otherwise_is_found(
    node: str, port: str, old: str, new: str, expected: tuple[str, ...]
) -> None:
    found = lines_of(TOPOLOGY)
    found[node] = [line for each in found[node] if (line := each.replace(old, new)).split(" / ")[-1]]
    assert differences(TOPOLOGY, found) == [(node, port, *expected)]


def adopted(topology: Topology, style: str) -> dict[str, list[str]]:
    """The lines of a lab with names and numbers of its own: leaf1 and leaf2 share an AS number, as a rack does."""
    number = {each.name: 65000 if each.name.startswith("spine") else 65100 + int(each.name[4:]) // 3
              for each in topology.switches}  # fmt: skip
    found: dict[str, list[str]] = {}
    for switch in topology.switches:
        bgp, group = f"router bgp {number[switch.name]}", f"{switch.name.upper()}-PEERS"
        ends = [link.end_at(switch.name) for link in topology.links_of(switch.name)]
        peers = {end.interface: topology.node(link.other(end).node)
                 for end, link in zip(ends, topology.links_of(switch.name), strict=True)}  # fmt: skip
        uplinks = {port: peer.name for port, peer in peers.items() if peer.role.is_switch}
        lines = [bgp, f"{bgp} / {FAMILY}"]
        if style == "peer groups":
            lines += [f"{bgp} / neighbor {group} peer-group", f"{bgp} / neighbor {group} remote-as external"]
            lines += [f"{bgp} / neighbor {port} interface peer-group {group}" for port in uplinks]
        else:
            lines += [f"{bgp} / neighbor {port} interface remote-as {number[peer]}" for port, peer in uplinks.items()]
        if style == "route maps":
            lines += [
                f"{bgp} / {FAMILY} / neighbor {port} route-map FROM-{peer} in" for port, peer in uplinks.items()
            ]
        lines += [
            line for port in uplinks for line in (f"interface {port}", f"interface {port} / no ipv6 nd suppress-ra")
        ]
        found[switch.name] = lines
    return found


@pytest.mark.parametrize("style", ["AS numbers", "route maps", "peer groups"])
@pytest.mark.parametrize("spines", [1, 2, 3])
def test_names_and_numbers_of_nodes_are_no_differences(spines: int, style: str) -> None:
    topology = three_leaves(spines)
    assert differences(topology, adopted(topology, style)) == []


def three_leaves(spines: int) -> Topology:
    return load_topology(
        "name: lines\ndefaults: {rate: 100Mbit, mtu: 9000}\n"
        f"generate: {{shape: leaf-spine, spines: {spines}, leaves: 3, hosts_per_leaf: 1}}\n"
    )


def test_a_wrong_as_number_is_found_with_that_of_the_other_end() -> None:
    topology = three_leaves(2)
    found = adopted(topology, "AS numbers")
    start = "router bgp 65000 / neighbor swp3 interface remote-as"
    found["spine1"] = [line.replace(f"{start} 65101", f"{start} 65109") for line in found["spine1"]]
    assert differences(topology, found) == [("spine1", "swp3", f"frr {start}", "value", "65109", "65101")]


def test_a_section_of_an_interface_that_is_missing_as_a_whole_is_found() -> None:
    """FRR leaves it out with its last line. Without router advertisements a session by interface does not come up."""
    found = adopted(TOPOLOGY, "AS numbers")
    line = "interface swp1 / no ipv6 nd suppress-ra"
    found["leaf2"] = [each for each in found["leaf2"] if not each.startswith("interface swp1")]
    lacking = [each for each in differences(TOPOLOGY, found) if each[2].startswith("frr interface")]
    assert lacking == [("leaf2", "swp1", f"frr {line}", "presence", "absent", "present")]


def test_a_definition_that_nothing_uses_is_no_difference() -> None:
    found = lines_of(TOPOLOGY)
    found["leaf1"] += ["route-map UNUSED deny 10", "ip prefix-list UNUSED seq 5 deny 10.0.0.0/31"]
    assert differences(TOPOLOGY, found) == []


@pytest.mark.parametrize("node", ["leaf2", "spine1"])
def test_a_routing_process_that_only_one_switch_does_not_run_is_found(node: str) -> None:
    """Its lines are missing as well, and are those of the process: one difference names it."""
    found = lines_of(TOPOLOGY)
    found[node] = ["ip forwarding"]
    assert (node, "", "router bgp", "presence", "absent", "present") in {
        (one, port, line.removeprefix("frr "), *rest) for one, port, line, *rest in differences(TOPOLOGY, found)
    }
