"""What bridges say of a spanning tree, put together: which links carry, and what is no tree.

Judge: the tree that IEEE 802.1D-1998 section 8.2 gives two spines and three leaves whose links cost the same.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from lab.errors import NotConverged
from lab.kernel.netlink.bridges import BridgePort, TreeState
from lab.model.load import read_topology
from lab.routing import spanning_tree
from lab.routing.spanning_tree import SpanningTree, await_tree

if TYPE_CHECKING:
    from lab.kernel.netlink.bridges import Role, State

TOPOLOGY: Final = read_topology(Path(__file__).parents[3] / "topologies" / "vlans.yaml")
ROOT: Final = "1000.02:1a:00:01:00:00"
BLOCKED: Final = ("spine2:swp2", "spine2:swp3")


def bridge(name: str, **states: State) -> TreeState:
    """A switch whose ports forward but where the tree has a blocked one, and where ``states`` say otherwise."""
    ports = []
    for link in TOPOLOGY.links_of(name):
        end = link.end_at(name)
        role: Role = "alternate" if str(end) in BLOCKED else "designated"
        state = states.get(end.interface, "blocking" if role == "alternate" else "forwarding")
        ports.append(BridgePort(end.interface, state, role, 19, ROOT))
    own = ROOT if name == "spine1" else f"8000.02:1a:00:0{list(TOPOLOGY.by_name).index(name) + 1}:00:00"
    return TreeState(own, ROOT, 0, tuple(ports))


def tree(**other: TreeState | None) -> SpanningTree:
    return SpanningTree(TOPOLOGY, {each.name: bridge(each.name) for each in TOPOLOGY.switches} | other)


def test_a_tree_has_one_link_less_than_switches_and_leaves_the_others_blocked() -> None:
    found = tree()
    assert found.gaps == ()
    assert found.root == "spine1"
    assert [str(link) for link in found.blocked] == ["leaf2:swp2--spine2:swp2", "leaf3:swp2--spine2:swp3"]
    assert len(found.carrying) == len(TOPOLOGY.switches) - 1
    assert len(found.links) == 6


@pytest.mark.parametrize("state", ["listening", "learning", "disabled"])
def test_a_port_on_its_way_is_no_tree_yet(state: State) -> None:
    assert "leaf1:swp3 is " + state in tree(leaf1=bridge("leaf1", swp3=state)).gaps


def test_a_loop_is_told() -> None:
    found = tree(spine2=bridge("spine2", swp2="forwarding"))
    assert found.gaps == ("5 links carry: more than a tree of 5 switches has",)


def test_a_switch_that_is_cut_off_is_told() -> None:
    found = tree(leaf3=bridge("leaf3", swp1="blocking"))
    assert found.gaps == ("leaf3 is not in the tree",)


def test_two_roots_are_told_and_none_is_the_root() -> None:
    other = replace(bridge("leaf3"), root="8000.02:1a:00:05:00:00")
    found = tree(leaf3=other)
    assert found.gaps == (f"spine1 has {ROOT} and leaf3 has {other.root} for the root",)
    assert found.root == ""


def test_a_switch_without_a_bridge_is_told() -> None:
    assert tree(spine2=None).gaps[0] == "spine2 has no bridge in a spanning tree"


def test_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [tree(leaf1=bridge("leaf1", swp3="listening")), tree(leaf1=bridge("leaf1", swp3="learning")), tree()]
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(spanning_tree, "read_tree", lambda *_: said.pop(0))
    monkeypatch.setattr(spanning_tree, "_POLL", 0)
    await_tree(TOPOLOGY, lambda _: pytest.fail("nobody is asked"), 60, lambda *done: told.append(done))
    assert told == [(4, 5), (4, 5), (5, 5)]
    assert said == []


def test_what_never_comes_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spanning_tree, "read_tree", lambda *_: tree(leaf1=bridge("leaf1", swp3="listening")))
    with pytest.raises(NotConverged, match="no spanning tree after 0 s: leaf1:swp3 is listening"):
        await_tree(TOPOLOGY, lambda _: pytest.fail("nobody is asked"), 0, lambda *_: None)
