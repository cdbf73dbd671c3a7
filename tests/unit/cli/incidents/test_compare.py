"""``rocelab compare`` as people use it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lab.cli.app import app
from lab.cli.kit.complete import run_names
from lab.cli.schemas import adapter
from lab.errors import InvalidInput, UsageError
from tests.unit.scenario.test_judge import incast, lost_at


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of the incast in recordings/, good and bad: the second loses a packet."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recordings").mkdir()
    for name in ("good", "bad"):
        made = incast(tmp_path, spoil=lost_at("leaf1:swp6") if name == "bad" else lambda _: None)
        made.finished().rename(tmp_path / "recordings" / name)
    return tmp_path / "recordings"


def compare(*words: object) -> Result:
    return CliRunner().invoke(app, ["compare", *map(str, words)])


def test_tables_show_what_changed_and_count_what_did_not(runs: Path) -> None:
    said = compare("good", runs / "bad")
    assert said.exit_code == 0, said.exception
    assert said.stdout.splitlines()[0] == (
        "A  good: fabric incast, 4.5 s, 20 samples a second, scenario incast (pass)"
    )
    assert "verdict: A pass, B fail; 1 check changed, 5 unchanged" in said.stdout
    assert "ports: 1 port changed, 31 unchanged" in said.stdout
    (row,) = [line for line in said.stdout.splitlines() if "drops: headroom" in line and "leaf1:swp6" in line]
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "leaf1:swp6", "3", "drops: headroom", "0", "1 (0.225/s)", "+0.225/s", "new",
    ]  # fmt: skip
    assert "h1:eth1" not in said.stdout
    assert "h1:eth1" in compare("good", "bad", "--all").stdout


@pytest.mark.parametrize("more", [[], ["--all"], ["--phase", "incast"], ["--from", "0.5", "--until", "4"]])
def test_the_answer_is_as_its_schema_has_it(runs: Path, more: list[str]) -> None:
    said = compare(runs / "good", runs / "bad", "--json", *more)
    adapter("compare").validate_json(said.stdout)
    told = json.loads(said.stdout)
    assert told["changed"]
    (ports,) = [each for each in told["sections"] if each["name"] == "ports"]
    assert (ports["changed"], ports["unchanged"]) == (1, 31)
    changed = [(each["of"], each["measure"], each["total_b"]) for each in ports["values"] if each["changed"]]
    assert changed == [("leaf1:swp6", "dropped_headroom", 1)]
    assert (len(ports["values"]) > 1) == ("--all" in more)


@pytest.mark.parametrize(
    ("b", "more", "code"),
    [("bad", ["--fail-on-change"], 1), ("bad", [], 0), ("good", ["--fail-on-change"], 0)],
)
def test_a_change_fails_where_that_is_asked_for(runs: Path, b: str, more: list[str], code: int) -> None:
    said = compare(runs / "good", runs / b, *more)
    assert said.exit_code == code
    assert ("nothing changed" in said.stdout) == (b == "good")


def test_pages_and_markdown_are_written(runs: Path) -> None:
    said = compare("good", "bad", "-o", "out/compare.html", "-o", "out/compare.md")
    assert (said.exit_code, said.stdout.split()) == (0, ["out/compare.html", "out/compare.md"])
    text = (runs.parent / "out" / "compare.md").read_text()
    assert text.startswith("# good and bad compared\n")
    assert "| leaf1:swp6 | 3 | drops: headroom | 0 | 1 (0.225/s) | +0.225/s | new |" in text
    page = (runs.parent / "out" / "compare.html").read_text()
    assert "<td>drops: headroom</td>" in page
    assert page.count('<svg class="strip"') == 2


def test_a_threshold_leaves_out_what_is_smaller(runs: Path) -> None:
    made = incast(runs.parent, shares=(30, 33, 33))
    made.finished().rename(runs / "less")
    assert "h1:eth1" in compare("good", "less", "--threshold", "2").stdout
    assert "h1:eth1" not in compare("good", "less", "--threshold", "50").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["good", "nowhere"], "no recording recordings/nowhere"),
        (["good", "bad", "-o", "compare.pdf"], "-o compare.pdf is neither .html nor .md"),
        (["good", "bad", "--phase", "incast", "--from", "1"], "--phase and times are both given"),
        (["good", "bad", "--phase", "missing"], "good has no phase missing"),
        (["good", "bad", "--from", "9"], "good has nothing from 9 to"),
    ],
)
@pytest.mark.usefixtures("runs")
def test_what_cannot_be_compared_is_said_in_a_line(words: list[str], said: str) -> None:
    refused = compare(*words).exception
    assert isinstance(refused, UsageError)
    assert said in str(refused)
    assert "\n" not in str(refused)


def test_a_damaged_recording_is_named(runs: Path) -> None:
    (runs / "bad" / "counters" / "queues.parquet").write_bytes(b"no parquet")
    refused = compare("good", "bad").exception
    assert isinstance(refused, InvalidInput)
    assert "recordings/bad/counters is damaged" in str(refused).replace(":", "")
    assert "\n" not in str(refused)


def test_a_file_that_cannot_be_written_is_named(runs: Path) -> None:
    (runs.parent / "file").write_text("")
    refused = compare("good", "bad", "-o", "file/compare.md").exception
    assert isinstance(refused, UsageError)
    assert "cannot write file/compare.md: " in str(refused)


@pytest.mark.usefixtures("runs")
def test_a_folder_that_is_no_recording_hides_none() -> None:
    for name in ("good", "empty"):
        Path(name).mkdir()
    assert "nothing changed" in compare("good", "recordings/good").stdout
    assert "no recording.json" in str(compare("good", "empty").exception)


@pytest.mark.usefixtures("runs")
def test_the_shell_completes_the_names_of_recordings() -> None:
    assert run_names() == ["bad", "good"]
