"""The tables as a user has them: keys are pressed by Textual's pilot, figures are judged by DuckDB."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from textual.coordinate import Coordinate
from textual.widgets import Static

from lab.telemetry.read.recording import Recording
from lab.telemetry.read.timeline_frames import LiveFilm, RecordedFilm
from lab.tui.history import History, bars
from lab.tui.replay_app import Replay
from lab.tui.table import Lines
from lab.tui.top_app import Top
from lab.units import format_rate
from tests.unit.telemetry.jobs.made_requests import FIRST, request_run, requests
from tests.unit.telemetry.made import START, STEP
from tests.unit.telemetry.played import OTHER, PORT, SAMPLES, played

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from textual.app import App
    from textual.pilot import Pilot

WIDE = (140, 40)
INJECT = START + (SAMPLES + 1) * STEP
FIX = INJECT + (SAMPLES + 1) * STEP
_SENT = """
    SELECT sum(now.tx_prio_bytes), sum(old.tx_prio_bytes), any_value(now.ns - old.ns) / 1e9
    FROM '{file}' now JOIN '{file}' old USING (node, interface, priority)
    WHERE node = '{node}' AND interface = '{interface}'
      AND now.ns = (SELECT max(ns) FROM '{file}' WHERE ns <= {at})
      AND old.ns = (SELECT max(ns) FROM '{file}' WHERE ns <= now.ns - 1000000000)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(tmp_path_factory.mktemp("played") / "run").finished()


def piloted(app: App[Any], work: Callable[[Pilot[Any]], Awaitable[None]]) -> None:
    async def run() -> None:
        async with app.run_test(size=WIDE) as pilot:
            await pilot.pause()
            await work(pilot)

    asyncio.run(run())


def replayed(path: Path, work: Callable[[Replay, Pilot[Any]], Awaitable[None]], at: float = 0.0) -> None:
    app = Replay(RecordedFilm(Recording.open(path)), at=at)
    app.head.playing = False
    piloted(app, lambda pilot: work(app, pilot))


def lines(app: App[Any], name: str = "ports") -> Lines:
    return app.screen.query_one(f"#{name}-lines", Lines)


def drawn(table: Lines, row: int) -> list[str]:
    """What stands in a row of the widget itself."""
    return [str(table.get_cell_at(Coordinate(row, column))) for column in range(len(table.titles))]


def of(app: App[Any], port: str) -> list[str]:
    table = lines(app)
    return next(line for row in range(table.row_count) if (line := drawn(table, row))[0] == port)


def sent(path: Path, port: str, at: int) -> str:
    """What DuckDB makes of what a port sent in the second until then, as a table has it."""
    node, _, interface = port.partition(":")
    ((now, before, seconds),) = duckdb.sql(
        _SENT.format(file=path / "counters" / "priorities.parquet", node=node, interface=interface, at=at)
    ).fetchall()
    return format_rate(round(int(now - before) * 8 / seconds)) if now != before else "·"


def test_ports_are_sorted_by_any_column_either_way(path: Path) -> None:
    async def work(app: Replay, pilot: Pilot[Any]) -> None:
        table = lines(app)
        assert [line[0] for line in table.lines[:2]] == [PORT, OTHER]
        assert drawn(table, 0)[1] == sent(path, PORT, app.at)
        await pilot.press("right", "s")
        assert (table.sort_by, table.descending, table.lines[-1][0]) == (1, False, PORT)
        await pilot.press("s")
        assert (table.descending, table.lines[0][0]) == (True, PORT)
        await pilot.press(*["right"] * 5, "s")
        assert (table.titles[6], table.lines[0][0]) == ("XOFF tx/s", OTHER)
        await pilot.press(*["left"] * 6, "s")
        names = [line[0] for line in table.lines]
        assert names.index("h2:eth1") < names.index("leaf1:swp1") < names.index("leaf2:swp1")
        await pilot.press("s")
        assert [line[0] for line in table.lines] == names[::-1]

    replayed(path, work, at=3.5)


def test_the_cursor_stays_on_its_port_when_that_moves(path: Path) -> None:
    async def work(app: Replay, pilot: Pilot[Any]) -> None:
        await pilot.press("down")
        assert lines(app).chosen == OTHER
        await pilot.press("right", *["right"] * 6, "s")
        assert (lines(app).chosen, lines(app).cursor_column) == (OTHER, 7)
        app.head.put(INJECT)
        await pilot.press("full_stop")
        assert lines(app).chosen == OTHER

    replayed(path, work, at=3.5)


def test_requests_of_transfers_have_a_table_of_their_own(tmp_path: Path) -> None:
    async def work(app: Replay, pilot: Pilot[Any]) -> None:
        await pilot.press("6")
        assert [line[:5] for line in lines(app, "transfers").lines] == [
            ("write h1", "h1:eth1", "h6:eth1", "1", "1"), ("write h2", "h2:eth1", "h6:eth1", "0", "1")
        ]  # fmt: skip

    replayed(request_run(tmp_path / "run", requests([50, 60])).finished(), work, at=(FIRST + 52) / 1000)


def test_backwards_shows_what_forwards_showed_at_the_same_moment(path: Path) -> None:
    async def work(app: Replay, pilot: Pilot[Any]) -> None:
        forwards, backwards = {}, {}
        app.head.put(INJECT)
        for _ in range(6):
            await pilot.press("full_stop")
            forwards[app.at] = (of(app, PORT), of(app, OTHER))
        await pilot.press("full_stop")
        for _ in range(6):
            await pilot.press("comma")
            backwards[app.at] = (of(app, PORT), of(app, OTHER))
        assert backwards == forwards
        assert len({line[1] for line, _ in forwards.values()}) == 6
        for at, (line, other) in forwards.items():
            assert (line[1], other[1]) == (sent(path, PORT, at), sent(path, OTHER, at))

    replayed(path, work)


def test_it_plays_by_itself_either_way_and_pauses(path: Path) -> None:
    async def work(app: Replay, pilot: Pilot[Any]) -> None:
        await pilot.press("minus", "minus", "minus", "minus", "space")
        assert (app.head.playing, app.head.speed) == (True, 1 / 16)
        before = app.at
        while app.at <= before:
            await pilot.pause(0.05)
        await pilot.press("b")
        before = app.at
        while app.at >= before:
            await pilot.pause(0.05)
        await pilot.press("space", "plus")
        at = app.at
        await pilot.pause(0.3)
        assert (app.at, app.head.speed) == (at, 1 / 8)
        assert "‖ x0.125" in str(app.query_one("#line", Static).render())

    replayed(path, work, at=3.0)


def test_it_jumps_to_phases_and_to_what_happened(path: Path) -> None:
    async def work(app: Replay, pilot: Pilot[Any]) -> None:
        await pilot.press("right_square_bracket")
        assert app.at == INJECT
        assert "phase inject" in str(app.query_one("#line", Static).render())
        await pilot.press("right_square_bracket", "right_square_bracket")
        assert app.at == FIX
        await pilot.press("left_square_bracket", "n")
        assert app.at == INJECT + STEP
        told = str(app.query_one("#told", Static).render())
        assert "leaf1:swp1 bgp state Idle, before Established" in told
        assert "h1$ ping h2" in told
        await pilot.press("3")
        assert drawn(lines(app, "sessions"), 0)[1:3] == ["bgp", "Idle"]
        await pilot.press("4")
        assert [line[0] for line in lines(app, "qps").lines] == ["h1:eth1 17", "h1:eth1 19"]
        assert drawn(lines(app, "qps"), 0)[1:5] == ["RC", "RTS", "18", "ib_write_bw"]
        await pilot.press("3", "p", "p")
        assert app.at == START
        await pilot.press("n", "p", "full_stop")
        await pilot.pause()
        assert drawn(lines(app, "sessions"), 0)[2] == "Established"

    replayed(path, work)


def test_one_key_shows_a_ports_history_which_moves_with_the_time(path: Path) -> None:
    async def work(app: Replay, pilot: Pilot[Any]) -> None:
        await pilot.press("h")
        assert isinstance(app.screen, History)
        assert app.screen.of == PORT
        past = lines(app, "past")
        times = [ns for ns in app._film.times.tolist() if ns <= app.at][::-1]
        assert past.row_count == len(times)
        for row in (0, 3, 9):
            assert drawn(past, row)[:2] == [f"{(times[row] - START) / 1e9:.3f} s", sent(path, PORT, times[row])]
        await pilot.press("full_stop")
        assert drawn(past, 1)[1] == sent(path, PORT, times[0])
        assert drawn(past, 0)[1] == sent(path, PORT, app.at)
        assert app.screen.query_one("#curve-rx_bps").display != app.screen.query_one("#curve-tx_pauses").display
        await pilot.press("escape")
        assert len(app.screen_stack) == 1
        await pilot.press("h", "2")
        await pilot.pause()
        assert len(app.screen_stack) == 1
        assert drawn(lines(app, "devices"), 0)[0] == "h1:eth1"

    replayed(path, work, at=3.5)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_a_key_leaves(path: Path, key: str) -> None:
    async def work(app: Replay, pilot: Pilot[Any]) -> None:
        await pilot.press(key)
        assert app._exit

    replayed(path, work)


def test_what_runs_is_shown_as_it_comes_and_can_be_held_still(tmp_path: Path) -> None:
    made = played(tmp_path / "run")
    log = made.killed() / "log.raw"
    data = log.read_bytes()
    half = len(data) * 2 // 3
    source, theirs = os.pipe()
    film = LiveFilm()
    film.feed(data[:half])
    app = Top(film, source)

    async def work(pilot: Pilot[Any]) -> None:
        first = app.at
        assert of(app, PORT)[1] != "·"
        await pilot.press("space")
        os.write(theirs, data[half:])
        while film.end == first:
            await pilot.pause(0.05)
        await pilot.pause(0.6)
        assert app.at == first
        assert " s of virtual time  held still" in str(app.query_one("#line", Static).render())
        await pilot.press("space")
        while app.at == first:
            await pilot.pause(0.05)
        await pilot.press("h")
        assert [str(lines(app, "past").get_cell_at(Coordinate(row, 0))) for row in (0, 1)] == [
            f"{(ns - START) / 1e9:.3f} s" for ns in (film.end, first)
        ]
        assert not app.ended
        os.close(theirs)
        while not app.ended:
            await pilot.pause(0.05)

    piloted(app, work)
    os.close(source)
    recorded = RecordedFilm(Recording.open(log.parent))
    assert film.end == recorded.end


@pytest.mark.parametrize(
    ("values", "width", "drawn"),
    [
        ([0, 50, 100], 9, "▁▄█"),
        ([90, 95, 100], 9, "▇▇█"),  # a rate that hardly moves is nearly as high as at most
        ([5, 5], 9, "██"),
        ([0, 0], 9, "▁▁"),
        ([], 9, ""),
        ([1, 2, 3, 8], 2, "▂█"),
        ([-3, 4], 9, "▁█"),
        ([7], 0, ""),
    ],
)
def test_a_curve_begins_at_zero(values: list[float], width: int, drawn: str) -> None:
    assert bars(values, width) == drawn
