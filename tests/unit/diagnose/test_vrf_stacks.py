"""Ports of a VRF have addresses and MACs as those of the main table; members of a bridge have none."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.ip_stacks import Stack, stacks
from tests.unit.diagnose import made_addresses, made_facts
from tests.unit.diagnose.made_facts import PEERS

if TYPE_CHECKING:
    from lab.telemetry.read.recording import Recording

VRF: Final = 1001
STATE: Final[dict[str, Any]] = {
    "links": [
        {"ifname": "red"},
        {"ifname": "swp1", "address": "02::1"},
        {"ifname": "swp3", "address": "02::3", "master": "red"},
        {"ifname": "swp4", "address": "02::4", "master": "bridge"},
    ],
    "routes": [
        {"dst": "10.0.0.0/31", "dev": "swp1", "protocol": "kernel", "scope": "link"},
        {"dst": "10.0.0.0/31", "dev": "swp3", "protocol": "kernel", "scope": "link", "table": str(VRF)},
        {"dst": "fe80::/64", "dev": "swp3", "protocol": "kernel", "table": str(VRF)},
        {"type": "local", "dst": "10.0.0.0", "dev": "swp3", "protocol": "kernel", "table": str(VRF)},
        {"type": "multicast", "dst": "ff00::/8", "dev": "swp4", "protocol": "kernel", "table": "local"},
        {"dst": "fe80::/64", "dev": "swp4", "protocol": "kernel"},
    ],
}


def stack(*events: dict[str, Any]) -> Stack:
    found = [SimpleNamespace(ns=1, node="leaf1", kind="route", interface="", data=each) for each in events]
    recording: Recording = SimpleNamespace(events=lambda **_: found)  # type: ignore[assignment]
    return stacks({"leaf1": STATE}, recording, 2)["leaf1"]


def gone(table: int) -> dict[str, Any]:
    return {"prefix": "10.0.0.0/31", "protocol": "kernel", "table": table, "gone": True}


def test_a_port_of_a_vrf_has_a_mac_and_networks() -> None:
    found = stack()
    assert found.macs == {"red": "", "swp1": "02::1", "swp3": "02::3"}
    assert {name: {*networks} for name, networks in found.networks.items() if networks} == {
        "swp1": {"10.0.0.0/31"}, "swp3": {"10.0.0.0/31"},
    }  # fmt: skip


def test_a_network_that_goes_away_is_that_of_its_table() -> None:
    """The main table may have the same network as a VRF."""
    assert not stack(gone(VRF)).networks["swp3"]
    assert stack(gone(VRF)).networks["swp1"] == {"10.0.0.0/31"}
    assert stack(gone(254)).networks["swp3"] == {"10.0.0.0/31"}
    assert not stack(gone(254)).networks["swp1"]


def test_a_port_of_a_vrf_without_an_address_is_found() -> None:
    made = made_addresses.stacks({})
    bare = stack(gone(VRF))
    leaf, _, port = PEERS["h1:eth1"].partition(":")
    made[leaf] = replace(
        made[leaf],
        macs={name: mac for name, mac in made[leaf].macs.items() if name != port or "swp3" in bare.macs},
        networks={**made[leaf].networks, port: bare.networks["swp3"]},
    )
    (found, *_) = diagnose(made_facts.facts({}, stacks=made)).causes
    assert (found.cause, found.places) == ("wrong-address", (PEERS["h1:eth1"],))
