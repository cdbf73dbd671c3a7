"""A switch whose networks no other switch has: they are named, and the line that differs, also without a majority."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_interface

import pytest

from lab.audit.objects.kernel_objects import RouteAudit
from lab.audit.objects.routing_objects import FrrLineAudit
from lab.audit.without_plan import differences_without_plan
from lab.model.load import load_topology
from tests.unit.audit.made_fabric import healthy

REDISTRIBUTED = "router bgp 1 / address-family ipv4 unicast"


@pytest.mark.parametrize(
    ("lines", "difference"),
    [
        ((f"{REDISTRIBUTED} / redistribute static",),
         ("leaf1", f"frr {REDISTRIBUTED} / redistribute", "value", "static", "connected")),
        ((), ("leaf1", f"frr {REDISTRIBUTED} / redistribute connected", "presence", "absent", "present")),
    ],
    ids=["something else", "nothing"],
)  # fmt: skip
def test_the_line_of_a_switch_that_advertises_nothing_is_named_with_its_networks(
    lines: tuple[str, ...], difference: tuple[str, str, str, str, str]
) -> None:
    """Of two leaves neither is usual, but the networks of one are missing everywhere else."""
    topology = load_topology(
        "name: two\ndefaults: {rate: 100Mbit, mtu: 9000}\n"
        "generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 2}\n"
    )
    state = healthy(topology)
    mine = {ip_interface(each.address).network for each in state.nodes["leaf1"].addresses if each.interface != "lo"}
    nodes = {}
    for name, node in state.nodes.items():
        own = {"leaf1": lines, "leaf2": (f"{REDISTRIBUTED} / redistribute connected",)}.get(name, ())
        frr = ("router bgp 1", REDISTRIBUTED, f"{REDISTRIBUTED} / maximum-paths 64", *own) if node.daemons else ()
        kept = tuple(each for each in node.routes if name == "leaf1" or ip_interface(each.prefix).network not in mine)
        connected = tuple(
            RouteAudit(str(ip_interface(each.address).network), "main", "", "unicast", "kernel", ())
            for each in node.addresses
            if name.startswith("leaf") and each.interface != "lo"
        )
        nodes[name] = replace(node, frr=tuple(map(FrrLineAudit, frr)), routes=(*kept, *connected))
    found = [
        (each.node, each.object, each.field, each.value, each.expected)
        for each in differences_without_plan(replace(state, nodes=nodes), topology)
    ]
    assert difference in found
    assert {each for each in found if each[2] == "advertised"} == {
        ("leaf1", f"route {network}", "advertised", "no", "yes") for network in mine if network.version == 4
    }
