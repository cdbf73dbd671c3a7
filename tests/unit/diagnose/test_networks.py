"""Two networks with one subnet are two, by the VLANs of leaves' ports or the tables of their VRFs.

Ports of a VRF have addresses and MACs as those of the main table; members of a bridge have none.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.ip_stacks import Stack, stacks
from lab.diagnose.networks import share_a_network
from lab.diagnose.symptoms.overlay_symptoms import hosts_have_one_mac
from tests.unit.diagnose import made_addresses, made_facts
from tests.unit.diagnose.made_facts import PEERS

from .made_overlay import facts

if TYPE_CHECKING:
    from lab.telemetry.read.recording import Recording

    from .made_overlay import Nodes


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


def _one_subnet(said: Nodes) -> None:
    """h3, of the other network, has an address of the first one's subnet, and the MAC of h1."""
    said["h3"]["interfaces"][1].update(addresses=["10.1.10.4/24"], mac="02:1a:00:06:00:01")


def _ports_have_vlans(said: Nodes) -> None:
    _one_subnet(said)
    for leaf, vlan in (("leaf1", 10), ("leaf2", 10), ("leaf3", 20)):
        next(each for each in said[leaf]["interfaces"] if each["name"] == "swp3")["vlans"] = [vlan]


@pytest.mark.parametrize(("other", "shared"), [("h2", True), ("h3", False), ("h1", False)])
def test_hosts_are_in_the_network_of_their_leafs_port(other: str, shared: bool) -> None:
    made = facts(_ports_have_vlans)
    assert share_a_network(made, made.ports["h1:eth1"], made.ports[f"{other}:eth1"]) is shared


def _a_tunnel_is_lost(said: Nodes) -> None:
    _ports_have_vlans(said)
    said["leaf2"]["interfaces"] = [each for each in said["leaf2"]["interfaces"] if each.get("vlan") != 10]


def test_of_a_leaf_that_has_lost_its_tunnel_subnets_tell() -> None:
    made = facts(_a_tunnel_is_lost)
    assert share_a_network(made, made.ports["h1:eth1"], made.ports["h2:eth1"])


def test_a_mac_that_two_networks_have_is_no_duplicate() -> None:
    """In a recording without VLANs of ports it is taken for one, by the subnet."""
    assert list(hosts_have_one_mac(facts(_ports_have_vlans))) == []
    assert {sign.place for sign in hosts_have_one_mac(facts(_one_subnet))} == {"h1:eth1", "h3:eth1"}


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


def test_default_routes_of_other_tables_come_and_go() -> None:
    def default(table: int, **more: Any) -> dict[str, Any]:
        return {"prefix": "0.0.0.0/0", "protocol": "boot", "table": table, "interfaces": ["swp1"], **more}

    assert stack(default(50)).defaults_elsewhere == {"swp1"}
    assert stack(default(254)).defaults_elsewhere == set()
    assert stack(default(50), default(50, gone=True)).defaults_elsewhere == set()
