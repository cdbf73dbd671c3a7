"""Requests of transfers: rows of a recording, percentiles, a replay, a report with its player, and a comparison."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lab.backends import recorders
from lab.cli.answers.recordings import DashboardAnswer
from lab.cli.app import app
from lab.cli.kit import recorded_command
from lab.cli.kit.scenario_verdict import told_of
from lab.cli.schemas import adapter
from lab.cli.tables.dashboard_tables import as_data, show
from lab.errors import InvalidInput
from lab.report.compare.comparison import compare_runs
from lab.report.compare.run_window import WindowChoice, read_run
from lab.report.job.request_tables import played_transfers
from lab.report.markdown import write_markdown
from lab.report.run_facts import gather
from lab.scenario import library
from lab.telemetry.read.recorded_requests import recorded_requests, request_seconds
from lab.telemetry.read.recording import Recording
from lab.telemetry.read.timeline_frames import LiveFilm, RecordedFilm
from lab.telemetry.store.job_requests import SCHEMA
from tests.unit.telemetry.jobs.made_requests import FIRST, MS, SIZE, request_run, requests
from tests.unit.telemetry.made import START

if TYPE_CHECKING:
    from pathlib import Path

    from lab.report.compare.comparison import RunComparison
    from lab.report.run_facts import ReportFacts
    from tests.unit.telemetry.made import Made


def facts_of(recording: Recording) -> ReportFacts:
    return gather(recording, told_of(recording.folder.path, library.OWN))


@pytest.mark.parametrize("ended", ["finished", "killed"])
def test_each_request_is_a_row_by_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: str) -> None:
    """As the command writes them, in the order in which they began."""
    made = request_run(tmp_path / "run", requests([50]))
    made.folder.appended_rows("job_requests").unlink()
    monkeypatch.setattr(recorders, "folders", lambda _: [made.folder.path])
    state: Any = SimpleNamespace()
    recorded_command.requested(state, sorted(requests([50, 60]), key=lambda row: row["begin"]))
    recording = Recording.open(made.finished() if ended == "finished" else made.killed())
    assert recording.grown == (SCHEMA.table,)
    found = {key: series.column("request").tolist() for key, series in recording.table(SCHEMA.table)}
    assert found == {(START + FIRST * MS, host, "eth1"): [1, 2] for host in ("h1", "h2")}
    (transfer,) = recorded_requests(recording)
    assert (transfer.name, transfer.bytes) == ("write", 4 * SIZE)
    assert [(each.nic, each.target_nic) for each in transfer.requests] == [
        ("h1:eth1", "h5:eth1"), ("h2:eth1", "h6:eth1"), ("h1:eth1", "h6:eth1"), ("h2:eth1", "h5:eth1")
    ]  # fmt: skip
    assert transfer.rate_bps == pytest.approx(4 * SIZE * 8 / 0.12)
    of_h2 = request_seconds(transfer.by_nic()["h2:eth1"])
    assert (of_h2.mean, of_h2.p50, of_h2.p99, of_h2.longest) == pytest.approx((0.06, 0.055, 0.065, 0.065))


def test_transfers_are_named_by_direction_and_numbered(tmp_path: Path) -> None:
    first, second = requests([50]), requests([40], start=200)
    made = request_run(tmp_path / "run", first, second, requests([30], "read", start=300))
    found = recorded_requests(Recording.open(made.finished()))
    assert [(each.name, each.begin) for each in found] == [
        ("write", first[0]["began"]), ("write #2", second[0]["began"]), ("read", START + (FIRST + 300) * MS)
    ]  # fmt: skip


@pytest.mark.parametrize("changed", [{"size": -1}, {"request": "1"}, {"begin": 1.5}, {"target": None}])
def test_a_value_of_another_type_costs_only_the_requests(tmp_path: Path, changed: dict[str, Any]) -> None:
    recording = Recording.open(damaged(tmp_path, changed).finished())
    assert recorded_requests(recording) == ()
    assert recording.why.startswith("it has no requests of transfers: job_requests.jsonl: ")


def test_a_damaged_row_of_an_interrupted_recording_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"job_requests\.jsonl"):
        _ = Recording.open(damaged(tmp_path, {"size": -1}).killed()).grown


def damaged(path: Path, changed: dict[str, Any]) -> Made:
    made = request_run(path / "run", requests([50]))
    made.folder.appended_rows("job_requests").write_text(json.dumps(requests([50])[0] | changed), encoding="utf-8")
    return made


def test_a_replay_counts_the_requests_until_its_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film = RecordedFilm(Recording.open(request_run(tmp_path / "run", requests([50, 60])).finished()))
    began = START + FIRST * MS
    assert film.requesters(began - 1) == []
    first, second = film.requesters(began + 52 * MS)
    assert (first.node, first.complete, first.under_way, first.target) == ("h1", 1, 1, "h6:eth1")
    assert (second.node, second.complete, second.under_way, second.last) == ("h2", 0, 1, 0.0)
    told = as_data(film, film.end)
    DashboardAnswer.model_validate(told)
    assert [(each["complete"], each["under_way"]) for each in told["requesters"]] == [(2, 0)] * 2
    assert [each["mean_s"] for each in told["requesters"]] == pytest.approx([0.055, 0.06])
    assert as_data(film, began + 52 * MS)["requesters"][1]["last_s"] is None
    show(film, film.end)
    assert "requests of transfers" in capsys.readouterr().out
    assert LiveFilm().requesters(0) == []


def test_a_report_has_the_percentiles_and_its_player_each_request(tmp_path: Path) -> None:
    recording = Recording.open(request_run(tmp_path / "run", requests([50, 60])).finished())
    facts = facts_of(recording)
    page = write_markdown(facts)
    assert "### Requests of transfer write" in page
    assert "4 requests of 262.1 KB moved" in page
    assert "| `h2:eth1` | 2 | 60 ms | 55 ms | 65 ms | 65 ms | 65 ms |" in page
    (played,) = played_transfers(facts.requests)
    assert (played["name"], played["nics"], played["left"]) == ("write", ["h1:eth1", "h2:eth1"], 0)
    assert played["requests"][2] == [0, 150_000, 210_000, 2, "h6:eth1"]
    said = CliRunner().invoke(app, ["report", str(recording.folder.path), "-o", str(tmp_path / "page"), "--json"])
    adapter("report").validate_json(said.stdout)
    (told,) = json.loads(said.stdout)["reports"][0]["requests"]
    assert [each["request"] for each in told["requests"]] == [1, 1, 2, 2]


def compared(a: Path, b: Path) -> RunComparison:
    one, other = (
        read_run(Recording.open(path), path.name, told_of(path, library.OWN), WindowChoice()) for path in (a, b)
    )
    return compare_runs(one, other, 0.05, phases=False)


def test_a_comparison_has_the_times_of_each_host(tmp_path: Path) -> None:
    found = compared(
        request_run(tmp_path / "a", requests([50, 50])).finished(),
        request_run(tmp_path / "b", requests([50, 80])).finished(),
    )
    (section,) = [each for each in found.sections if each.name == "requests"]
    changed = {(each.of, each.measure.name): (each.a.value, each.b.value) for each in section.changes}
    assert changed["write h1:eth1", "request_mean"] == pytest.approx((0.05, 0.065))
    assert changed["write h1:eth1", "request_p99"] == pytest.approx((0.05, 0.08))
    assert ("write h1:eth1", "request_p50") not in changed
    assert changed["write", "request_rate"] == pytest.approx((4 * SIZE * 8 / 0.11, 4 * SIZE * 8 / 0.14))


def test_requests_of_another_size_have_no_times_to_compare(tmp_path: Path) -> None:
    found = compared(
        request_run(tmp_path / "a", requests([50])).finished(),
        request_run(tmp_path / "b", requests([50], size=SIZE // 2)).finished(),
    )
    (section,) = [each for each in found.sections if each.name == "requests"]
    assert {each.measure.name for each in section.values} == {"request_rate"}
