"""Neighbours of OSPF and IS-IS as FRR reports them; an interface that FRR does not list has none."""

from pathlib import Path
from typing import Any

import pytest

from lab.kernel.process.netns import Namespace
from lab.model.load import load_topology
from lab.routing.daemons import Router
from lab.routing.wait import adjacency
from lab.routing.wait.adjacency import Neighbour, neighbours, parse_isis, parse_ospf, parse_ospf6

LEAF1 = Router("leaf1", Namespace("rl-two.leaf1"), Path("/nowhere"))
TWO: dict[str, Any] = {
    "neighbors": {
        "10.254.0.1": [
            {"nbrState": "Full/-", "nbrPriority": 1, "upTimeInMsec": 11222, "ifaceName": "swp1:10.253.0.1"},
            {"nbrState": "ExStart/DR", "nbrPriority": 1, "upTimeInMsec": 5, "ifaceName": "swp3:10.253.0.1"},
        ]
    }
}
THREE: dict[str, Any] = {
    "neighbors": [{"neighborId": "10.254.0.1", "state": "Full", "duration": "01:02:03", "interfaceName": "swp1"}]
}

ISIS: dict[str, Any] = {
    "areas": [
        {
            "area": "fabric",
            "circuits": [
                {"circuit": 0},
                {"circuit": 0, "adj": "spine1", "interface": {"name": "swp1", "state": "Up", "last-ago": "1h2m3s"}},
                {"circuit": 0, "adj": "x", "interface": {"name": "swp3", "state": "Initializing", "last-ago": "7s"}},
            ],
        }
    ]
}


def test_adjacencies_of_isis_are_of_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_isis(ISIS) == {"swp1": ("Up", 3723.0), "swp3": ("Initializing", 7.0)}
    assert parse_isis({}) == {}
    monkeypatch.setattr(adjacency, "show", lambda *_: ISIS)
    text = """
name: two
routing: {underlay: isis}
nodes: {spine1: {role: spine}, spine2: {role: spine}, leaf1: {role: leaf}, h1: {role: host}}
links: [{ends: [leaf1, spine1]}, {ends: [leaf1, spine2]}, {ends: [leaf1, h1]}]
"""
    found = neighbours(LEAF1, load_topology(text))
    assert found == [
        Neighbour("swp1", "spine1:swp1", "IS-IS", "Up", 3723.0),
        Neighbour("swp2", "spine2:swp1", "IS-IS", "Down", 0.0),
    ]
    assert [each.full for each in found] == [True, False]


def test_states_are_those_of_the_standard_by_interface() -> None:
    assert parse_ospf(TWO) == {"swp1": ("Full", 11.222), "swp3": ("ExStart", 0.005)}
    assert parse_ospf6(THREE) == {"swp1": ("Full", 3723.0)}
    old = {"neighbors": [{**THREE["neighbors"][0], "duration": "1d02h03m"}]}
    assert parse_ospf6(old) == {"swp1": ("Full", 86400.0)}
    assert parse_ospf({"neighbors": {}}) == parse_ospf6({}) == {}


def test_a_link_without_a_neighbour_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adjacency, "show", lambda _, daemon, __: TWO if daemon == "ospfd" else THREE)
    text = """
name: two
routing: {underlay: ospf}
nodes: {spine1: {role: spine}, spine2: {role: spine}, leaf1: {role: leaf}, h1: {role: host}}
links: [{ends: [leaf1, spine1]}, {ends: [leaf1, spine2]}, {ends: [leaf1, h1]}]
"""
    assert neighbours(LEAF1, load_topology(text)) == [
        Neighbour("swp1", "spine1:swp1", "OSPFv2", "Full", 11.222),
        Neighbour("swp1", "spine1:swp1", "OSPFv3", "Full", 3723.0),
        Neighbour("swp2", "spine2:swp1", "OSPFv2", "Down", 0.0),
        Neighbour("swp2", "spine2:swp1", "OSPFv3", "Down", 0.0),
    ]
    assert [each.full for each in neighbours(LEAF1, load_topology(text))] == [True, True, False, False]
