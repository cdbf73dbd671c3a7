"""``rocelab report`` as people use it."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lab.cli.app import app
from lab.cli.schemas import adapter
from lab.errors import InvalidInput, LabError, UsageError
from lab.telemetry.store import recording_folder as files
from tests.unit.scenario.test_judge import incast, storm


def report(*words: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, words)])


def test_a_run_is_reported(tmp_path: Path) -> None:
    run = storm(tmp_path).finished()
    said = report(run, "-o", tmp_path / "out")
    assert said.exit_code == 0
    assert [Path(line) for line in said.stdout.splitlines()] == [
        tmp_path / "out" / f"run.{ending}" for ending in ("md", "html")
    ]
    text = (tmp_path / "out" / "run.md").read_text()
    assert text.startswith("# A pause storm: one NIC is stuck")


def test_the_answer_is_as_its_schema_has_it(tmp_path: Path) -> None:
    said = report(storm(tmp_path).finished(), "-o", tmp_path, "--json").stdout
    adapter("report").validate_json(said)
    answered = json.loads(said)
    (told,) = answered["reports"]
    assert (answered["index"], answered["unread"]) == (None, [])
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
    assert isinstance(refused, UsageError)
    assert f"cannot write {tmp_path}/file/run.md: " in str(refused)


def test_all_of_a_folder_are_listed_and_what_is_damaged_is_told(tmp_path: Path) -> None:
    storm(tmp_path).finished().rename(tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "recording.json").write_text("{")
    said = report("--index", tmp_path, "-o", tmp_path / "out", "--json")
    assert said.exit_code == 0
    assert "left out: " in said.stderr
    adapter("report").validate_json(said.stdout)
    answered = json.loads(said.stdout)
    assert [each["name"] for each in answered["reports"]] == ["good"]
    assert [each["recording"] for each in answered["unread"]] == ["bad"]
    listed = Path(answered["index"]).read_text()
    assert 'href="good.html"' in listed
    assert "bad: " in listed


def test_a_catalogue_is_a_course_of_all_scenarios(tmp_path: Path) -> None:
    """A folder for each, as of ./scripts/catalogue, with runs of one name; what no scenario made comes last."""
    for folder, run in (("a", storm), ("b", incast)):
        (tmp_path / folder).mkdir()
        made = run(tmp_path / folder)
        if folder == "a":
            files.write_json(made.folder.facts("params"), {})
        made.finished()
    said = report("--index", tmp_path, "-o", tmp_path / "out", "--json")
    listed = Path(json.loads(said.stdout)["index"]).read_text()
    assert 0 < listed.index('href="b-run.html"') < listed.index(">level 1<") < listed.index('href="a-run.html"')
    assert (tmp_path / "out" / "a-run.md").exists()


@pytest.mark.parametrize("words", [[], ["--index", "."]])
def test_without_a_recording_there_is_nothing_to_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = report(*words).exception
    assert isinstance(refused, UsageError)
    assert "no recording" in str(refused)


def test_a_run_that_was_killed_has_a_page_that_says_so(tmp_path: Path) -> None:
    killed = storm(tmp_path).killed()
    report(killed, "-o", tmp_path / "out")
    page = (tmp_path / "out" / "run.html").read_text()
    assert "This recording is incomplete: its recorder still runs, or was killed." in page


def test_two_runs_of_one_name_are_two_reports(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        storm(tmp_path / folder).finished()
    said = report(tmp_path / "a" / "run", tmp_path / "b" / "run", tmp_path / "a" / "run", "-o", tmp_path / "out")
    assert sorted(Path(line).name for line in said.stdout.splitlines()) == [
        "a-run.html", "a-run.md", "b-run.html", "b-run.md",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("recording.json", '"hz": NaN'),
        ("recording.json", '"hz": "20"'),
        ("recording.json", '"start_ns": 1e400'),
        ("notes.jsonl", '{"ns": 6000000000, "kind": "phase"}'),
        ("notes.jsonl", '{"ns": 6000000000, "kind": "phase", "name": ["x"]}'),
        ("commands.jsonl", '{"ns": 6000000000, "argv": 3}'),
    ],
)
def test_a_damaged_one_of_a_folder_is_left_out_in_a_line(tmp_path: Path, file: str, text: str) -> None:
    for name in ("bad", "good"):
        storm(tmp_path).finished().rename(tmp_path / name)
    damaged = tmp_path / "bad" / file
    if file == "recording.json":
        key = text.partition(":")[0]
        about = damaged.read_text()
        damaged.write_text(re.sub(rf"{key}: [^,\n]+", text, about))
        assert damaged.read_text() != about
    else:
        with damaged.open("a") as lines:
            lines.write(f"{text}\n{text}\n")
    said = report("--index", tmp_path, "-o", tmp_path / "out", "--json")
    assert said.exit_code == 0, said.exception
    answered = json.loads(said.stdout)
    assert [each["name"] for each in answered["reports"]] == ["good"]
    assert [each["recording"] for each in answered["unread"]] == ["bad"]
    assert len(said.stderr.splitlines()) == 1
    for words in (["record", "show"], ["replay", "--json"], ["diagnose"]):
        refused = CliRunner().invoke(app, [*words, str(tmp_path / "bad")]).exception
        if file != "commands.jsonl" or words[0] == "diagnose":
            assert isinstance(refused, InvalidInput), (words, refused)
