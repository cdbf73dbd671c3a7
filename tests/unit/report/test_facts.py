"""The facts of a report, compared with the data written into the recording."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.cli.kit.scenario_verdict import told_of
from lab.errors import InvalidInput
from lab.report.markdown import seen, write_markdown
from lab.report.markdown_text import code, plain
from lab.report.run_facts import ReportFacts, gather
from lab.report.scenario_text import Check, ScenarioText
from lab.scenario import library
from lab.telemetry.read.recording import Recording
from lab.telemetry.store import recording_folder as files
from tests.unit.scenario.test_judge import LINK, SECONDS, STEPS, TOPOLOGY, storm
from tests.unit.telemetry.made import START, STEP, Made

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.telemetry.made import Made as Making


def facts_of(path: Path) -> ReportFacts:
    return gather(Recording.open(path), told_of(path, library.OWN))


def injected(making: Making, at: int, healed: int | None = None) -> Making:
    told = {"kind": "pause-storm", "place": "h8", "parameters": {"a": "1"}}
    files.append_line(making.folder.truth, {"ns": at, "did": "inject", **told})
    if healed is not None:
        files.append_line(making.folder.truth, {"ns": healed, "did": "heal", "kind": "pause-storm", "place": "h8"})
    return making


def seconds(making: Making) -> float:
    return (making.ns - START) / 1e9


def test_figures_say_where_they_are_from(tmp_path: Path) -> None:
    facts = facts_of(storm(tmp_path).finished())
    (sent,) = (
        each for each in facts.figures if each.of == "leaf2:swp6" and each.kind == "tx_bps" and each.phase == "verify"
    )
    assert (sent.priority, sent.series) == (3, "tx_prio3_bytes")
    assert sent.value == pytest.approx(LINK * 8e9 / STEP * STEPS / (STEPS + 1))
    paused = {each.phase: each.value for each in facts.figures if each.of == "leaf2:swp6" and each.kind == "paused"}
    assert paused["baseline"] == 0
    assert paused["observe"] == pytest.approx(1, rel=0.03)
    assert paused["verify"] == 0
    assert not [each for each in facts.figures if each.of == "h3:eth1"]


def test_faults_begin_and_end_as_the_truth_has_it(tmp_path: Path) -> None:
    healed = facts_of(injected(storm(tmp_path), START + 10**9, START + 3 * 10**9).finished())
    (fault,) = healed.faults
    assert (fault.kind, fault.place, fault.parameters) == ("pause-storm", "h8", {"a": "1"})
    assert (fault.start, fault.end) == (1.0, 3.0)
    assert "PFC frames without end" in fault.says
    (tmp_path / "left").mkdir()
    assert facts_of(injected(storm(tmp_path / "left"), START).finished()).faults[0].end is None


def test_a_standstill_is_told_with_its_moment(tmp_path: Path) -> None:
    making = storm(tmp_path)
    first = START + (STEPS + 2) * STEP
    facts = facts_of(injected(making, first - 500_000_000).finished())
    assert [pause.port for pause in facts.standstills] == ["leaf2:swp6", "spine1:swp2", "leaf1:swp1", "h1:eth1"]
    assert all(pause.open and pause.end == facts.seconds for pause in facts.standstills)
    told = next(seen(facts))
    since = (facts.standstills[0].start - facts.faults[0].start) * 1000
    assert told.startswith("leaf2:swp6 was stopped in priority 3 to the end")
    assert f"{since:.1f} ms after the injection" in told


def test_pauses_of_congestion_are_no_standstill(tmp_path: Path) -> None:
    making = Made(tmp_path / "run", TOPOLOGY)
    for number, kind in enumerate(("paused", "paused", "resumed")):
        making.event(
            START + number * 4_000_000, source="port", kind=kind, node="h1", interface="eth1", number=3, value=1
        )
    for _ in range(STEPS):
        making.sample()
    facts = facts_of(making.finished())
    ((port, start, end),) = [(pause.port, pause.start, pause.end) for pause in facts.pauses]
    assert (port, start) == ("h1:eth1", 0)
    assert end == pytest.approx(0.008)
    assert facts.standstills == ()
    assert facts.told.why == "no scenario made this recording"


def test_a_whole_analysis_has_all_its_parts(tmp_path: Path) -> None:
    making = injected(storm(tmp_path), START + 10**9, START + 3 * 10**9)
    files.append_line(
        making.folder.commands,
        {"ns": START + 5, "end_ns": START + 9, "node": "h1", "argv": ["echo", "a b"], "exit_code": 7,
         "stdout": "said\n```\n# no heading\n", "stderr": ""},
    )  # fmt: skip
    text = write_markdown(facts_of(making.finished()))
    parts = [line for line in text.splitlines() if line.startswith("## ")]
    assert parts == [
        "## What broke", "## Timeline", "## How it was seen", "## Evidence", "## Checks", "## Figures",
        "## Root cause", "## What was ruled out", "## Fix", "## Verification", "## Prevention",
        "## What stays unknown",
    ]  # fmt: skip
    assert "````text\n$ rocelab exec h1 -- echo 'a b'\nsaid\n```\n# no heading\n````\nExit code 7" in text
    assert "| pauses-spread-hop-by-hop | **pass** |" in text
    assert "| leaf2:swp6 | `tx_prio3_bytes` |" in text
    assert "**`pause-storm h8 a=1`**" in text
    assert "| 100% |" in text.split("## Verification")[1]


def test_a_killed_recording_is_marked(tmp_path: Path) -> None:
    text = write_markdown(facts_of(storm(tmp_path).killed()))
    assert "> **This recording is incomplete**: its recorder still runs, or was killed." in text
    assert "The run ended early" in text.split("## What stays unknown")[1]


def test_what_is_damaged_is_one_line(tmp_path: Path) -> None:
    making = storm(tmp_path)
    path = making.finished()
    with making.folder.events.open("a") as file:
        file.write(json.dumps({"ns": START, "source": "port", "kind": "paused", "number": "three"}) + "\n")
    with pytest.raises(InvalidInput, match=r"run is damaged: ValueError|run: is damaged: ValueError"):
        gather(Recording.open(path), ScenarioText())


def test_a_scenario_that_is_not_here_leaves_figures(tmp_path: Path) -> None:
    making = storm(tmp_path)
    files.write_json(making.folder.facts("params"), {"scenario": "mine", "seed": 1, "params": {}})
    facts = facts_of(making.finished())
    assert facts.told.why.startswith("there is no scenario 'mine'")
    assert facts.figures
    files.write_json(making.folder.facts("params"), {"scenario": "pfc-storm", "params": {"hold": "long"}})
    assert "is not as pfc-storm makes it: hold: " in facts_of(making.folder.path).told.why


def test_text_of_a_recording_is_never_markup(tmp_path: Path) -> None:
    evil = "<script>*x*|[a](b)`#"
    assert plain(evil) == r"\<script\>\*x\*\|\[a\](b)\`\#"
    assert plain("tx_prio3_bytes\n_x_") == r"tx_prio3_bytes \_x\_"
    assert code("a``b`") == "``` a``b` ```"
    facts = facts_of(storm(tmp_path).finished())
    hostile = replace(facts, told=ScenarioText("x", evil, "pass", (Check(evil, evil, "pass", evil),)), fabric=evil)
    assert "<script" not in write_markdown(hostile).replace(r"\<script", "").replace("`<script", "").replace(
        "`` <script", ""
    )


def test_a_recording_without_phases_is_one(tmp_path: Path) -> None:
    making = Made(tmp_path / "run", TOPOLOGY)
    making.sample()
    making.counters("h1:eth1")["priority"]["tx_bytes"][3] += 1000
    for _ in range(SECONDS):
        making.sample()
    facts = facts_of(making.finished())
    assert [phase.name for phase in facts.phases] == ["whole run"]
    assert [(each.of, each.phase) for each in facts.figures] == [("h1:eth1", "whole run")]


def test_transfers_are_told_with_their_phase_and_times(tmp_path: Path) -> None:
    making = storm(tmp_path)
    told = {"src": "h1", "dst": "h6", "size": 65536, "qps": 1, "messages": 100, "seconds": 0.5}
    for verb, times in (("write", []), ("read", [0.004, 0.006, 0.005])):
        files.append_line(making.folder.transfers, {"ns": START + 5, **told, "verb": verb, "times": times})
    facts = facts_of(making.finished())
    assert [(each.pair, each.phase) for each in facts.transfers] == [("h1:h6", "baseline")] * 2
    assert [each.goodput_bps for each in facts.transfers] == pytest.approx([104_857_600] * 2)
    text = write_markdown(facts).split("### Transfers")[1]
    assert "| h1:h6 | write | baseline | 0.000 s | 500 ms | 6.554 MB | 104.9 Mb/s |  |" in text
    assert "| h1:h6 | read | baseline | 0.000 s | 500 ms | 6.554 MB | 104.9 Mb/s | 5 ms, 6 ms |" in text
    assert "### Transfers" not in write_markdown(replace(facts, transfers=()))
