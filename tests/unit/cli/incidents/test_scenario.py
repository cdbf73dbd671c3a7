"""``rocelab scenario`` as people use it; playing one needs a VM."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lab.cli.app import app
from lab.cli.incidents import scenario as command
from lab.cli.schemas import adapter
from lab.errors import LabError
from lab.scenario import library
from lab.vm.calls import handover
from tests.unit.scenario.test_judge import incast, storm


def scenario(*words: str) -> Result:
    return CliRunner().invoke(app, ["scenario", *words])


def test_they_are_listed_and_shown() -> None:
    listed = json.loads(scenario("ls", "--json").stdout)
    adapter("scenario ls").validate_python(listed)
    assert [each["name"] for each in listed] == library.names()
    shown = json.loads(scenario("show", "pfc-storm", "--json").stdout)
    adapter("scenario show").validate_python(shown)
    assert shown["text"].startswith("A pause storm: ")
    assert {"name": "hold", "default": "1.5", "meaning": "How long each phase lasts."} in shown["parameters"]
    assert "pauses-spread-hop-by-hop" in scenario("show", "pfc-storm").stdout
    assert scenario("lint").exit_code == 0


@pytest.mark.parametrize("command", ["ls", "lint"])
def test_a_folder_without_scenarios_is_named(command: str, tmp_path: Path) -> None:
    """A lint of nothing would find no problems."""
    refused = scenario(command, "--path", str(tmp_path)).exception
    assert isinstance(refused, LabError)
    assert str(refused) == f"no scenario in {tmp_path}: name a folder of Python files; rocelab examples copy has some"


def test_a_recording_is_judged_again(tmp_path: Path) -> None:
    good = incast(tmp_path).finished()
    judged = json.loads(scenario("judge", str(good), "--json").stdout)
    adapter("scenario judge").validate_python(judged)
    assert judged["outcome"] == "pass"
    (tmp_path / "bad").mkdir()
    bad = scenario("judge", str(storm(tmp_path / "bad", verify=50).finished()))
    assert bad.exit_code == 1
    assert "rate-recovers" in bad.stdout
    (tmp_path / "killed").mkdir()
    assert scenario("judge", str(storm(tmp_path / "killed").killed())).exit_code == 3


def test_a_run_is_played_judged_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = []

    def play(_: object, written: object, into: Path, **how: object) -> None:
        played.append((written, how["seed"], how["keep"]))
        into.parent.mkdir(exist_ok=True)
        incast(into.parent).finished().rename(into)

    monkeypatch.setattr(command, "play", play)
    words = ("run", "incast", "--set", "hold=1s", "--seed", "4", "--repeat", "2", "-o", str(tmp_path / "runs"))
    done = scenario(*words, "--json")
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    adapter("scenario run").validate_python(answer)
    assert [each["outcome"] for each in answer] == ["pass", "pass"]
    assert played == [({"hold": "1s"}, 4, True), ({"hold": "1s"}, 5, False)]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "pfc-strom"), "there is no scenario 'pfc-strom': did you mean 'pfc-storm'"),
        (("run", "incast", "--set", "hold"), "'hold' is no parameter: write it like"),
        (("run", "incast", "--set", "held=3s"), "incast: held: is no parameter; did you mean 'hold'?"),
        (("run", "incast", "--set", "hold=3h"), "incast: hold: 1.08e+04 s is out of range; choose 500 ms to 60 s"),
        (("judge", "nowhere"), "nowhere"),
        (("ls", "--path", "nowhere"), "no folder nowhere: scenarios are Python files in one: --path DIR"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    done = scenario(*words, *(("-o", str(tmp_path)) if words[0] == "run" else ()))
    assert isinstance(done.exception, LabError)
    assert done.exception.exit_code == 2
    assert told in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_run_refuses_a_folder_that_the_host_would_not_see(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(handover, "GUEST_CACHE", tmp_path)
    monkeypatch.setattr(command, "play", lambda *_, **__: pytest.fail("it was played"))
    with pytest.raises(LabError, match="is not shared with the VM"):
        CliRunner().invoke(app, ["scenario", "run", "incast", "-o", str(tmp_path / "runs")], catch_exceptions=False)


def test_a_recording_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recordings").mkdir()
    incast(tmp_path / "recordings").finished()
    monkeypatch.chdir(tmp_path)
    judged = scenario("judge", "run", "--json")
    assert judged.exit_code == 0, judged.exception
    assert json.loads(judged.stdout)["recording"] == "recordings/run"
