"""Two networks with one subnet are two, as long as the VLANs of leaves' ports are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.diagnose.networks import share_a_network
from lab.diagnose.symptoms.overlay_symptoms import hosts_have_one_mac

from .made_overlay import facts

if TYPE_CHECKING:
    from .made_overlay import Nodes


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
