"""Every command that reads a recording, run on one: in this process, and the viewer without a terminal."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from textual.widgets import Static
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.schemas import adapter
from lab.telemetry.read.recording import Recording
from lab.telemetry.read.timeline_frames import RecordedFilm
from lab.tui.replay_app import Replay

if TYPE_CHECKING:
    from pathlib import Path

_ANSWERS = {0, 1, 3}
"""Exit codes of a command that did its work: pass, fail, unknown."""


def invoked(*words: str | Path) -> str:
    """The output of a command, which must neither fail nor print control sequences of a terminal."""
    said = CliRunner().invoke(app, list(map(str, words)))
    assert said.exit_code in _ANSWERS, (words, said.output, said.exception)
    assert said.exception is None or isinstance(said.exception, SystemExit), (words, said.exception)
    assert "\x1b" not in said.stdout
    return said.stdout


def replayed(path: Path, events: int = 12) -> str:
    """Replay it, event by event and back, through all tables; the last lines below them."""
    told = ""

    async def work() -> None:
        nonlocal told
        replay = Replay(RecordedFilm(Recording.open(path)))
        async with replay.run_test(size=(140, 40)) as pilot:
            await pilot.press(*["n"] * events, "2", "3", "4", "p", "right_square_bracket")
            told = str(replay.query_one("#told", Static).render())
            assert "\x1b" not in told
            replay.head.put(replay.head.end)
            await pilot.press("full_stop")

    asyncio.run(work())
    return told


def looked_through(path: Path) -> str:
    """The text that its replay writes around the tables, without a screen: drawing takes minutes in a guest."""
    replay = Replay(RecordedFilm(Recording.open(path)))
    told = []
    for at in replay.moments:
        replay.at = at
        told += [replay.headline(), replay.told()]
    return "\n".join(told)


def read_by_all(path: Path, output: Path, *, screen: bool = True) -> None:
    """Show, replay, report, diagnose and judge it; judging is for those that a scenario has made."""
    assert replayed(path) if screen else looked_through(path)
    invoked("record", "show", path)
    if screen:
        invoked("replay", path, "--once")
        invoked("diagnose", path)
        assert not json.loads(invoked("compare", path, path, "--json"))["changed"]
    adapter("replay").validate_json(invoked("replay", path, "--at", "1", "--json"))
    adapter("diagnose").validate_json(invoked("diagnose", path, "--json"))
    (report,) = json.loads(invoked("report", path, "-o", output, "--json"))["reports"]
    assert "\x1b" not in (output / f"{path.name}.md").read_text(encoding="utf-8")
    assert (output / f"{path.name}.html").stat().st_size > 10_000
    if report["scenario"]:
        adapter("scenario judge").validate_json(invoked("scenario", "judge", path, "--json"))
