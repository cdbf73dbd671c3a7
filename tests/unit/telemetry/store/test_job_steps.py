"""Steps of training jobs in a recording: written by a command, read as a row table, and damaged ones refused."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.backends import recorders
from lab.cli.kit import recorded_command
from lab.errors import InvalidInput
from lab.telemetry.read.recording import Recording
from lab.telemetry.store.job_steps import SCHEMA
from tests.unit.model.qos.fabrics import fabric
from tests.unit.telemetry.made import START, STEP, Made

if TYPE_CHECKING:
    from pathlib import Path

MS: Final = 10**6


def step(rank: int, number: int, **changed: Any) -> dict[str, Any]:
    """A step that ends at a time of its own, as ``rocelab job train`` writes it."""
    ns = START + number * STEP + rank
    return {
        "ns": ns, "job": "small", "began": START, "rank": rank, "node": f"h{rank + 1}", "interface": "eth1",
        "step": number,
        "begin": ns - 30 * MS, "compute": 20 * MS, "communication": 10 * MS, "waiting": rank * MS, "late": -rank * MS,
    } | changed  # fmt: skip


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A recording with two ranks, whose steps the command writes rank by rank."""
    recording = Made(tmp_path / "run", fabric("pfc-ecn"), hosts=("h1", "h2"))
    recording.sample()
    monkeypatch.setattr(recorders, "folders", lambda _: [recording.folder.path])
    state: Any = SimpleNamespace(job_steps=tmp_path / "last_job.jsonl")
    recorded_command.stepped(state, [step(rank, number) for rank in (0, 1) for number in (1, 2)])
    recording.sample()
    return recording


@pytest.mark.parametrize("ended", ["finished", "killed"])
def test_each_rank_is_a_series_of_steps(made: Made, ended: str) -> None:
    recording = Recording.open(made.finished() if ended == "finished" else made.killed())
    assert recording.grown == (SCHEMA.table,)
    (_, first), (key, second) = recording.table(SCHEMA.table)
    assert key == ("small", START, 1)
    assert second.ns.tolist() == [START + number * STEP + 1 for number in (1, 2)]
    assert second.column("step").tolist() == [1, 2]
    assert second.column("late").tolist() == [-MS, -MS]
    assert first.column("node").tolist() == ["h1", "h1"]
    rows = recording.table(SCHEMA.table).rows
    assert rows.dicts() == [
        {key: value for key, value in step(rank, number).items() if key != "ns"}
        for number in (1, 2)
        for rank in (0, 1)
    ]


def test_a_recording_without_jobs_has_no_such_table(tmp_path: Path) -> None:
    recording = Made(tmp_path / "run", fabric("pfc-ecn"), hosts=("h1", "h2"))
    recording.sample()
    assert Recording.open(recording.finished()).grown == ()


@pytest.mark.parametrize(
    "line",
    [b"[]\n", b"{}\n", b'{"ns": "x"}\n', b'{"ns": 1e999}\n', b'{"ns": 1}\n', b"7\n", b'{"ns": 1, "job": 5}\n{}\n'],
)
def test_lines_that_no_command_writes_are_one_clear_line(made: Made, line: bytes) -> None:
    made.folder.job_steps.write_bytes(line)
    with pytest.raises(InvalidInput, match=r"job_steps\.jsonl"):
        _ = Recording.open(made.killed()).grown


@pytest.mark.parametrize(
    "changed",
    [
        {"rank": 1.5}, {"rank": True}, {"rank": "1"}, {"rank": -1}, {"rank": 2**32}, {"rank": None}, {"compute": -1},
        {"compute": -1.0}, {"begin": 2**63}, {"late": float("nan")}, {"job": 5}, {"node": None}, {"interface": ["e"]},
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_not_read_as_one_of_its_own(made: Made, changed: dict[str, Any]) -> None:
    made.folder.job_steps.write_text(json.dumps(step(0, 1) | changed) + "\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"job_steps\.jsonl"):
        _ = Recording.open(made.killed()).grown


def test_a_cut_line_costs_the_steps_and_not_the_recording(made: Made) -> None:
    """A command that found the disk full has cut it, and the next one has written behind it."""
    before = made.folder.job_steps.read_bytes()
    made.folder.job_steps.write_bytes(before[:30] + before)
    recording = Recording.open(made.finished())
    assert not recording.incomplete
    assert recording.grown == ()
    assert recording.why == "it has no steps of training jobs: job_steps.jsonl: line 1 is damaged"
