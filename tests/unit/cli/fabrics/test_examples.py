"""``rocelab examples``: what comes with rocelab, and copies of it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.cli.fabrics.examples import app, example_names
from lab.cli.schemas import adapter
from lab.errors import UsageError
from lab.scenario import library

ROOT = Path(__file__).parents[4]


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_they_are_all_listed() -> None:
    listed = json.loads(run("ls", "--json"))
    adapter("examples ls").validate_python(listed)
    files = [*sorted((ROOT / "topologies").glob("*.yaml")), *sorted((ROOT / "scenarios").glob("*.py"))]
    assert [each["name"] for each in listed] == [str(file.relative_to(ROOT)) for file in files]
    about = {each["name"]: each["about"] for each in listed}
    assert about["topologies/one-leaf.yaml"].startswith("The smallest incast: three hosts on one leaf")
    assert about["scenarios/pfc_storm.py"].startswith("A pause storm: ")
    assert "pfc_storm.py" in run("ls")


def test_copies_are_the_same_and_work(tmp_path: Path) -> None:
    run("copy", "-o", tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")} == set(example_names())
    assert all((tmp_path / name).read_bytes() == (ROOT / name).read_bytes() for name in example_names())
    assert library.names(tmp_path / "scenarios") == library.names()


def test_one_of_them(tmp_path: Path) -> None:
    run("copy", "topologies/one-leaf.yaml", "-o", tmp_path)
    assert [path.name for path in tmp_path.rglob("*.*")] == ["one-leaf.yaml"]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("topologies/one-leaf.yml", "there is no example topologies/one-leaf.yml: did you mean"),
        ("../LICENSE", "there is no example ../LICENSE: rocelab examples ls lists all"),
    ],
)
def test_what_there_is_not(name: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=error):
        run("copy", name, "-o", tmp_path)


def test_nothing_is_overwritten_and_then_nothing_is_copied(tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    mine = tmp_path / "scenarios" / "incast.py"
    mine.write_text("mine")
    with pytest.raises(UsageError, match=r"incast.py already exists: choose another folder with -o"):
        run("copy", "-o", tmp_path)
    assert mine.read_text() == "mine"
    assert not (tmp_path / "topologies").exists()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write"):
        run("copy", "-o", tmp_path / "file")
