"""Training jobs read from a recording: steps, stragglers, hosts that compute slowly, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.cli.tables.dashboard_tables import as_data
from lab.errors import InvalidInput
from lab.telemetry.read.dashboard import job_ranks
from lab.telemetry.read.recorded_jobs import jobs_of, recorded_jobs
from lab.telemetry.read.recording import Recording
from lab.telemetry.read.timeline_frames import RecordedFilm
from tests.unit.telemetry.jobs.made_job import COMPUTE, HOSTS, MS, PERIOD, job_run, steps, with_job

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


def test_a_step_has_its_ranks_its_straggler_and_who_ended_last(tmp_path: Path) -> None:
    (job,) = recorded_jobs(Recording.open(job_run(tmp_path / "run", steps([60, 80], {2: 40})).finished()))
    assert (job.name, [step.number for step in job.steps]) == ("small", [1, 2])
    first, second = job.steps
    assert [each.node for each in first.ranks] == list(HOSTS)
    assert first.straggler.rank == 2
    assert first.lateness == pytest.approx(0.04)
    assert first.last.rank == 3
    assert first.seconds == pytest.approx(0.2)
    assert second.transfer == pytest.approx(0.08)
    assert first.ranks[0].share == pytest.approx(0.5)
    assert first.ranks[2].share == pytest.approx(0.3)
    assert job.seconds == pytest.approx(0.21)
    assert job.usual_straggler.node == "h5"
    ((slow, excess, count),) = job.slow_ranks()
    assert (slow.node, count) == ("h5", 2)
    assert excess == pytest.approx(0.04)
    assert job.about is not None
    assert len(job.about.qps) == len(HOSTS)


@pytest.mark.parametrize("excess", [{}, {2: 9}, {0: 40, 1: 40, 2: 40}])
def test_a_host_is_not_slow_within_ten_percent_nor_as_one_of_most(tmp_path: Path, excess: dict[int, int]) -> None:
    (job,) = recorded_jobs(Recording.open(job_run(tmp_path / "run", steps([60] * 4, excess)).finished()))
    assert job.slow_ranks() == []


@pytest.mark.parametrize(("transfer", "found"), [(900, 1), (1500, 0)])
def test_a_host_is_not_slow_if_steps_are_no_longer(tmp_path: Path, transfer: int, found: int) -> None:
    """12 ms more than 100 ms are 1.2% of a step of 1 s, and 0.7% of one of 1.6 s."""
    (job,) = recorded_jobs(Recording.open(job_run(tmp_path / "run", steps([transfer] * 4, {2: 12})).finished()))
    assert len(job.slow_ranks()) == found


def test_a_second_job_of_the_same_name_is_another_one(tmp_path: Path) -> None:
    made = job_run(tmp_path / "run", steps([60, 60]))
    with_job(made, steps([90], start=4 * PERIOD), described=False)
    one, other = recorded_jobs(Recording.open(made.killed()))
    assert (one.name, len(one.steps), other.name, len(other.steps)) == ("small", 2, "small #2", 1)
    assert one.about is not None
    assert other.about is None


def test_a_job_without_a_description_does_not_get_that_of_the_next_one(tmp_path: Path) -> None:
    made = job_run(tmp_path / "run", steps([60, 60]), described=False)
    with_job(made, steps([90], start=4 * PERIOD))
    one, other = recorded_jobs(Recording.open(made.finished()))
    assert one.about is None
    assert other.about is not None


def test_jobs_of_one_name_at_the_same_time_are_two_jobs(tmp_path: Path) -> None:
    """On other hosts, or on the same: their steps and descriptions are not mixed."""
    first, second = steps([60, 60, 60]), steps([90, 90], start=PERIOD // 2)
    made = job_run(tmp_path / "run", first)
    with_job(made, second)
    one, other = recorded_jobs(Recording.open(made.finished()))
    assert (one.name, other.name) == ("small", "small #2")
    assert [[each.begin for each in step.ranks] for step in one.steps] == begins(first)
    assert [[each.begin for each in step.ranks] for step in other.steps] == begins(second)
    assert (one.begin, other.begin) == (first[0]["began"], second[0]["began"])
    assert one.about is not None
    assert other.about is not None
    assert (one.about.began, other.about.began) == (one.begin, other.begin)


def begins(rows: list[dict[str, Any]]) -> list[list[int]]:
    """When each step began, by step and rank."""
    numbers = range(1, 1 + max(row["step"] for row in rows))
    return [[row["begin"] for row in rows if row["step"] == number] for number in numbers]


def test_each_slow_rank_of_a_thousand_is_found() -> None:
    rows = [
        (
            end := step * 300 * MS + (200 + 40 * (rank in {7, 999})) * MS,
            {
                "job": "large", "began": 300 * MS, "rank": rank, "node": f"h{rank}", "interface": "eth1",
                "step": step, "begin": step * 300 * MS, "compute": end - step * 300 * MS - 50 * MS,
                "communication": 50 * MS, "waiting": 0, "late": 40 * MS * (rank in {7, 999}),
            },
        )
        for step in range(1, 11)
        for rank in range(1000)
    ]  # fmt: skip
    (job,) = jobs_of(rows)
    assert [(rank.rank, count) for rank, _, count in job.slow_ranks()] == [(7, 10), (999, 10)]
    assert [len(mine) for mine in job.by_rank().values()] == [10] * 1000
    assert sum(each.straggler for each in job_ranks([job], job.end)) == 1


def test_a_recording_without_a_job_has_none(tmp_path: Path) -> None:
    made = job_run(tmp_path / "run", steps([60]))
    made.folder.job_steps.unlink()
    assert recorded_jobs(Recording.open(made.finished())) == ()


@pytest.mark.parametrize(
    "line", ["[]", '{"ns": 1}', '{"ns": 1, "job": "a", "began": 1, "size": 1, "roofline": "x"}', "x\n{}"]
)
def test_a_damaged_description_is_one_clear_line(tmp_path: Path, line: str) -> None:
    made = job_run(tmp_path / "run", steps([60]))
    made.folder.jobs.write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"jobs\.jsonl"):
        recorded_jobs(Recording.open(made.finished()))


def test_a_replay_shows_the_last_step_that_all_ranks_have_ended(tmp_path: Path) -> None:
    recording = Recording.open(job_run(tmp_path / "run", steps([60, 60], {2: 40})).finished())
    film = RecordedFilm(recording)
    first, second = recorded_jobs(recording)[0].steps
    assert film.job_ranks(first.end - 1) == []
    assert [(each.rank, each.step) for each in film.job_ranks(second.end - 1)] == [(rank, 1) for rank in range(4)]
    shown = as_data(film, film.end)["job_ranks"]
    assert [(each["node"], each["step"], each["straggler"]) for each in shown] == [
        (host, 2, host == "h5") for host in HOSTS
    ]
    assert shown[0]["waiting_s"] == pytest.approx(0.04)
    assert shown[2]["late_s"] == pytest.approx(0.04)
    assert shown[0]["share"] == pytest.approx(
        (shown[0]["step_time_s"] - COMPUTE * MS / 1e9) / shown[0]["step_time_s"]
    )
