"""The stored form is exact, and damage is told."""

import json
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

import pytest

from lab.errors import InvalidInput
from lab.model.load import read_topology
from lab.model.overlay.intent import Border, Design, Overlay
from lab.model.store import dump, restore
from lab.model.topology import (
    Addressing,
    Bfd,
    Endpoint,
    HashPolicy,
    HostFamily,
    Routing,
    SeedPolicy,
    Topology,
    Underlay,
)


def test_round_trip(shipped: Topology) -> None:
    assert restore(dump(shipped)) == shipped


def test_round_trip_of_what_is_not_default(small: Topology) -> None:
    unusual = replace(
        small,
        description='quotes " and \n lines, ünïcode',
        routing=Routing(HashPolicy.L3, SeedPolicy.SHARED, HostFamily.IPV6, Bfd(False, 0.05, 200), Underlay.ISIS),
        addressing=Addressing(vteps=IPv4Network("172.16.0.0/12")),
        frr={"leaf1": "ip route 10.9.0.0/24 blackhole\n"},
        links=tuple(replace(link, delay=1 / 3) for link in small.links),
    )
    assert restore(dump(unusual)) == unusual


OUTSIDE = Border(Endpoint("h1", "eth1"), 65010, (IPv4Network("0.0.0.0/0"), IPv6Network("2001:db8::/48")))


def tenants() -> Topology:
    topology = read_topology(Path(__file__).parents[3] / "topologies" / "tenant.yaml")
    assert topology.overlay is not None
    (blue, red), (web, *others) = topology.overlay.tenants, topology.overlay.networks
    named = replace(blue, rd=10001, rt="65000:50010"), red
    overlay = Overlay(named, (replace(web, rd=10002, rt="65000:1"), *others), Design.IBGP, leaks=(("blue", "red"),),
                      border=(OUTSIDE,))  # fmt: skip
    return replace(topology, overlay=overlay, routing=replace(topology.routing, underlay=Underlay.OSPF))


def test_round_trip_of_an_overlay_that_says_everything() -> None:
    assert restore(dump(tenants())) == tenants()


def test_an_overlay_of_before_there_were_leaks_is_read() -> None:
    """As recordings have it: tenants of two values, networks of seven."""
    data = json.loads(dump(tenants()))
    old = data["overlay"]
    del old["leaks"], old["border"], data["underlay"]
    old["tenants"] = [each[:2] for each in old["tenants"]]
    old["networks"] = [each[:7] for each in old["networks"]]
    stored = restore(json.dumps(data))
    found = stored.overlay
    assert found is not None
    assert (found.leaks, found.border) == ((), ())
    assert stored.routing.underlay is Underlay.EBGP
    assert [tenant.l3vni for tenant in found.tenants] == [50010, 50020]
    assert {network.rt for network in found.networks} | {tenant.rt for tenant in found.tenants} == {""}


def test_the_underlay_of_an_overlay_that_was_stored_before_is_the_fabrics() -> None:
    data = json.loads(dump(tenants()))
    del data["underlay"]
    data["overlay"]["underlay"] = "ospf"
    assert restore(json.dumps(data)) == tenants()


@pytest.mark.parametrize("text", ["", "{}", "[]", "3", '{"version": 4}', '{"version": 4, "nodes": 3', "[" * 100_000])
def test_damage_is_told(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"state\.json: is damaged; bring the fabric down"):
        restore(text, "state.json")


@pytest.mark.parametrize("place", ["routing", "bfd", "nodes", "links", "tenants", "networks"])
def test_a_value_too_many_or_too_few_is_damage(place: str) -> None:
    """Values are stored without the names of their fields: a shorter or a longer row has other fields."""
    for change in (lambda row: [*row, 1], lambda row: row[:1], lambda row: dict.fromkeys(map(str, row))):
        data = json.loads(dump(tenants()))
        found = data["overlay"] if place in {"tenants", "networks"} else data
        found[place] = change(found[place]) if place in {"routing", "bfd"} else [change(row) for row in found[place]]
        with pytest.raises(InvalidInput, match="is damaged"):
            restore(json.dumps(data))


def test_truncation_anywhere_is_told(small: Topology) -> None:
    text = dump(small)
    for length in range(0, len(text), 7):
        with pytest.raises(InvalidInput):
            restore(text[:length])


def test_another_version_is_told(small: Topology) -> None:
    with pytest.raises(InvalidInput, match="another version"):
        restore(dump(small).replace('"version":4', '"version":3'))
