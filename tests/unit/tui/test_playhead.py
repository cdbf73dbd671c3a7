"""Where a replay is: a moment between two ends, which moves, turns, jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.telemetry.read.recording import Recording
from lab.tui.playhead import FASTEST, SLOWEST, Playhead, marks_of
from tests.unit.telemetry.made import START
from tests.unit.telemetry.played import played

if TYPE_CHECKING:
    from pathlib import Path

S = 10**9


def test_it_moves_at_its_speed_either_way_and_stands_still_at_the_ends() -> None:
    head = Playhead(0, 10 * S, 0, speed=4.0)
    head.advance(0.5)
    assert head.at == 2 * S
    head.backwards = True
    head.advance(0.25)
    assert (head.at, head.playing) == (S, True)
    head.advance(9)
    assert (head.at, head.playing) == (0, False)
    head.advance(1)
    assert head.at == 0
    head.backwards = False
    head.toggle()
    head.advance(9)
    assert (head.at, head.playing) == (10 * S, False)
    head.toggle()
    assert (head.at, head.playing) == (0, True)


def test_it_jumps_to_what_is_next_and_stays_where_nothing_is() -> None:
    head = Playhead(0, 10 * S, 3 * S)
    moments = [S, 3 * S, 5 * S]
    for by, at in ((1, 5), (1, 5), (-1, 3), (-1, 1), (-1, 1), (1, 3)):
        head.jump(moments, by)
        assert (head.at, head.playing) == (at * S, False)
    head.put(11 * S)
    assert head.at == 10 * S


@pytest.mark.parametrize(("factor", "speed"), [(2, FASTEST), (0.5, SLOWEST)])
def test_its_speed_has_two_ends(factor: float, speed: float) -> None:
    head = Playhead(0, S, 0)
    for _ in range(9):
        head.faster(factor)
    assert head.speed == speed


def test_marks_are_phases_commands_and_what_is_not_one_of_many(tmp_path: Path) -> None:
    made = played(tmp_path / "run")
    for number in range(5):
        made.event(START + 3 * S + number, source="port", kind="paused", node="leaf1", interface="swp3", number=3)
    made.event(START + 5 * S, source="port", kind="paused", node="leaf1", interface="swp3", number=3)
    made.event(START + 5 * S, source="kernel", kind="neighbour", node="leaf1", interface="swp3", state="reachable")
    made.folder.truth.parent.mkdir()
    made.folder.truth.write_text(f'{{"ns": {START + S}, "kind": "pause-storm", "place": "h1"}}\n')
    marks = marks_of(Recording.open(made.finished()))
    assert [(round((mark.ns - START) / S, 2), mark.text) for mark in marks] == [
        (0.0, "phase baseline"),
        (2.05, "phase inject"),
        (2.1, "h1$ ping h2"),
        (2.1, "leaf1:swp1 bgp state Idle, before Established"),
        (3.0, "leaf1:swp3 paused number 3"),
        (4.1, "phase fix"),
        (4.1, "h1:eth1 qp qpn 17, state ERR, before RTS, type RC, remote 18, pid 9, program ib_write_bw"),
        (5.0, "leaf1:swp3 paused number 3"),
    ]
