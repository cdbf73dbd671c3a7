"""Who paused whom first, from XOFFs whose senders and times are known."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from lab.analysis.results.fact_builder import analyse
from lab.kernel.process.process import find_tool, run
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng

if TYPE_CHECKING:
    from pathlib import Path

    from lab.analysis.results.analysis_facts import AnalysisFacts, FirstPause

MS, START = 1_000_000, 10**18
LINKS = (("h1:eth1", "leaf1:swp3"), ("leaf1:swp1", "spine1:swp1"), ("spine1:swp2", "leaf2:swp1"))
"""The end that was captured, and its peer: h1 sends by leaf1 and spine1 to leaf2."""
IN, OUT = Direction.INBOUND, Direction.OUTBOUND


def capture(*events: tuple[int, int, int, dict[int, int]], named: bool = True) -> bytes:
    """Pause frames: when (ms), at which link, which way, and quanta by class; XON at 100 ms to all."""
    frames = [(*event[:3], packets.pause(event[3])) for event in events]
    frames += [(100, link, way, packets.pause(dict.fromkeys(quanta, 0))) for _, link, way, quanta in events]
    taken = [
        Record(START + time * MS, link, 60, way, frame)
        for time, link, way, frame in sorted(frames, key=lambda f: f[0])
    ]
    return pcapng(taken, *(Interface(end, speed=10**9, peer=peer if named else "") for end, peer in LINKS))


def told(data: bytes) -> AnalysisFacts:
    return analyse(io.BytesIO(data), "story")


def lines(pauses: tuple[FirstPause, ...], depth: int = 0) -> list[str]:
    found = []
    for pause in pauses:
        found += ["  " * depth + f"{pause.end} > {pause.peer} {pause.since * 1e3:g}", *lines(pause.behind, depth + 1)]
    return found


SPREAD = ((0, 2, IN, {3: 9}), (10, 1, IN, {3: 9}), (30, 0, IN, {3: 9}))
"""leaf2 stops spine1, that stops leaf1, that stops h1."""


def test_a_pause_spreads_from_the_node_that_was_first() -> None:
    (tree,) = told(capture(*SPREAD)).pause_trees
    assert (tree.priority, tree.node, tree.since) == (3, "leaf2", 0)
    assert lines(tree.pauses) == [
        "leaf2:swp1 > spine1:swp2 0",
        "  spine1:swp1 > leaf1:swp1 10",
        "    leaf1:swp3 > h1:eth1 30",
    ]
    (first,) = tree.pauses
    assert first.xoffs == 1
    assert first.share == pytest.approx(9 * 512e-9 / 0.1), "quanta of 512 bits at 1 Gb/s, in 100 ms"


def test_without_names_of_peers_each_pause_stands_alone_or_behind_one_that_is_named() -> None:
    """leaf1's own interfaces tell that it was stopped before it stopped h1; who stopped it is known by the link."""
    data = capture((10, 1, IN, {3: 9}), (30, 1, OUT, {3: 9}), named=False)
    (tree,) = told(data).pause_trees
    assert lines(tree.pauses) == ["peer of leaf1:swp1 > leaf1:swp1 0", "  leaf1:swp1 > peer of leaf1:swp1 20"]


def test_a_node_that_paused_before_it_was_stopped_is_a_root() -> None:
    """The other way round in time: leaf1 had no reason from spine1."""
    facts = told(capture((0, 0, IN, {3: 9}), (10, 1, IN, {3: 9})))
    assert [(tree.node, lines(tree.pauses)) for tree in facts.pause_trees] == [
        ("leaf1", ["leaf1:swp3 > h1:eth1 0"]),
        ("spine1", ["spine1:swp1 > leaf1:swp1 10"]),
    ]


def test_priorities_are_apart() -> None:
    facts = told(capture((0, 1, IN, {3: 9}), (10, 0, IN, {4: 9})))
    assert [(tree.priority, tree.node) for tree in facts.pause_trees] == [(3, "spine1"), (4, "leaf1")]


def test_a_circle_has_a_beginning() -> None:
    """Each pauses the next, and the last one the first: told once each."""
    facts = told(capture((0, 1, IN, {3: 9}), (5, 1, OUT, {3: 9})))
    (tree,) = facts.pause_trees
    assert lines(tree.pauses) == ["spine1:swp1 > leaf1:swp1 0", "  leaf1:swp1 > spine1:swp1 5"]


def test_no_file_makes_a_tree_too_deep_to_draw() -> None:
    """1500 nodes, each stopped by the one before it."""
    frame = packets.pause({3: 9})
    taken = [Record(START + at, at, 60, IN, frame) for at in range(1500)]
    links = [Interface(f"n{at}:a", peer=f"n{at - 1}:b") for at in range(1, 1501)]
    trees = told(pcapng(taken, *links)).pause_trees
    assert len(trees) == -(-1500 // 32)
    assert max(len(lines(tree.pauses)) for tree in trees) == 32


def test_no_xoff_no_tree() -> None:
    assert not told(capture((0, 1, IN, {3: 0}))).pause_trees


def test_the_other_end_is_the_interfaces_description_in_wireshark(tmp_path: Path) -> None:
    file = tmp_path / "a.pcapng"
    file.write_bytes(capture(*SPREAD))
    tshark = find_tool("tshark", "tshark")
    done = run([tshark, "-n", "-r", file, "-Tfields", "-eframe.interface_name", "-eframe.interface_description"])
    assert set(done.stdout.splitlines()) == {f"{end}\tto {peer}" for end, peer in LINKS}
