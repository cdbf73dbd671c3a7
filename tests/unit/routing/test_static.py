"""The user's own lines for FRR: where they go, and how what vtysh says of them is told."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from lab.errors import InvalidInput
from lab.kernel.process import process
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology
from lab.routing.frr_config import user_lines
from lab.routing.frr_config.render import own_lines, render_router

if TYPE_CHECKING:
    from lab.model.topology import Topology

TEXT = """
name: own
generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}
frr:
  leaf1: |
    ! a comment
    ip route 10.9.0.0/24 blackhole

    router bgp 4200100001
      nonsense here
"""


@pytest.fixture
def own() -> Topology:
    return load_topology(TEXT)


def test_lines_come_last_and_static_routes_have_their_daemon(own: Topology) -> None:
    plan = plan_addresses(own)
    with_lines, without = (render_router(own, plan, name) for name in ("leaf1", "leaf2"))
    assert with_lines.own == ("ip route 10.9.0.0/24 blackhole", "router bgp 4200100001", "nonsense here")
    assert list(with_lines.files) == ["zebra", "bgpd", "bfdd", "staticd"]
    assert (without.own, "staticd" in without.files) == ((), False)


def test_lines_are_numbered_as_they_are_written(own: Topology) -> None:
    assert [number for number, _ in own_lines(own, "leaf1")] == [2, 4, 5]
    assert own_lines(own, "leaf2") == []


def vtysh(monkeypatch: pytest.MonkeyPatch, code: int, said: str) -> None:
    done = subprocess.CompletedProcess([], code, "", said)
    monkeypatch.setattr(process, "find_tool", lambda *_: "vtysh")
    monkeypatch.setattr(process, "run", lambda *_, **__: done)


def test_what_vtysh_refuses_is_told_with_node_and_line(own: Topology, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words of FRR 8.4.4, to the file without comments."""
    vtysh(monkeypatch, 2, "line 1: % Ambiguous command[4]: ip\nline 3: % Unknown command[25]:   nonsense here\n")
    with pytest.raises(InvalidInput) as refused:
        user_lines.check(own, "own.yaml")
    assert str(refused.value).splitlines() == [
        "own.yaml: frr.leaf1: line 2, 'ip route 10.9.0.0/24 blackhole': ambiguous command; try it in rocelab vtysh",
        "own.yaml: frr.leaf1: line 5, 'nonsense here': unknown command; try it in rocelab vtysh",
    ]


def test_what_vtysh_says_otherwise_is_told_as_it_is(own: Topology, monkeypatch: pytest.MonkeyPatch) -> None:
    vtysh(monkeypatch, 1, "it is\nbroken")
    with pytest.raises(InvalidInput, match=r"own: frr\.leaf1: vtysh does not take it: it is broken"):
        user_lines.check(own)
    vtysh(monkeypatch, 0, "")
    user_lines.check(own)


def test_lines_are_of_switches() -> None:
    wrong = TEXT.replace("  leaf1: |", "  h1: 'x'\n  leaf9: 'x'\n  leaf1: |")
    with pytest.raises(InvalidInput) as refused:
        load_topology(wrong)
    assert [(each.path, each.message, each.line) for each in refused.value.problems] == [
        ("frr.h1", "h1 is a host and runs no router", 5),
        ("frr.leaf9", "there is no node leaf9", 6),
    ]


def test_lines_are_ascii() -> None:
    with pytest.raises(InvalidInput, match=r"frr\.leaf1"):
        load_topology(TEXT.replace("nonsense", "\\x07é"))
