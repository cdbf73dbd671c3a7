"""Damaged recordings: each command that reads one ends with its result, or with an error of one line."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Final

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.errors import ExitCode, UsageError
from tests.fuzz.damaged_recordings import damage, whole

if TYPE_CHECKING:
    from pathlib import Path

READERS: Final = (
    "replay BAD --at 0.5 --json", "replay BAD --once", "record show BAD", "record ls -o RUNS", "diagnose BAD",
    "report BAD -o OUT", "report --index RUNS -o OUT", "compare BAD GOOD", "compare GOOD BAD --json", "drift BAD",
    "baseline learn BAD GOOD -o OUT/b.json", "job explain BAD", "scenario judge BAD", "alerts BAD --export OUT",
)  # fmt: skip
CASES: Final = 60
ENDS: Final = (ExitCode.PASS, ExitCode.FAIL, ExitCode.UNKNOWN)
"""Exit codes of a command that could read what it needs."""


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A complete recording and one whose recorder was killed."""
    folder = tmp_path_factory.mktemp("seeds")
    return {"complete": whole(folder / "complete").finished(), "killed": whole(folder / "killed").killed()}


@pytest.mark.parametrize("part", range(3))
def test_a_damaged_recording_is_read_or_refused_in_a_line(seeds: dict[str, Path], tmp_path: Path, part: int) -> None:
    for seed in range(part, CASES, 3):
        rng = random.Random(seed)
        case = tmp_path / str(seed)
        bad = case / "runs" / "bad"
        shutil.copytree(seeds[rng.choice(sorted(seeds))], bad)
        (case / "out").mkdir()
        how = damage(bad, rng)
        places = {"BAD": bad, "GOOD": seeds["complete"], "RUNS": case / "runs", "OUT": case / "out"}
        words = rng.choice(READERS).split()
        argv = [str(places[word]) if word in places else word.replace("OUT", str(case / "out")) for word in words]
        said = CliRunner().invoke(app, argv)
        where = f"{how}: rocelab {' '.join(words)}: {said.exception!r}"
        if isinstance(said.exception, UsageError):
            assert str(said.exception).count("\n") == len(getattr(said.exception, "problems", "-")) - 1, where
        else:
            assert said.exception is None or isinstance(said.exception, SystemExit), where
            assert said.exit_code in ENDS, where
        assert "\x1b[2J" not in said.output, where
