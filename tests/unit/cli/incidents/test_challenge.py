"""``rocelab scenario break|hint|check|fix|explain|score`` on a fabric that seems to run; real ones: tests/vm."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from lab.cli import vm_routing
from lab.cli.app import app
from lab.cli.incidents import challenge as command
from lab.cli.incidents import scores
from lab.cli.kit import output
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.schemas import adapter
from lab.errors import LabError, OperationFailed
from lab.faults import fault_engine
from lab.faults.ledger import Entry, Holder, Ledger
from lab.kernel.process import process, wall_clock
from lab.kernel.process.user_folders import STATE_HOME
from lab.model.load import read_topology
from lab.scenario import library
from lab.scenario.challenges import challenge_process, challenge_record
from lab.scenario.challenges.challenge_record import Challenge, ChallengeInfo
from lab.scenario.runner import ScenarioFabric
from lab.vm.calls import handover
from tests.command_line import parsed
from tests.unit.running import Running, run
from tests.unit.scenario.test_judge import storm

if TYPE_CHECKING:
    from collections.abc import Iterator

INCAST = read_topology(library.OWN.parent / "topologies" / "incast.yaml")
GONE = Holder(2**22 + 1, 1)
"""A process that there is not."""


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setenv(STATE_HOME, str(tmp_path / "state"))
    monkeypatch.delenv("ROCELAB_IN_VM", raising=False)
    return run(INCAST, tmp_path, monkeypatch)


def broken(running: Running, name: str = "pfc-storm", holder: Holder | None = None) -> Challenge:
    made = Challenge(running.state)
    made.prepare()
    made.begin(ChallengeInfo(name, str(library.OWN), 1, 1000.0, holder or Holder.current()))
    return made


def scenario(*words: str) -> Result:
    return CliRunner().invoke(app, ["scenario", *words])


def answer(*words: str, code: int = 0) -> Any:
    done = scenario(*words, "--json")
    assert done.exit_code == code, done.exception
    told = json.loads(done.stdout)
    adapter(f"scenario {words[0]}").validate_python(told)
    return told


def refused(*words: str) -> str:
    error = scenario(*words).exception
    assert isinstance(error, LabError)
    assert error.exit_code == 2
    return str(error)


def test_hints_climb_a_ladder_and_stay_at_its_end(running: Running) -> None:
    broken(running)
    rungs = [answer("hint")["given"][-1]["rung"] for _ in range(6)]
    assert rungs == ["symptom", "where", "counter", "command", "what it shows", "what it shows"]
    assert answer("hint")["left"] == 0
    assert challenge_record.required(Challenge(running.state)).hints == 5
    assert "that was the last" in scenario("hint").stderr


def test_answers_are_judged_and_counted_until_one_is_right(running: Running) -> None:
    broken(running)
    assert answer("check", "--cause", "incast", "--where", "h8", code=1)["verdict"] == "wrong"
    elsewhere = answer("check", "--cause", "pfc-storm", "--where", "leaf1--spine1", code=1)
    assert elsewhere["verdict"] == "right cause, wrong place"
    assert "h8" not in elsewhere["told"]
    assert answer("check", "--cause", "pfc-storm", "--where", "h8")["verdict"] == "right"
    answer("check", "--cause", "pfc-storm", "--where", "h7", code=1)
    about = challenge_record.required(Challenge(running.state))
    assert (about.wrong, about.solved) == (2, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("check", "--cause", "pfc-strom", "--where", "h8"),
            "there is no cause 'pfc-strom': did you mean 'pfc-storm'",
        ),
        (("check", "--cause", "pfc-storm", "--where", "h9"), "no place 'h9' in fabric incast: "),
        (("break", "gray-loss"), "fabric incast has a challenge: rocelab scenario fix ends it, or rocelab down"),
        (("break", "gray-loss", "--random"), "gray-loss is not picked at random: omit NAME"),
        (("break", "gray-lost"), "there is no scenario 'gray-lost'"),
        (("run", "gray-loss"), "fabric incast has a challenge"),
    ],
)
def test_what_cannot_be_is_told_and_counts_for_nothing(running: Running, words: tuple[str, ...], told: str) -> None:
    before = broken(running).about()
    assert told in refused(*words)
    assert Challenge(running.state).about() == before


@pytest.mark.parametrize(
    "words", [("hint",), ("check", "--cause", "incast", "--where", "h1"), ("fix",), ("explain",)]
)
@pytest.mark.usefixtures("running")
def test_without_a_challenge_there_is_nothing_to_find(words: tuple[str, ...]) -> None:
    assert refused(*words) == "fabric incast has no challenge: rocelab scenario break hides something"


def test_no_fabric_is_told_as_ever(running: Running) -> None:
    shutil.rmtree(running.state.directory)
    assert refused("hint").startswith("no fabric runs: ")


def test_fix_has_it_go_on_judges_and_takes_the_score_once(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = broken(running)

    def go_on(_: ChallengeInfo) -> None:
        shutil.copytree(storm(tmp_path / "made").finished(), made.recording)
        made.end("")

    (tmp_path / "made").mkdir()
    monkeypatch.setattr(challenge_process, "go_on", go_on)
    monkeypatch.setattr(wall_clock, "now", lambda: 1090.0)
    answer("hint")
    answer("check", "--cause", "pfc-storm", "--where", "h8")
    told = answer("fix", "-o", str(tmp_path / "kept"))
    assert told["verified"]["outcome"] == "pass"
    assert Path(told["verified"]["recording"]).parent == tmp_path / "kept"
    wanted = {
        "scenario": "pfc-storm", "when": 1000.0, "seconds": 90.0, "hints": 1, "wrong": 0, "solved": True,
        "answer": {"cause": "pfc-storm", "place": "h8"}, "guess": {"cause": "pfc-storm", "place": "h8"},
    }  # fmt: skip
    assert told["score"] == wanted
    assert answer("explain")["score"] == wanted
    assert answer("score") == [wanted]
    assert "pfc-storm" in scenario("score").stdout
    assert "it was fixed already" in str(scenario("fix").exception)


def test_explain_tells_everything_and_gives_up(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(running, "incast")
    monkeypatch.setattr(wall_clock, "now", lambda: 1012.0)
    told = answer("explain")
    assert told["cause"] == "capacity"
    assert told["where"][0] == "leaf1:swp6"
    assert told["text"].startswith("Incast: ")
    assert told["hints"][0]["rung"] == "symptom"
    assert (told["score"]["solved"], told["score"]["seconds"]) == (False, 12.0)
    answer("check", "--cause", "capacity", "--where", "h4")
    assert answer("explain")["score"]["solved"] is False
    assert len(answer("score")) == 1
    assert "it is still broken" in scenario("explain").stderr


def test_a_run_that_ended_badly_is_told_by_fix(running: Running) -> None:
    broken(running).end("ib_write_bw gave up")
    error = scenario("fix").exception
    assert isinstance(error, OperationFailed)
    assert "ib_write_bw gave up" in str(error)


def test_its_faults_are_told_of_and_healed_by_nobody_else(running: Running) -> None:
    broken(running)
    ledger = Ledger.of(running.state)
    hidden = ledger.injected(ledger.begin(Entry(0, "pauses-ignored", "h1", {}, holder=Holder.current())))
    own = ledger.injected(ledger.begin(Entry(0, "link-delay", "h2", {"delay": "1ms"})))
    listed = CliRunner().invoke(app, ["fault", "ls", "--json"]).stdout
    assert [entry["number"] for entry in json.loads(listed)] == [own.number]
    told = CliRunner().invoke(app, ["fault", "heal", str(hidden.number)]).exception
    assert str(told).startswith(f"there is no fault {hidden.number} that you have injected")
    assert "pauses" not in str(told)
    new = CliRunner().invoke(app, ["fault", "inject", "pauses-ignored", "h1"]).exception
    assert str(new).startswith("fabric incast has a challenge")


def test_one_whose_attendant_was_killed_is_mended_by_the_next_command(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = broken(running, holder=GONE)
    ended: list[Any] = []
    monkeypatch.setattr(process, "kill", lambda pids, **_: ended.extend(pids))
    shown = CliRunner().invoke(app, ["fault", "ls"])
    assert "the challenge of incast is over: whoever attended it was killed" in shown.stderr
    assert made.ended() == "whoever attended it was killed"
    assert ended == []
    assert CliRunner().invoke(app, ["fault", "ls"]).stderr == ""
    assert challenge_record.lasting(running.state) is None


def test_the_folder_is_roots_and_goes_with_the_fabric(running: Running) -> None:
    made = broken(running)
    assert running.state.challenge.stat().st_mode & 0o777 == 0o700
    running.state.forget()
    assert made.about() is None
    assert not running.state.challenge.exists()


@pytest.mark.usefixtures("running")
def test_break_builds_breaks_and_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, int]] = []

    @contextlib.contextmanager
    def challenging(_: object, found: Any, _folder: Path, seed: int, _began: float) -> Iterator[None]:
        begun.append((found.name, seed))
        yield

    monkeypatch.setattr(challenge_process, "challenging", challenging)
    monkeypatch.setattr(output, "ignore_from_now", lambda: None)
    monkeypatch.setattr(fault_engine, "heal_abandoned", lambda *_: [])
    told = answer("break", "pfc-storm")
    assert told == {"fabric": "incast", "workload": "h1 writes to h8 and h2 to h5, with eight QPs each", "level": 1}
    found = ScenarioFabric(open_fabric("incast"), keep=True)
    monkeypatch.setattr(command, "fabric_for", lambda *_: contextlib.nullcontext(found))
    for number in range(7):
        drawn = answer("break", "--level", "3", "--seed", str(number))
        assert drawn["level"] == 3
        name, seed = begun[-1]
        assert (seed, name in drawn["workload"]) == (number, False)
        answer("break", "--level", "3", "--seed", str(number))
        assert begun[-1] == (name, number)
    assert len({name for name, _ in begun}) > 3
    assert answer("break", "--random")["fabric"] == "incast"


def test_a_scenario_without_an_answer_cannot_be_hidden(running: Running, tmp_path: Path) -> None:
    from tests.unit.scenario.test_library import GOOD  # noqa: PLC0415 - a scenario of the least that one can be

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "still_life.py").write_text(GOOD)
    told = refused("break", "still-life", "--path", str(tmp_path / "mine"))
    assert told == "scenario still-life has no answer: give its SCENARIO one, or choose another"
    assert "can be picked" in refused("break", "--path", str(tmp_path / "mine"))
    assert not running.state.challenge.exists()


def test_scores_of_the_vm_are_fetched_and_what_is_none_is_not(
    running: Running,  # noqa: ARG001 - its state is the test's
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    score = {"scenario": "incast", "when": 5.0, "seconds": 1.0, "hints": 0, "wrong": 3, "solved": False}
    read = {**score, "answer": None, "guess": None}
    with monkeypatch.context() as inside:
        inside.setenv(handover.IN_VM, "1")
        inside.delenv(STATE_HOME, raising=False)
        inside.setattr(scores, "GUEST_CACHE", tmp_path / "guest")
        scores.keep(score)
    assert scores.all_scores() == []
    (tmp_path / "guest" / "scores" / "bad.json").write_text('{"scenario": "x"}')
    (tmp_path / "guest" / "scores" / "link.json").symlink_to("/etc/hostname")
    scores.collect(tmp_path / "guest")
    assert scores.all_scores() == [read]
    assert list((tmp_path / "guest" / "scores").iterdir()) == []
    scores.collect(tmp_path / "nowhere")


def test_what_the_guest_puts_in_place_of_scores_does_no_harm(
    running: Running,  # noqa: ARG001 - its state is the test's
    tmp_path: Path,
) -> None:
    """On a file system without xattrs, links and FIFOs of the guest are real ones."""
    score = {"scenario": "incast", "when": 5.0, "seconds": 1.0, "hints": 0, "wrong": 3, "solved": False}
    folder, other = tmp_path / "guest" / "scores", tmp_path / "other"
    (folder / "folder.json").mkdir(parents=True)
    os.mkfifo(folder / "fifo.json")
    (folder / "large.json").write_text(json.dumps(score) + " " * 5000, encoding="utf-8")
    (folder / "score.json").write_text(json.dumps(score), encoding="utf-8")
    scores.collect(tmp_path / "guest")
    assert [each.name for each in folder.iterdir()] == ["folder.json"]
    assert len(scores.all_scores()) == 1

    folder.rename(tmp_path / "moved")
    other.mkdir()
    (other / "mine.json").write_text(json.dumps(score), encoding="utf-8")
    folder.symlink_to(other)
    scores.collect(tmp_path / "guest")
    assert (other / "mine.json").exists()
    assert len(scores.all_scores()) == 1


def test_scores_of_tests_in_the_vm_are_not_fetched(
    running: Running,  # noqa: ARG001 - its state is the test's
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed tests cannot take back what they kept: they have a folder of their own from the beginning."""
    score = {"scenario": "incast", "when": 5.0, "seconds": 1.0, "hints": 0, "wrong": 3, "solved": False}
    read = {**score, "answer": None, "guess": None}
    with monkeypatch.context() as inside:
        inside.setenv(handover.IN_VM, "1")
        inside.setenv(STATE_HOME, str(tmp_path / "own"))
        inside.setattr(scores, "GUEST_CACHE", tmp_path / "guest")
        scores.keep(score)
        assert scores.all_scores() == [read]
    assert not (tmp_path / "guest").exists()


def test_the_time_of_a_challenge_counts_within_one_call_of_the_vm(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shell or a test there, all commands have the environment of the one that began it."""
    monkeypatch.setattr(wall_clock, "PAIRS", tmp_path / "pairs")
    monkeypatch.setenv(handover.IN_VM, "1")
    monkeypatch.setenv(STATE_HOME, str(tmp_path / "own"))
    monkeypatch.setenv(wall_clock.CALLED_AT, "1000.0")
    wall_clock.note(time.monotonic() - 42, 1000.0)
    broken(running, "incast")
    assert answer("explain")["score"]["seconds"] > 41


def labelled() -> Any:
    told = json.loads(scenario("score", "--nika").stdout)
    adapter("scenario score --nika").validate_python(told)
    return told


def test_scores_have_labels_of_the_fault_and_of_the_last_answer(running: Running) -> None:
    broken(running)
    answer("check", "--cause", "capacity", "--where", "h7", code=1)
    answer("check", "--cause", "pfc-storm", "--where", "h8")
    answer("check", "--cause", "incast", "--where", "h7", code=1)  # after the right one
    answer("explain")
    (score,) = labelled()
    assert score["ground_truth"] == {
        "is_anomaly": True,
        "root_causes": [{"resource_id": "h8", "fault_type": "pfc-storm"}],
    }
    assert score["submission"]["root_causes"] == [{"resource_id": "h8", "fault_type": "pfc-storm"}]
    assert score["solved"] is True


def test_capacity_is_no_anomaly(running: Running) -> None:
    broken(running, "incast")
    answer("check", "--cause", "pfc-storm", "--where", "h4", code=1)
    answer("explain")
    (score,) = labelled()
    assert score["ground_truth"] == {"is_anomaly": False, "root_causes": []}
    assert score["submission"]["is_anomaly"] is True


def test_scores_without_an_answer_have_no_labels(running: Running) -> None:
    """Those of older versions, and the submission of a user who gave none."""
    scores.keep({"scenario": "incast", "when": 5.0, "seconds": 1.0, "hints": 0, "wrong": 3, "solved": False})
    assert labelled() == []
    assert len(answer("score")) == 1
    broken(running)
    answer("explain")
    assert labelled()[0]["submission"] is None


def test_a_challenge_of_an_older_version_is_read(running: Running) -> None:
    made = broken(running)
    file = running.state.challenge / "about.json"
    file.write_text(json.dumps({key: value for key, value in json.loads(file.read_text()).items() if key != "guess"}))
    assert made.about() == broken(running).about()


@pytest.mark.parametrize("refused_here", [True, False])
def test_exec_of_agents_is_refused_while_a_challenge_lasts(running: Running, refused_here: bool) -> None:
    """After it, and for everybody else, the command is run: it fails here for want of a namespace."""
    broken(running, holder=None if refused_here else GONE)
    words = ["exec", *(["--not-in-challenge"] if refused_here else []), "h1", "true"]
    error = CliRunner().invoke(app, words).exception
    assert isinstance(error, LabError)
    assert ("has a challenge, whose answer" in str(error)) is refused_here


def test_a_score_that_cannot_be_kept_stops_nothing(
    running: Running,  # noqa: ARG001 - its state is the test's
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "state").write_text("in the way")
    scores.keep({"scenario": "incast"})
    assert "the score is not kept" in capsys.readouterr().err


def test_it_goes_where_the_fabric_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.backends import fabric_state  # noqa: PLC0415

    monkeypatch.setattr(fabric_state, "FABRICS", tmp_path / "none")
    monkeypatch.delenv("ROCELAB_VM")
    monkeypatch.setattr(vm_routing, "_shared_vm", lambda: ("state", "running"))
    for words in (["break", "--random"], ["hint"], ["check", "--cause", "x", "--where", "y"], ["fix"], ["explain"]):
        assert vm_routing.runs_in_vm(parsed(["scenario", *words]))
    for words in (["score"], ["ls"], ["judge", "fix"], ["run", "incast"]):
        assert not vm_routing.runs_in_vm(parsed(["scenario", *words]))


def test_the_story_that_the_page_and_the_tour_draw() -> None:
    words = "scenario break --level 3 --seed 23"
    root = library.OWN.parent
    assert all(words in (root / place).read_text() for place in ("lab/docs/tenant.md", "scripts/tour"))
    assert command._random(library.OWN, 3, 23).name == "evpn-vni-mismatch"
