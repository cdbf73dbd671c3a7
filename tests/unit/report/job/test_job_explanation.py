"""Steps of training jobs, explained and compared: paths, waits, the critical path, and what a report shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.kit.scenario_verdict import told_of
from lab.cli.schemas import adapter
from lab.errors import UsageError
from lab.report.job.job_drawing import draw_path, draw_ranks
from lab.report.job.job_explanation import explain_step
from lab.report.markdown import write_markdown
from lab.report.page import write_page
from lab.report.playback import playback
from lab.report.run_facts import gather
from lab.scenario import library
from lab.telemetry.read.recording import Recording
from tests.unit.diagnose.recorded import begun
from tests.unit.report.test_compare import changes, compared
from tests.unit.telemetry.jobs.made_job import HOSTS, MS, job_run, steps, with_job

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.telemetry.made import Made


def paused(made: Made, port: str, begin: int, end: int) -> None:
    """A pause of a port between two times in ns."""
    node, _, interface = port.partition(":")
    for ns, kind in ((begin, "paused"), (end, "resumed")):
        made.event(ns, source="port", kind=kind, node=node, interface=interface, number=3)


@pytest.fixture
def slow_rank(tmp_path: Path) -> Recording:
    """Rank 2 computes 40 ms longer; in the second step, leaf2's uplink is paused for 15 ms, and its queue fills."""
    rows = steps([60, 90, 60], {2: 40})
    begin = rows[4]["begin"]
    made = begun(tmp_path / "run")
    made.sample()
    paused(made, "leaf2:swp2", begin - 30 * MS, begin - 20 * MS)  # between the steps
    paused(made, "leaf2:swp2", begin + 150 * MS, begin + 165 * MS)

    def fill(made: Made) -> None:
        within = begin <= made.ns < begin + 200 * MS
        made.counters("leaf2:swp2")["queue"]["depth_bytes"][3] = 50_000 if within else 0

    with_job(made, rows, fill)
    return Recording.open(made.finished())


def test_the_slowest_step_names_the_slow_host_and_the_port_that_waited(slow_rank: Recording) -> None:
    found = explain_step(slow_rank)
    assert (found.step.step, found.step.straggler, found.step.last) == (2, 2, 3)
    assert found.step.time_s == pytest.approx(0.23)
    assert [each.node for each in found.ranks] == list(HOSTS)
    assert [round(each.waiting_s, 3) for each in found.ranks] == [0.04, 0.04, 0, 0.04]
    first = found.qps[0]
    assert (first.rank, first.peer_rank, first.node, first.peer_node) == (3, 0, "h6", "h1")
    assert first.worst is not None
    assert (first.worst.port, first.worst.priority) == ("leaf2:swp2", 3)
    assert first.worst.paused_s == pytest.approx(0.015)
    assert first.worst.queue_peak_bytes == 50_000
    assert first.worst.queue_delay_s == pytest.approx(0.004)
    assert all(not each.seconds for each in found.qps[1:])
    assert found.critical_qp == 0
    assert found.findings[0].startswith("rank 2 (h5) computed 140 ms, 40 ms longer than the median rank")
    assert found.findings[1].startswith("3 ranks waited for it")
    assert found.findings[2].startswith("rank 3 (h6) ended last, 90 ms after rank 2 (h5)")
    assert "leaf2:swp2 was paused for 15 ms, and its queue held up to 50 KB" in found.findings[3]


@pytest.mark.parametrize(("transfer", "text"), [(900, "12 ms longer"), (1500, "as long as the others")])
def test_a_host_is_slow_as_in_a_diagnosis(tmp_path: Path, transfer: int, text: str) -> None:
    """12 ms more than 100 ms are 1.2% of a step of 1 s, and 0.7% of one of 1.6 s."""
    found = explain_step(Recording.open(job_run(tmp_path / "run", steps([transfer] * 2, {2: 12})).finished()))
    assert text in found.findings[0]


def test_a_step_without_waits_follows_the_data_of_the_last_rank(slow_rank: Recording) -> None:
    found = explain_step(slow_rank, step=1)
    assert found.critical_qp is not None
    assert found.qps[found.critical_qp].peer_rank == found.step.last
    assert found.findings[-1].endswith("no port of its path was paused, and no sample found a queue")


def test_bars_show_computation_waiting_and_transfer(slow_rank: Recording) -> None:
    lines = list(draw_ranks(explain_step(slow_rank)))
    assert lines[2].startswith("2 h5 |####")
    assert lines[2].endswith("straggler")
    assert "." not in lines[2].partition("|")[2]
    assert lines[0].count("#") == pytest.approx(60 * 100 / 230, abs=1)
    assert lines[0].count(".") == pytest.approx(60 * 40 / 230, abs=1)
    found = explain_step(slow_rank)
    path = list(draw_path(found.qps[0]))
    assert path[1].startswith("* |> leaf2:swp2")
    assert path[-1].endswith("h1 rank 0")


@pytest.mark.parametrize(
    ("job", "step", "message"),
    [("", 9, "job small has no step 9"), ("smal", None, "run has no job smal")],
)
def test_unknown_steps_and_jobs_are_named(slow_rank: Recording, job: str, step: int | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        explain_step(slow_rank, job, step)


def test_the_command_prints_tables_or_its_schema(slow_rank: Recording) -> None:
    run = str(slow_rank.folder.path)
    told = CliRunner().invoke(app, ["job", "explain", run])
    assert told.exit_code == 0, told.output
    for word in ("the slowest", "straggler", "critical path", "leaf2:swp2", "1.53 times the arithmetic"):
        assert word in told.stdout, told.stdout
    answer = CliRunner().invoke(app, ["job", "explain", run, "--step", "3", "--json"])
    assert adapter("job explain").validate_json(answer.stdout).step.step == 3


def test_a_recording_without_a_job_is_refused_in_one_line(tmp_path: Path) -> None:
    made = job_run(tmp_path / "run", steps([60]))
    made.folder.job_steps.unlink()
    told = CliRunner().invoke(app, ["job", "explain", str(made.finished())])
    assert told.exit_code == 2 or isinstance(told.exception, UsageError)
    assert "has no training job" in f"{told.output}{told.exception}"


def test_steps_without_qps_are_explained_without_paths(tmp_path: Path) -> None:
    recording = Recording.open(job_run(tmp_path / "run", steps([60]), described=False).finished())
    found = explain_step(recording)
    assert (found.qps, found.critical_qp, found.roofline_s) == ((), None, 0)
    told = CliRunner().invoke(app, ["job", "explain", str(recording.folder.path)])
    assert "not recorded" in told.stdout


def test_a_report_and_its_page_have_every_step_of_every_rank(slow_rank: Recording) -> None:
    facts = gather(slow_rank, told_of(slow_rank.folder.path, library.OWN))
    written = write_markdown(facts)
    assert "### Training job small" in written
    assert "| 2 |" in written
    assert "`2 h5:eth1`" in written
    (played,) = playback(slow_rank, facts)["jobs"]
    assert played["nics"] == tuple(f"{host}:eth1" for host in HOSTS)
    assert [each["straggler"] for each in played["steps"]] == [2, 2, 2]
    begin, computed, waited, end = played["steps"][0]["ranks"]["0"]
    assert (computed - begin, waited - computed, end - waited) == (100_000, 40_000, 60_000)
    assert '"jobs":[{"name":"small"' in write_page(slow_rank, facts)


def test_a_comparison_has_the_step_time_before_and_after(tmp_path: Path) -> None:
    a = job_run(tmp_path / "a", steps([60, 60])).finished()
    b = job_run(tmp_path / "b", steps([120, 120])).finished()
    found: dict[Any, Any] = {
        (of, title): (round(one, 4), round(other, 4)) for of, _, title, one, other in changes(compared(a, b), "jobs")
    }
    assert found["small", "step time"] == (0.16, 0.22)
    assert found["small", "transfer"] == (0.06, 0.12)
    assert found["small rank 3", "step time"] == (0.16, 0.22)
    assert json.dumps(found["small", "communication"])
    assert not compared(a, a).changed
