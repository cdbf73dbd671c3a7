"""Differences between two states: what is compared, what follows from another change, and what is never compared."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.audit import snapshot
from lab.audit.audited import FabricAudit, NodeAudit, UnreadPart
from lab.audit.baseline import settled
from lab.audit.difference import compare
from lab.audit.objects.device_objects import PortAudit
from lab.audit.objects.kernel_objects import (
    AddressAudit,
    FdbAudit,
    InterfaceAudit,
    NeighbourAudit,
    QdiscAudit,
    RouteAudit,
    SysctlAudit,
)
from lab.audit.objects.routing_objects import BfdSessionAudit, BgpSessionAudit, DaemonAudit, FrrLineAudit

if TYPE_CHECKING:
    from lab.audit.difference import Difference

SWP1 = InterfaceAudit("swp1", "veth", up=True, carrier=True, mtu=9000, mac="02:00:00:00:00:01", master="",
                      queue_length=1000, options={"PROMISC": "yes"}, counters={"rx bytes": 5})  # fmt: skip
BGP = BgpSessionAudit(
    peer="swp1", vrf="", state="Established", remote_as=1, local_as=2, hold_time=9.0, keepalive=3.0,
    families=("ipv4Unicast",), uptime=5.0, established=1, dropped=0, last_reset="", reset_age=5.0,
    prefixes={"ipv4Unicast": 4},
)  # fmt: skip
BFD = BfdSessionAudit("swp1", "fe80::1", "up", 1000, 1000, 3, 5.0, "ok")
NODE = NodeAudit(
    name="leaf1",
    role="leaf",
    interfaces=(SWP1, replace(SWP1, name="swp2", options={})),
    addresses=(AddressAudit("swp1", "10.0.0.0/31", "global"), AddressAudit("swp1", "fe80::1/64", "link")),
    routes=(
        RouteAudit("10.0.0.0/31", "main", "", "unicast", "kernel", ("dev swp1",)),
        RouteAudit("10.0.0.4/31", "main", "20", "unicast", "bgp", ("via 1.1.1.1 dev swp1", "via 1.1.1.1 dev swp2")),
        RouteAudit("fe80::/64", "main", "256", "unicast", "kernel", ("dev swp1", "dev swp2")),
    ),
    neighbours=(NeighbourAudit("swp1", "10.0.0.1", "02:00:00:00:00:09", permanent=False, state="REACHABLE"),),
    sysctls=(SysctlAudit("net.ipv4.ip_forward", "1"), SysctlAudit("net.ipv4.conf.swp1.rp_filter", "0")),
    qdiscs=(QdiscAudit("swp1", "root", "tbf", "1:", {"rate": "1000"}, {"packets": 4}),),
    fdb=(FdbAudit("02:00:00:00:00:07", "vni10", "", "10.252.0.2", "", permanent=False, flags=("self",)),),
    daemons=(DaemonAudit("bgpd", running=True),),
    frr=(FrrLineAudit("router bgp 2"), FrrLineAudit("router bgp 2 / maximum-paths 64")),
    bgp=(BGP,),
    bfd=(BFD,),
    ports=(PortAudit("swp1", {"pfc.priorities": "8", "queues.3.ecn.kmin": "30000"}, in_kernel=True),),
    counters={"IpInReceives": 4},
)


def against(now: NodeAudit, then: NodeAudit = NODE) -> list[Difference]:
    return compare(FabricAudit("f", {now.name: now}), FabricAudit("f", {then.name: then}))


def said(now: NodeAudit, then: NodeAudit = NODE) -> list[tuple[str, str, str, str]]:
    return [(each.object, each.field, each.expected, each.value) for each in against(now, then)]


def test_counters_ages_and_learned_entries_are_no_settings() -> None:
    now = replace(
        NODE,
        interfaces=(replace(SWP1, counters={"rx bytes": 9}), NODE.interfaces[1]),
        qdiscs=(replace(NODE.qdiscs[0], counters={"packets": 9}, handle="2:"),),
        neighbours=(replace(NODE.neighbours[0], state="STALE"), replace(NODE.neighbours[0], address="10.0.0.3")),
        bgp=(replace(BGP, uptime=9.0, established=2, prefixes={"ipv4Unicast": 5}),),
        bfd=(replace(BFD, uptime=9.0),),
        fdb=(),
        counters={},
    )
    assert against(now) == []
    assert against(replace(now, neighbours=())) == []


@pytest.mark.parametrize(
    ("now", "object_", "field", "expected", "value"),
    [
        (replace(NODE, interfaces=(replace(SWP1, mtu=1500), NODE.interfaces[1])),
         "interface swp1", "mtu", "9000", "1500"),
        (replace(NODE, interfaces=(replace(SWP1, options={}), NODE.interfaces[1])),
         "interface swp1", "PROMISC", "yes", "absent"),
        (replace(NODE, sysctls=(SysctlAudit("net.ipv4.ip_forward", "0"), NODE.sysctls[1])),
         "sysctl net.ipv4.ip_forward", "value", "1", "0"),
        (replace(NODE, qdiscs=(replace(NODE.qdiscs[0], options={"rate": "500"}),)),
         "qdisc swp1 root", "rate", "1000", "500"),
        (replace(NODE, neighbours=(replace(NODE.neighbours[0], mac="02:00:00:00:00:0a"),)),
         "neighbour 10.0.0.1 swp1", "mac", "02:00:00:00:00:09", "02:00:00:00:00:0a"),
        (replace(NODE, frr=(NODE.frr[0], FrrLineAudit("router bgp 2 / maximum-paths 1"))),
         "frr router bgp 2 / maximum-paths", "value", "64", "1"),
        (replace(NODE, ports=(replace(NODE.ports[0], in_kernel=False),)), "port swp1", "in kernel", "yes", "no"),
        (replace(NODE, ports=(PortAudit("swp1", {"pfc.priorities": "16", "queues.3.ecn.kmin": "30000"}, True),)),
         "port swp1", "pfc.priorities", "8", "16"),
        (replace(NODE, fdb=(replace(NODE.fdb[0], remote="10.252.0.3", permanent=True),)),
         "fdb 02:00:00:00:00:07 vni10 10.252.0.3", "presence", "absent", "present: permanent yes, flags self"),
    ],
)  # fmt: skip
def test_a_setting_is_named_with_both_values(
    now: NodeAudit, object_: str, field: str, expected: str, value: str
) -> None:
    assert said(now) == [(object_, field, expected, value)]
    assert said(NODE, now) != []


def test_a_session_that_is_down_has_one_difference() -> None:
    """Its timers and address families follow from that."""
    down = replace(BGP, state="Active", hold_time=0.0, families=())
    assert said(replace(NODE, bgp=(down,))) == [("bgp session swp1", "state", "Established", "Active")]
    assert said(replace(NODE, bgp=())) == [
        (
            "bgp session swp1",
            "presence",
            "present: state Established, remote as 1, local as 2, hold time 9.0",
            "absent",
        )
    ]


def test_sessions_of_a_new_fabric_are_planned_to_be_up() -> None:
    """BFD comes up after convergence; a session that comes up, or has just begun, is no difference."""
    young = replace(NODE, bgp=(replace(BGP, state="Connect"),), bfd=(replace(BFD, status="starting"),))
    plan = settled(FabricAudit("f", {"leaf1": young}))
    assert plan.nodes["leaf1"].bgp == (BGP,)
    assert plan.nodes["leaf1"].bfd == (BFD,)
    assert said(replace(NODE, bfd=(replace(BFD, status="starting"),))) == []
    assert said(NODE, replace(NODE, bfd=(), bgp=())) == []
    assert said(replace(NODE, bfd=(replace(BFD, status="down"),))) == [
        ("bfd session swp1 fe80::1", "status", "up", "down")
    ]


def test_what_follows_from_an_interface_is_not_listed() -> None:
    """The kernel removes link-local addresses and its routes; a protocol's routes are listed."""
    bgp_route = replace(NODE.routes[1], next_hops=("via 1.1.1.1 dev swp2",))
    down = replace(
        NODE,
        interfaces=(replace(SWP1, up=False), NODE.interfaces[1]),
        addresses=NODE.addresses[:1],
        routes=(bgp_route, replace(NODE.routes[2], next_hops=("dev swp2",))),
    )
    assert said(down) == [
        ("interface swp1", "up", "yes", "no"),
        ("route 10.0.0.4/31 metric 20", "next hops", "via 1.1.1.1 dev swp1, via 1.1.1.1 dev swp2",
         "via 1.1.1.1 dev swp2"),
    ]  # fmt: skip
    gone = replace(
        down, interfaces=NODE.interfaces[1:], addresses=(), qdiscs=(), sysctls=NODE.sysctls[:1], ports=(), bgp=(BGP,),
        bfd=(BFD,), neighbours=(), routes=(NODE.routes[1], replace(NODE.routes[2], next_hops=("dev swp2",))),
    )  # fmt: skip
    assert [each.object for each in against(gone)] == ["interface swp1"]


def test_a_route_that_vanishes_alone_is_listed() -> None:
    assert [each.object for each in against(replace(NODE, routes=NODE.routes[1:]))] == ["route 10.0.0.0/31"]
    without_address = replace(NODE, routes=NODE.routes[1:], addresses=NODE.addresses[1:])
    assert [each.object for each in against(without_address)] == ["address 10.0.0.0/31 swp1"]


def test_a_part_without_an_answer_hides_its_objects_only() -> None:
    silent = replace(
        NODE, frr=(), bgp=(), bfd=(), unread=(UnreadPart("bgpd", "no answer"),), sysctls=NODE.sysctls[1:]
    )
    assert said(silent) == [
        ("bgpd", "answer", "answers", "no answer"),
        ("sysctl net.ipv4.ip_forward", "presence", "present: value 1", "absent"),
    ]
    dead = replace(NODE, frr=(), bgp=(), bfd=(), daemons=(DaemonAudit("bgpd", running=False),))
    assert said(dead) == [("daemon bgpd", "running", "yes", "no")]
    nothing = NodeAudit("leaf1", "leaf", unread=(UnreadPart("node", "its container is gone"),))
    assert said(nothing) == [("node", "answer", "answers", "its container is gone")]
    assert [each.value for each in compare(FabricAudit("f", {}), FabricAudit("f", {"leaf1": NODE}))] == ["absent"]


def test_a_context_of_the_configuration_is_one_difference() -> None:
    assert said(replace(NODE, frr=())) == [("frr router bgp 2", "presence", "present", "absent")]


def test_a_neighbour_s_options_are_not_values_of_one_setting() -> None:
    """To type the one that is missing does not remove the one that shuts the session."""

    def option(name: str) -> NodeAudit:
        return replace(NODE, frr=(NODE.frr[0], FrrLineAudit(f"router bgp 2 / neighbor swp1 {name}")))

    assert set(said(option("shutdown"), option("bfd"))) == {
        ("frr router bgp 2 / neighbor swp1 bfd", "presence", "present", "absent"),
        ("frr router bgp 2 / neighbor swp1 shutdown", "presence", "absent", "present"),
    }
    assert said(option("timers 5 20"), option("timers 5 15")) == [
        ("frr router bgp 2 / neighbor swp1 timers 5", "value", "15", "20")
    ]


def test_a_snapshot_survives_json() -> None:
    found = FabricAudit("f", {"leaf1": NODE, "h1": NodeAudit("h1", "host", unread=(UnreadPart("kernel", "gone"),))})
    assert snapshot.restore(json.loads(json.dumps(snapshot.dump(found)))) == found
