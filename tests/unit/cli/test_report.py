"""``rocelab report`` as people use it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lab.cli.main import app
from lab.cli.schemas import adapter
from lab.errors import InvalidInput, LabError, OperationFailed, UsageError
from tests.unit.scenario.test_judge import storm


def report(*words: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, words)])


def test_a_run_is_reported(tmp_path: Path) -> None:
    run = storm(tmp_path).finished()
    said = report(run, "-o", tmp_path / "out")
    assert said.exit_code == 0
    assert [Path(line) for line in said.stdout.splitlines()] == [tmp_path / "out" / "run.md"]
    text = (tmp_path / "out" / "run.md").read_text()
    assert text.startswith("# A pause storm: one NIC is stuck")


def test_the_answer_is_as_its_schema_has_it(tmp_path: Path) -> None:
    said = report(storm(tmp_path).finished(), "-o", tmp_path, "--json").stdout
    adapter("report").validate_json(said)
    (told,) = json.loads(said)
    assert (told["scenario"], told["outcome"], told["complete"]) == ("pfc-storm", "pass", True)
    assert {check["name"] for check in told["checks"]} >= {"nothing-is-lost"}
    assert all(Path(file).is_file() for file in told["files"])


@pytest.mark.parametrize(
    ("about", "kind", "said"),
    [
        (None, UsageError, "no recording"),
        ("{", InvalidInput, "is damaged"),
        ('{"format": "another", "version": 1}', InvalidInput, "is not rocelab's"),
        ('{"format": "rocelab-recording", "version": 99}', InvalidInput, "is a recording of version 99"),
    ],
)
def test_what_is_no_recording_is_told_in_a_line(
    tmp_path: Path, about: str | None, kind: type[LabError], said: str
) -> None:
    run = tmp_path / "run"
    if about is not None:
        run.mkdir()
        (run / "recording.json").write_text(about)
    refused = report(run, "-o", tmp_path / "out").exception
    assert isinstance(refused, kind)
    assert said in str(refused)
    assert "\n" not in str(refused)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = report(storm(tmp_path).finished(), "-o", tmp_path / "file").exception
    assert isinstance(refused, OperationFailed)
    assert "file/run.md cannot be written" in str(refused)
