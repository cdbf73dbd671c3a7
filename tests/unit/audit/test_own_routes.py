"""Routes that the kernel adds with an address of a port, and a node has no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.audit.objects.kernel_objects import MAIN, AddressAudit, RouteAudit
from lab.audit.rules.own_routes import of_own_routes
from tests.unit.audit.made_fabric import STATE, TOPOLOGY, changed, healthy

NETWORK = RouteAudit("10.0.0.4/31", MAIN, "", "unicast", "kernel", ("dev eth1",))
LOCAL = RouteAudit("10.0.0.5/32", "local", "", "local", "kernel", ("dev eth1",))
LOOPBACK = RouteAudit("127.0.0.1/32", "local", "", "local", "kernel", ("dev lo",))
VRF = tuple(replace(each, table="101") for each in (LOCAL, NETWORK))


def lacking(*routes: RouteAudit, up: bool = True, carrier: bool = True) -> list[str]:
    """Return what h3 lacks, whose port has 10.0.0.5/31 and link-local addresses."""
    node = STATE.nodes["h3"]
    ports = tuple(replace(each, up=up, carrier=carrier) for each in node.interfaces)
    addresses = (*node.addresses, AddressAudit("eth1", "fe80::1/64", "link"))
    return [
        each.object for each in of_own_routes(replace(node, addresses=addresses, interfaces=ports, routes=routes))
    ]


def test_a_route_that_the_kernel_added_and_somebody_deleted_is_named() -> None:
    """Without the local route, a host rejects packets to itself. Without the other one, it has no way to its leaf."""
    assert lacking(LOOPBACK, LOCAL, NETWORK) == []
    assert lacking(LOOPBACK, NETWORK) == ["route 10.0.0.5/32 table local"]
    assert lacking(LOOPBACK, LOCAL) == ["route 10.0.0.4/31"]
    assert lacking(LOOPBACK, LOCAL, up=False) == lacking(LOOPBACK, LOCAL, carrier=False) == []
    assert lacking(LOOPBACK, *VRF) == [], "it is in a VRF"
    assert lacking(NETWORK) == [], "the local table was not read"


@pytest.mark.parametrize("flag", ["noprefixroute", "tentative", "dadfailed"])
def test_an_address_without_routes_by_intent_lacks_none(flag: str) -> None:
    node = STATE.nodes["h3"]
    flagged = tuple(replace(each, flags=(flag,)) for each in node.addresses)
    assert [*of_own_routes(replace(node, addresses=flagged, routes=(LOOPBACK, LOCAL)))] == []


def test_single_addresses_have_no_network() -> None:
    node = STATE.nodes["h3"]
    single = tuple(replace(each, address="10.0.0.5/32") for each in node.addresses if each.interface == "eth1")
    assert [*of_own_routes(replace(node, addresses=single, routes=(LOOPBACK, LOCAL)))] == []


def test_a_missing_route_to_a_network_is_listed_without_the_plan() -> None:
    nodes = healthy(TOPOLOGY).nodes
    found = changed("h3", lambda node: replace(node, routes=(LOOPBACK, LOCAL)), nodes)
    expected = "present: type unicast, protocol kernel, next hops dev eth1"
    assert ("h3", "route 10.0.0.4/31", "presence", "absent", expected) in found
