"""Causes that a report rules out: each has a figure of the recording as its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.report.markdown import write_markdown
from lab.report.run_facts import gather
from lab.report.scenario_text import ScenarioText
from lab.telemetry.read.recording import Recording
from tests.unit.report.test_facts import facts_of, injected
from tests.unit.scenario.test_judge import TOPOLOGY, storm
from tests.unit.telemetry.made import START, Made

if TYPE_CHECKING:
    from pathlib import Path

LOSS = "a drop counted by a port"
STOPPED = "a permanently stopped port"


def test_what_nothing_speaks_for_is_ruled_out_with_its_figure(tmp_path: Path) -> None:
    facts = facts_of(injected(storm(tmp_path), START + 10**9).finished())
    ruled = {each.what: each for each in facts.ruled}
    assert ruled[LOSS].because.startswith("0 packets dropped")
    assert ruled[LOSS].source == "queue{n}_drop_*_packets of all ports, phase observe"
    assert "a link failure" in ruled
    assert STOPPED not in ruled  # it is what happened
    text = write_markdown(facts).split("## What was ruled out")[1].split("## Fix")[0]
    assert "| a drop counted by a port | 0 packets dropped, for any reason | `queue{n}_drop" in text


def test_what_happened_is_not_ruled_out(tmp_path: Path) -> None:
    making = storm(tmp_path)
    phase = next(each for each in Recording.open(storm_of(tmp_path / "again")).phases if each.name == "observe")
    for kind, source in (("link", "kernel"), ("bgp", "routing")):
        making.event(
            (phase.start + phase.end) // 2, source=source, kind=kind, node="leaf1", interface="swp1", up=False
        )
    ruled = {each.what for each in facts_of(making.finished()).ruled}
    assert not ruled & {"a link failure", "a lost session"}
    assert LOSS in ruled


def storm_of(folder: Path) -> Path:
    folder.mkdir()
    return storm(folder).finished()


def test_which_counter_would_have_told_is_said_with_its_values(tmp_path: Path) -> None:
    facts = facts_of(storm(tmp_path).finished())
    (paused,) = [line for line in facts.alarms if "pause_duration" in line]
    assert "rx_prio3_pause_duration of " in paused
    assert paused.endswith("0.0% in phase baseline")
    assert paused in write_markdown(facts).split("## Prevention")[1].replace("\\_", "_")


def test_a_recording_without_samples_rules_nothing_out_and_without_a_scenario_has_no_cause(tmp_path: Path) -> None:
    empty = Recording.open(Made(tmp_path / "run", TOPOLOGY).finished())
    facts = gather(empty, ScenarioText())
    assert facts.ruled == ()
    assert facts.alarms == ()
    text = write_markdown(facts)
    assert "Nothing: the figures contain evidence" in text
    assert "## Root cause" not in text
    assert "## Prevention" not in text
