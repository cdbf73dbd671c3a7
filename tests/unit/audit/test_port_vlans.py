"""VLANs of switch ports, by the networks of the hosts behind them and of the gateways."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.audit.audited import FabricAudit, NodeAudit
from lab.audit.difference import compare
from lab.audit.objects.kernel_objects import (
    AddressAudit,
    FdbAudit,
    InterfaceAudit,
    SysctlAudit,
    VlanAudit,
)
from lab.audit.without_plan import differences_without_plan
from tests.unit.audit.made_fabric import STATE, TOPOLOGY

UNTAGGED = ("PVID", "Egress Untagged")


def differing(
    vlans: tuple[VlanAudit, ...], *addresses: str, without: str = "", leaves: str = "1", removed: str = ""
) -> list[tuple[str, str, str]]:
    """What differs if h5's port has these VLANs: hosts are in VLAN 10 or 20, each with a gateway at each leaf.

    ``without`` is an address that is missing at these leaves. ``removed`` is the port if it is in no bridge.
    """
    nodes = dict(STATE.nodes)
    for number in range(1, 9):
        planned = (f"10.9.{_vlan(number)}.{number}/24", f"fd00:{_vlan(number)}::{number}/64")
        own = addresses if number == 5 and addresses else planned
        nodes[f"h{number}"] = replace(
            nodes[f"h{number}"], addresses=tuple(AddressAudit("eth1", each, "global") for each in own)
        )
    for leaf in range(1, 5):
        node = nodes[f"leaf{leaf}"]
        ports = {f"swp{port + 2}": 2 * leaf - 2 + port for port in (1, 2)}
        joined = {port for port, host in ports.items() if host != 5 or port != removed}
        nodes[node.name] = replace(
            node,
            interfaces=(
                *(replace(each, master="bridge") if each.name in joined else each for each in node.interfaces),
                InterfaceAudit("bridge", "bridge", True, True, 9000, "", "", 1000),
                *(InterfaceAudit(f"vlan{vlan}", "vlan", True, True, 9000, "", "", 1000, {"id": str(vlan)})
                  for vlan in (10, 20)),
            ),
            addresses=(
                *(each for each in node.addresses if each.interface not in ports),
                *(AddressAudit(f"vlan{vlan}", f"10.9.{vlan}.254/24", "global") for vlan in (10, 20)),
                *(AddressAudit(f"vlan{vlan}", f"fd00:{vlan}::254/64", "global") for vlan in (10, 20)
                  if str(leaf) not in leaves or without != f"fd00:{vlan}::254/64"),
            ),
            vlans=tuple(
                each
                for port, host in ports.items()
                for each in (vlans if host == 5 else (VlanAudit(port, _vlan(host), UNTAGGED),))
            ),
        )  # fmt: skip
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    return [(each.node, each.object, each.value) for each in found]


def _vlan(host: int) -> int:
    return 10 if host < 7 else 20


def test_a_port_in_the_vlan_of_another_network_is_named() -> None:
    right, wrong = (VlanAudit("swp3", vlan, UNTAGGED) for vlan in (10, 20))
    assert differing((right,)) == []
    assert differing((wrong,)) == [("leaf3", "vlan 10 swp3", "absent"), ("leaf3", "vlan 20 swp3", "present")]
    assert differing(()) == [("leaf3", "vlan 10 swp3", "absent")]
    assert differing((VlanAudit("swp3", 10, ()),)) == [], "the host can send tagged frames"


def test_with_one_address_either_that_or_the_vlan_is_wrong() -> None:
    found = differing((VlanAudit("swp3", 20, UNTAGGED),), "10.9.10.5/24")
    assert [each for each in found if each[1].startswith(("vlan", "address 10"))] == [
        ("leaf3", "vlan 10 swp3", "absent"),
        ("leaf3", "vlan 20 swp3", "present"),
        ("h5", "address 10.9.10.5/24 eth1", "10.9.10.0/24"),
    ]
    outside = differing((VlanAudit("swp3", 20, UNTAGGED),), "192.0.2.1/24")
    assert not [each for each in outside if each[1].startswith("vlan")], "no VLAN has its network"


def test_a_gateway_without_an_address_that_others_have_is_named() -> None:
    right = (VlanAudit("swp3", 10, UNTAGGED),)
    assert differing(right, without="fd00:10::254/64") == [("leaf1", "address vlan10", "absent")]


def test_a_vlan_whose_gateways_all_have_no_ipv6_is_like_this_by_design() -> None:
    """As that of a tenant with IPv4 only, beside others with both."""
    right = (VlanAudit("swp3", 10, UNTAGGED),)
    assert differing(right, without="fd00:20::254/64", leaves="1234") == []
    assert differing(right, without="fd00:20::254/64", leaves="4") == [("leaf4", "address vlan20", "absent")]


@pytest.mark.parametrize(
    ("changed", "named"),
    [({}, []), ({"leaf3": 0}, [("leaf3", "0")]), ({"leaf1": 8192}, []), ({"spine2": 0}, [])],
)
def test_a_leaf_is_not_the_root_of_a_spanning_tree(changed: dict[str, int], named: list[tuple[str, str]]) -> None:
    """It can be the backup, and each spine can be the root."""
    nodes = dict(STATE.nodes)
    priorities = {"spine1": 4096, **{f"leaf{number}": 32768 for number in range(1, 5)}, "spine2": 8192, **changed}
    for name, priority in priorities.items():
        options = {"stp_state": "1", "priority": str(priority)}
        bridge = InterfaceAudit("bridge", "bridge", True, True, 9000, "", "", 1000, options)
        nodes[name] = replace(nodes[name], interfaces=(*nodes[name].interfaces, bridge))
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    assert [(each.node, each.value) for each in found] == named


@pytest.mark.parametrize(("vlan", "named"), [("20", []), ("7", ["fdb 02:00:00:00:00:01 swp3 7"])])
def test_the_entry_of_a_port_s_own_mac_follows_its_vlan(vlan: str, named: list[str]) -> None:
    def leaf(number: int, of_vlan: str) -> FabricAudit:
        entry = FdbAudit("02:00:00:00:00:01", "swp3", of_vlan, "", "", permanent=True, flags=())
        node = NodeAudit("leaf1", "leaf", vlans=(VlanAudit("swp3", number, UNTAGGED),), fdb=(entry,))
        return FabricAudit("f", {"leaf1": node})

    found = compare(leaf(20, vlan), leaf(10, "10"))
    assert [each.object for each in found if each.kind == "fdb"] == named
    assert [each.object for each in found if each.kind == "vlan"] == ["vlan 10 swp3", "vlan 20 swp3"]


def bridged_ports(
    removed: str = "", *, routed: str = "", ipv6: str = "", tags: bool = False, untagged: str = "", vlan: str = ""
) -> list[tuple[str, str, str, str]]:
    """What differs if all hosts are in one network, and each leaf's ports to them in a bridge, apart from two.

    One was removed from its bridge, and the other has an address. IPv6 is off on all ports to hosts except ``ipv6``.
    With ``tags``, all bridged ports are in VLAN 10 except ``untagged``. No switch has a gateway. ``vlan`` is the name
    of an interface in leaf2's bridge.
    """
    nodes = dict(STATE.nodes)
    for number in range(1, 9):
        own = (AddressAudit("eth1", f"10.9.10.{number}/24", "global"),)
        nodes[f"h{number}"] = replace(nodes[f"h{number}"], addresses=own, routes=())
    for leaf in (f"leaf{number}" for number in range(1, 5)):
        node = nodes[leaf]
        joined = {port for port in ("swp3", "swp4") if f"{leaf}:{port}" not in {removed, routed}}
        off = {f"net.ipv6.conf.{port}.disable_ipv6": f"{leaf}:{port}" != ipv6 for port in ("swp3", "swp4")}
        nodes[leaf] = replace(
            node,
            interfaces=(
                *(replace(each, master="bridge") if each.name in joined else each for each in node.interfaces),
                InterfaceAudit("bridge", "bridge", True, True, 9000, "", "", 1000),
            ),
            addresses=tuple(each for each in node.addresses if each.interface not in {"swp3", "swp4"}),
            sysctls=(*node.sysctls, *(SysctlAudit(name, str(int(value))) for name, value in off.items())),
            vlans=tuple(VlanAudit(port, 10, UNTAGGED) for port in joined if tags and f"{leaf}:{port}" != untagged),
        )
    if routed:
        leaf, _, port = routed.partition(":")
        more = AddressAudit(port, "10.9.10.254/24", "global")
        nodes[leaf] = replace(nodes[leaf], addresses=(*nodes[leaf].addresses, more))
    if vlan:
        member = InterfaceAudit(vlan, "vlan", True, True, 9000, "", "bridge", 1000, {"id": "10"})
        nodes["leaf2"] = replace(nodes["leaf2"], interfaces=(*nodes["leaf2"].interfaces, member))
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    return [(each.node, each.object, each.value, each.expected) for each in found]


@pytest.mark.parametrize("ipv6", ["", "leaf2:swp4"])
def test_a_port_that_was_removed_from_its_bridge_is_named(ipv6: str) -> None:
    assert bridged_ports() == []
    assert bridged_ports("leaf2:swp4", ipv6=ipv6) == [("leaf2", "interface swp4", "none", "bridge")]


@pytest.mark.parametrize(("vlan", "named"), [("swp4.10", False), ("swp3.10", True)])
def test_a_port_whose_vlan_is_in_a_bridge_was_not_removed(vlan: str, named: bool) -> None:
    assert (("leaf2", "interface swp4", "none", "bridge") in bridged_ports("leaf2:swp4", vlan=vlan)) is named


def test_sysctls_of_a_routed_port_are_not_compared_with_those_of_bridged_ones() -> None:
    assert bridged_ports(routed="leaf2:swp4", ipv6="leaf2:swp4") == []
    sysctl = "sysctl net.ipv6.conf.swp3.disable_ipv6"
    assert bridged_ports(routed="leaf2:swp4", ipv6="leaf3:swp3") == [("leaf3", sysctl, "0", "1")]


def test_the_vlan_of_a_removed_port_is_named_as_well() -> None:
    assert [each[:2] for each in differing((), removed="swp3")] == [
        ("leaf3", "vlan 10 swp3"),
        ("leaf3", "interface swp3"),
    ]


@pytest.mark.parametrize("port", ["leaf2:swp4", "leaf4:swp3"])
def test_without_gateways_a_port_in_no_vlan_has_that_of_other_hosts(port: str) -> None:
    assert bridged_ports(tags=True) == []
    leaf, _, name = port.partition(":")
    lost = (leaf, f"vlan 10 {name}", "absent", "present: flags PVID, Egress Untagged")
    assert bridged_ports(tags=True, untagged=port) == [lost]
    assert bridged_ports(port, tags=True) == [lost, (leaf, f"interface {name}", "none", "bridge")]
