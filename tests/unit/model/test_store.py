"""The stored form is exact, and damage is told."""

from dataclasses import replace
from ipaddress import IPv4Network

import pytest

from lab.errors import InvalidInput
from lab.model.store import dump, restore
from lab.model.topology import Addressing, Bfd, HashPolicy, HostFamily, Routing, SeedPolicy, Topology


def test_round_trip(shipped: Topology) -> None:
    assert restore(dump(shipped)) == shipped


def test_round_trip_of_what_is_not_default(small: Topology) -> None:
    unusual = replace(
        small,
        description='quotes " and \n lines, ünïcode',
        routing=Routing(HashPolicy.L3, SeedPolicy.SHARED, HostFamily.IPV6, Bfd(False, 0.05, 200)),
        addressing=Addressing(vteps=IPv4Network("172.16.0.0/12")),
        frr={"leaf1": "ip route 10.9.0.0/24 blackhole\n"},
        links=tuple(replace(link, delay=1 / 3) for link in small.links),
    )
    assert restore(dump(unusual)) == unusual


@pytest.mark.parametrize("text", ["", "{}", "[]", "3", '{"version": 4}', '{"version": 4, "nodes": 3', "[" * 100_000])
def test_damage_is_told(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"state\.json: is damaged; bring the fabric down"):
        restore(text, "state.json")


def test_truncation_anywhere_is_told(small: Topology) -> None:
    text = dump(small)
    for length in range(0, len(text), 7):
        with pytest.raises(InvalidInput):
            restore(text[:length])


def test_another_version_is_told(small: Topology) -> None:
    with pytest.raises(InvalidInput, match="another version"):
        restore(dump(small).replace('"version":4', '"version":3'))
