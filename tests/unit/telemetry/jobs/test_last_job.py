"""The last training job of a running fabric: in its state, in the live tables, and as metrics."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lab.backends import recorders
from lab.cli.kit import recorded_command
from lab.telemetry.metrics.job_metrics import JobMetrics
from lab.telemetry.read.timeline_frames import LiveFilm
from lab.telemetry.sample.finished_steps import INTERVAL, FinishedSteps
from lab.telemetry.store import job_steps
from lab.telemetry.store.rawlog import LogWriter
from tests.unit.telemetry.jobs.made_job import HOSTS, MS, steps

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a fabric that no recorder records."""
    monkeypatch.setattr(recorders, "folders", lambda _: [])
    return tmp_path / "job_steps.jsonl"


def run_job(file: Path, *transfers: int) -> None:
    """A job ends whose steps transfer for so many ms, and whose rank 2 is late."""
    state: Any = SimpleNamespace(job_steps=file)
    recorded_command.stepped(state, steps(transfers, {2: 40}))


def metrics(file: Path) -> dict[tuple[str, str], float]:
    """The values by family and host."""
    return {
        (samples.family.name, labels[0]): value
        for samples in JobMetrics(file).look()
        for labels, value in zip(samples.labels, samples.values, strict=True)
    }


def test_metrics_have_the_last_step_of_the_last_job(file: Path) -> None:
    assert metrics(file) == {}
    run_job(file, 60, 80)
    run_job(file, 60, 90)
    found = metrics(file)
    assert found["rocelab_job_step_seconds", "h1"] == pytest.approx(0.23)
    assert found["rocelab_job_step_communication_seconds", "h1"] == pytest.approx(0.13)
    assert found["rocelab_job_step_waiting_seconds", "h1"] == pytest.approx(0.04)
    assert found["rocelab_job_step_late_seconds", "h5"] == pytest.approx(0.04)
    assert {host for _, host in found} == set(HOSTS)


@pytest.mark.parametrize("text", ["[]\n", '{"ns": 1}\n', "\n"])
def test_a_damaged_file_is_no_job(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    assert metrics(file) == {}


def test_the_sampler_sends_each_job_once(file: Path) -> None:
    source = FinishedSteps(file, 0)
    assert list(source.look(0)) == []
    run_job(file, 60)
    assert list(source.look(INTERVAL - 1)) == []  # not due
    assert [row["rank"] for row in source.look(INTERVAL)] == [0, 1, 2, 3]
    assert list(source.look(2 * INTERVAL)) == []
    run_job(file, 60, 60)
    assert len(list(source.look(3 * INTERVAL))) == 8


def test_the_sampler_sends_each_step_once_while_a_job_runs(file: Path) -> None:
    source = FinishedSteps(file, 0)
    state: Any = SimpleNamespace(job_steps=file)
    rows = steps([60, 80, 70])
    for number in (1, 2, 3):
        recorded_command.stepped(state, [row for row in rows if row["step"] == number])
        assert [(row["step"], row["rank"]) for row in source.look(number * INTERVAL)] == [
            (number, rank) for rank in range(4)
        ]
    recorded_command.stepped(state, steps([60]))
    assert [row["step"] for row in source.look(4 * INTERVAL)] == [1] * 4, "the next job"


def test_the_sampler_sends_each_step_once_whatever_the_order_of_times(file: Path) -> None:
    """A rank ends its second step before another ends its first; then a job that began earlier adds a step."""
    source = FinishedSteps(file, 0)
    state: Any = SimpleNamespace(job_steps=file)
    rows = steps([60, 80])
    first, second = ([row for row in rows if row["step"] == number] for number in (1, 2))
    first[3]["ns"] = second[3]["ns"] - MS
    earlier = [row for row in steps([60, 80], job="earlier", start=-50) if row["step"] == 2]
    sent = []
    for number, added in enumerate((first, second, earlier)):
        recorded_command.stepped(state, added)
        sent.append(sorted((row["job"], row["step"], row["rank"]) for row in source.look(number * INTERVAL)))
    assert sent == [
        [(job, step, rank) for rank in range(4)] for job, step in (("small", 1), ("small", 2), ("earlier", 2))
    ]


def test_the_sampler_sends_a_step_once_its_line_is_complete(file: Path) -> None:
    source = FinishedSteps(file, 0)
    lines = [json.dumps(row).encode() + b"\n" for row in steps([60])]
    sent = []
    for number, octets in enumerate((lines[0][:40], lines[0][40:] + lines[1] + lines[2][:-1], b"\n" + lines[3])):
        with file.open("ab") as opened:
            opened.write(octets)
        sent.append([row["rank"] for row in source.look(number * INTERVAL)])
    assert sent == [[], [0, 1], [2, 3]]


def test_a_step_does_not_bring_back_the_folder_of_a_fabric_that_is_gone(file: Path) -> None:
    state: Any = SimpleNamespace(job_steps=file.parent / "gone" / file.name)
    for rows in (steps([60]), [{**row, "step": 2} for row in steps([60])]):
        recorded_command.stepped(state, rows)
    assert not state.job_steps.parent.exists()


def test_a_live_view_shows_the_job_that_has_ended(tmp_path: Path) -> None:
    header: dict[str, Any] = {"fabric": "t", "time": "virtual", "sections": [], "port_events": None, "nodes": []}
    log = LogWriter(tmp_path / "log", header, 1, 0)
    rows = steps([60, 80], {2: 40})
    log.sample(rows[-1]["ns"] + MS, rows[-1]["ns"] + MS, 1, np.zeros(0, np.uint64))
    log.rows(job_steps.SCHEMA, rows[-1]["ns"] + MS, rows)
    later = [{**row, "began": row["began"] + 1} for row in rows]  # another job of the same name
    log.rows(job_steps.SCHEMA, rows[-1]["ns"] + MS, later)
    log.flush()
    log.close()
    film = LiveFilm()
    film.feed((tmp_path / "log").read_bytes())
    shown = film.job_ranks(film.end)
    assert [(each.job, each.node, each.step, each.straggler) for each in shown[:4]] == [
        ("small", host, 2, host == "h5") for host in HOSTS
    ]
    assert {each.job for each in shown} == {"small", "small #2"}
