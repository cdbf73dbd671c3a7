"""``rocelab alerts`` as people use it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from lab.cli.app import app
from lab.cli.schemas import adapter
from lab.errors import InvalidInput, UsageError
from lab.telemetry.alerts.fired_alerts import ALERTMANAGER, RULES
from lab.telemetry.read.recording import Recording
from lab.telemetry.store import recording_folder as files
from tests.unit.diagnose.recorded import begun, during, incast, one_sided

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a scenario whose hosts do not obey pauses, and a healthy recording."""
    folder = tmp_path_factory.mktemp("alerts")
    bad = one_sided(folder / "bad")
    files.write_json(bad.folder.facts("params"), {"scenario": "pfc-one-sided", "seed": 1, "params": {}})
    bad.finished()
    good = begun(folder / "good")
    during(good, "baseline", incast)
    good.finished()
    return folder


@pytest.fixture
def runs(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(made, tmp_path / "recordings")


def alerts(*words: object) -> Result:
    return CliRunner().invoke(app, ["alerts", *map(str, words)])


def test_one_run_has_its_alerts(runs: Path) -> None:
    said = alerts("bad")
    assert said.exit_code == 1
    rows = [line.strip("│").split("│") for line in said.stdout.splitlines() if "leaf1:swp3" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["LosslessDrops", "leaf1:swp3", "critical", "cause", "yes", "1.5 s", "2"]
    ]
    said = alerts(runs / "good")
    assert (said.exit_code, said.stdout) == (0, "no alert fires in good\n")


@pytest.mark.usefixtures("runs")
def test_several_runs_have_the_proof() -> None:
    said = alerts("bad", "good")
    assert said.exit_code == 0
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in said.stdout.splitlines() if "│" in line]
    assert rows == [
        ["bad", "pfc-one-sided", "pfc-one-sided", "LosslessDrops", "yes", "1", "0", "yes"],
        ["good", "", "", "", "", "", "0", ""],
    ]


@pytest.mark.parametrize(
    ("kind", "late", "row"),
    [
        ("pfc-one-sided", 0, ["pfc-one-sided", "LosslessDrops", "yes", "1", "0", "yes"]),
        ("udp-filtered", 0, ["acl-4791", "LosslessDrops", "no", "", "0", "no"]),
        ("pfc-one-sided", 10**10, ["pfc-one-sided", "LosslessDrops", "no", "", "3", "no"]),
    ],
    ids=["its own", "another", "after the alerts"],
)
def test_a_fault_that_was_injected_during_a_recording_is_its_cause(
    runs: Path, kind: str, late: int, row: list[str]
) -> None:
    """A later fault does not count, though its injection ended first."""
    files.write_json(runs / "bad" / "params.json", {})
    recording = Recording.open(runs / "bad")
    began = recording.phase("observe").start + late
    for did, when, what in (("inject", 1, "link-down"), ("inject", 0, kind), ("heal", 2, kind)):
        line = {"ns": began + when, "did": did, "kind": what, "place": "h1", "parameters": {}}
        files.append_line(recording.folder.truth, line)
    lines = alerts("bad", "good").stdout.splitlines()
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]
    assert next(cells for cells in rows if cells[0] == "bad")[2:] == row


@pytest.mark.parametrize("line", [{"did": "inject"}, {"ns": 1}, {"ns": "soon", "did": "inject", "kind": "link-down"}])
def test_a_damaged_ground_truth_is_refused(runs: Path, line: dict[str, object]) -> None:
    files.append_line(Recording.open(runs / "good").folder.truth, line)
    assert isinstance(alerts("good").exception, InvalidInput)


@pytest.mark.usefixtures("runs")
def test_the_answer_is_as_its_schema_has_it() -> None:
    said = alerts("bad", "--json")
    adapter("alerts").validate_json(said.stdout)
    (answer,) = json.loads(said.stdout)
    assert (answer["cause"], answer["detected"], answer["root_right"]) == ("pfc-one-sided", True, True)
    assert {alert["where"] for alert in answer["alerts"]} == {f"leaf1:swp{number}" for number in (3, 4, 5)}


@pytest.mark.usefixtures("runs")
def test_rules_are_exported_with_and_without_runs(tmp_path: Path) -> None:
    assert alerts("--export", tmp_path / "rules").exit_code == 0
    for file in (RULES, ALERTMANAGER):
        assert (tmp_path / "rules" / file.name).read_bytes() == file.read_bytes()
    alerts("bad", "good", "--export", tmp_path / "tests")
    assert {path.name for path in (tmp_path / "tests").glob("*.test.yml")} == {"bad.test.yml", "good.test.yml"}


@pytest.mark.usefixtures("runs")
def test_with_json_the_exported_files_are_not_printed(tmp_path: Path) -> None:
    assert json.loads(alerts("--export", tmp_path / "rules", "--json").stdout) == []
    (answer,) = json.loads(alerts("good", "--export", tmp_path / "tests", "--json").stdout)
    assert answer["run"] == "good"


def test_rules_that_cannot_be_written_are_an_error_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.write_text("")
    for folder in (file, file / "below"):
        said = alerts("--export", folder)
        assert isinstance(said.exception, UsageError)
        assert f"cannot write {folder}/" in str(said.exception)
        assert "name another folder with --export" in str(said.exception)


def test_two_runs_of_one_name_are_not_exported_into_one_file(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "good", tmp_path / "others" / "good")
    said = alerts(runs / "good", tmp_path / "others" / "good", "--export", tmp_path / "tests")
    assert isinstance(said.exception, UsageError)
    assert "several recordings are called good" in str(said.exception)
    assert not (tmp_path / "tests").exists()


@pytest.mark.usefixtures("runs")
def test_wrong_calls() -> None:
    for words in ([], ["bad", "--every", "1ms"], ["bad", "--every", "soon"], ["nosuch"]):
        assert isinstance(alerts(*words).exception, UsageError), words
