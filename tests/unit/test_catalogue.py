"""The evaluation of runs of the catalogue: how often each passed, and which evidence comes first."""

from __future__ import annotations

import argparse
import json
import queue
import random
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from lab.diagnose.causes.cause_table import CAUSES
from lab.faults.fault_request import find_kind, place_of, read_parameters
from lab.model.load import read_topology
from lab.scenario import library
from lab.telemetry.read.recording import Recording
from lab.telemetry.store import recording_folder as files
from tests.bench import catalogue
from tests.bench.catalogue import Played, answered, by_topology, halved
from tests.bench.catalogue_parts import draws, healthy, random_faults
from tests.bench.shares import shares_of
from tests.fabric.command import TOPOLOGIES
from tests.random_kills import KINDS, LATER, Outcome, drawn, look_at_the_recording, told
from tests.unit.telemetry.made import Made


def run(*outcomes: str) -> dict[str, Any]:
    worst = next((outcome for outcome in outcomes if outcome != "pass"), "pass")
    checks = [{"name": f"check-{number}", "outcome": each, "evidence": each} for number, each in enumerate(outcomes)]
    return {"outcome": worst, "checks": checks}


def test_every_run_must_pass() -> None:
    assert Played("incast", 2, [run("pass"), run("pass")]).good
    assert not Played("incast", 2, [run("pass"), run("pass", "fail")]).good
    assert not Played("incast", 2, [run("pass"), run("unknown")]).good
    assert not Played("incast", 2, [run("pass")]).good
    assert not Played("incast", 0, []).good


def test_what_did_not_pass_is_told_first() -> None:
    played = Played("incast", 3, [run("pass", "pass"), run("pass", "fail"), run("pass", "unknown")])
    assert list(played.checks()) == [
        ("check-0", 3, ["pass", "pass", "pass"]),
        ("check-1", 1, ["fail", "unknown", "pass"]),
    ]


@pytest.mark.parametrize("answer", [json.dumps({"error": {"kind": "OperationFailed", "exit_code": 1}}), ""])
def test_a_run_without_a_verdict_is_told_in_its_own_words(answer: str) -> None:
    played = answered("leaf-dies", 5, subprocess.CompletedProcess((), 1, answer, "mend\nerror: not within 30 s\n"))
    assert (played.good, played.passed, played.said) == (False, 0, "mend\nerror: not within 30 s")


def test_who_has_been_ended_begins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, and in the midst of a group of scenarios: a command in a VM would start it again."""
    said: list[tuple[str, ...]] = []
    work: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
    work.put(["incast", "pfc-storm"])

    def rocelab(*words: str) -> subprocess.CompletedProcess[str]:
        said.append(words)
        if "incast" in words:
            player.end()
        return subprocess.CompletedProcess(words, 0, "[]", "")

    monkeypatch.setattr(catalogue, "rocelab", rocelab)
    asked = argparse.Namespace(seeds=5, output=Path("recordings"))
    player = catalogue.Player(0, asked, work, queue.SimpleQueue())
    player.run()
    assert [words[:2] for words in said] == [("vm", "up"), ("vm", "run"), ("vm", "down")]
    player.run()
    assert len(said) == 3


def test_scenarios_of_one_fabric_stay_together_until_a_vm_would_have_most() -> None:
    groups = by_topology(library.names())
    assert sorted(name for group in groups for name in group) == library.names()
    assert all(len({library.topology_of(library.find(name)) for name in group}) == 1 for group in groups)
    assert halved([["a", "b", "c", "d"], ["e"]], 2) == [["a", "b", "c"], ["d"], ["e"]]


def test_runs_are_shared_out_and_each_has_a_seed_of_its_own() -> None:
    assert shares_of(50, 7, 2) == [(25, 7), (25, 32)]
    assert shares_of(5, 1, 3) == [(2, 1), (2, 3), (1, 5)]
    assert shares_of(1, 1, 2) == [(1, 1)]


def alone(folder: Path, marked: int) -> dict[str, Any]:
    """What is made of a run that has the first phase of scenario incast, with so many marks."""
    made = Made(folder / "run", read_topology(TOPOLOGIES / "incast.yaml"), hosts=["h1", "h4"])
    made.phase("alone")
    made.counters("leaf1:swp6")["queue"]["ecn_marked"][3] += marked
    made.sample()
    made.phase("")
    told = healthy.judged(Recording.open(made.finished()), "idle", 3, "nothing")
    return {"failed": told.failed, "faults": told.faults, "checks": told.checks}


def test_a_check_that_fails_on_a_healthy_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "marked").mkdir()
    quiet, marked = alone(tmp_path, 0), alone(tmp_path / "marked", 5)
    assert (quiet["failed"], quiet["checks"]["pass"], quiet["checks"]["fail"]) == ([], 1, 0)
    assert quiet["checks"]["unknown"] > 100
    assert marked["failed"] == ["incast, quiet-alone: 5 packets marked, 0 pauses sent"]
    assert not healthy.good(marked)


@pytest.mark.parametrize("cause", draws.CAUSES)
def test_faults_are_drawn_by_their_seed_and_can_be_injected_where_they_are(cause: str) -> None:
    topology = read_topology(TOPOLOGIES / "incast.yaml")
    found = [draws.drawn(cause, random.Random(seed)) for seed in range(40)]
    assert found == [draws.drawn(cause, random.Random(seed)) for seed in range(40)]
    assert len({str(each) for each in found}) > 3
    assert cause in {each.name for each in CAUSES}
    for each in found:
        for kind, place, parameters in each.faults:
            read_parameters(find_kind(kind), {name.replace("_", "-"): of for name, of in parameters.items()})
            place_of(topology, find_kind(kind), place)
        for pair in each.pairs:
            assert set(pair.split(":")) <= {host.name for host in topology.hosts}


def test_a_random_fault_that_is_not_named_is_told(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", read_topology(TOPOLOGIES / "incast.yaml"), hosts=["h1", "h4"])
    for phase in ("baseline", "observe"):
        made.phase(phase)
        made.sample()
        made.phase("")
    fault = draws.drawn("gray-loss", random.Random(1))
    told = asdict(random_faults.judged(Recording.open(made.finished()), 1, fault))
    assert (told["cause"], told["first"], told["placed"], told["among_three"]) == ("gray-loss", False, False, False)
    assert not random_faults.good(told)
    assert random_faults.good({"placed": True, "alarm": ""})
    assert not random_faults.good({"placed": True, "alarm": "gray-loss"})


def test_kills_are_drawn_by_their_seed_from_all_that_a_run_tells() -> None:
    lines = {"incast": 9, "gray-loss": 20}
    kills = list(drawn(3, 400, lines))
    assert kills == list(drawn(3, 400, lines))
    assert kills != list(drawn(4, 400, lines))
    assert {kill.scenario for kill in kills} == set(lines)
    assert {kill.wanted[0] for kill in kills} == set(KINDS)
    assert {kill.line for kill in kills if kill.scenario == "incast"} == set(range(10))
    assert {kill.later for kill in kills} == set(range(LATER + 1))


def test_the_recording_of_a_command_that_was_killed_is_complete_with_all_of_its_lines_only(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", read_topology(TOPOLOGIES / "incast.yaml"))
    files.write_json(made.folder.facts("params"), {"scenario": "incast", "seed": 1, "params": {}})
    made.phase("alone")
    made.sample()
    made.phase("")
    lines, _ = told(made.finished())
    assert lines == 2
    (kill,) = drawn(1, 1, {"incast": lines})
    whole, short = Outcome(kill, "command"), Outcome(kill, "command")
    look_at_the_recording(whole, tmp_path, lines)
    look_at_the_recording(short, tmp_path, lines + 1)
    assert whole.wrong == []
    assert short.wrong == ["its command was killed, and the recording is called complete with 2 of 3 lines"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--healthy", "3", "incast"), "leave out the names"),
        (("--into", "page.md"), "give --hidden N as well"),
        (("--into", "page.md", "--random", "3"), "give --hidden N as well"),
    ],
)
def test_what_excludes_each_other_is_refused(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["catalogue", *words])
    with pytest.raises(SystemExit) as ended:
        catalogue.main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_kinds_of_runs_combine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each is played with its own count; one that is not right makes the whole fail."""
    asked: list[tuple[str, list[tuple[int, int]]]] = []

    def played(module: str, _: str, parts: list[tuple[int, int]], *__: str) -> list[dict[str, Any]]:
        asked.append((module.rpartition(".")[2], parts))
        return [{"wrong": [], "failed": [], "faults": [], "placed": module.endswith("random_faults"), "alarm": ""}]

    monkeypatch.setattr("tests.bench.shares.played", played)
    for module in (healthy, random_faults):
        monkeypatch.setattr(module, "show", lambda _: None)
    words = ["catalogue", "--healthy", "4", "--random", "2", "--vms", "2", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    assert catalogue.main() == 0
    assert asked == [("healthy", [(2, 1), (2, 3)]), ("random_faults", [(1, 1), (1, 2)])]
