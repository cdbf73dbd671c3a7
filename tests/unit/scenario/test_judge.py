"""Recordings that are judged: each check of the incast and of the storm has one that it must fail."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.dataplane.port_layout import Drop
from lab.errors import UsageError
from lab.model.load import read_topology
from lab.scenario import library
from lab.scenario.judge import judge
from lab.scenario.verdict import VerdictOutcome
from lab.telemetry.store import recording_folder as files
from tests.unit.telemetry.made import STEP, Made

TOPOLOGY = read_topology(library.OWN.parent / "topologies" / "incast.yaml")
SECONDS = 2
STEPS = SECONDS * 1_000_000_000 // STEP
LINK = 100_000_000 // 8 * STEP // 1_000_000_000
"""Bytes that a link of 100 Mb/s carries between two samples."""


def made(folder: Path, scenario: str) -> Made:
    making = Made(folder / "run", TOPOLOGY)
    asked = {"scenario": scenario, "seed": 1, "params": {}}
    files.write_json(making.folder.facts("params"), asked)
    return making


def pass_time(making: Made, sent: dict[str, int]) -> None:
    """A phase's length, in which ports send so many bytes of priority 3 from sample to sample."""
    for _ in range(STEPS):
        for port, size in sent.items():
            making.counters(port)["priority"]["tx_bytes"][3] += size
        making.sample()


def job(making: Made, phase: str, ends: Sequence[float]) -> None:
    """A phase in which as many hosts write to h4, and are done so many seconds after its beginning."""
    making.phase(phase)
    for number, seconds in enumerate(ends, 1):
        moved = {"verb": "write", "size": 65536, "qps": 1, "messages": 100, "times": []}
        line = {"ns": making.ns, "src": f"h{number}", "dst": "h4", **moved, "seconds": seconds}
        files.append_line(making.folder.transfers, line)
    making.sample()
    making.phase("")


def incast(
    folder: Path,
    spoil: Callable[[Made], Any] = lambda _: None,
    shares: tuple[int, ...] = (33, 33, 33),
    ends: tuple[float, ...] = (1.58, 1.6, 1.61),
) -> Made:
    making = made(folder, "incast")
    job(making, "job-alone", (0.535,))
    job(making, "job-incast", ends)
    making.phase("alone")
    pass_time(making, {"h1:eth1": LINK, "leaf1:swp6": LINK})
    making.phase("")
    making.phase("incast")
    making.counters("leaf1:swp6")["queue"]["ecn_marked"][3] += 50
    for port in ("leaf1:swp3", "leaf1:swp4", "leaf1:swp5"):
        making.counters(port)["priority"]["tx_pause"][3] += 9
    spoil(making)
    sent = {f"h{number}:eth1": LINK * share // 100 for number, share in enumerate(shares, 1)}
    pass_time(making, {**sent, "leaf1:swp6": sum(sent.values())})
    making.phase("")
    return making


def outcomes(making: Made) -> dict[str, str]:
    return {name: verdict.outcome.value for name, verdict in judge(making.finished()).verdicts.items()}


def test_a_good_incast_passes(tmp_path: Path) -> None:
    assert set(outcomes(incast(tmp_path)).values()) == {"pass"}


def lost_at(port: str) -> Callable[[Made], None]:
    def spoil(making: Made) -> None:
        making.counters(port)["queue"]["drop_packets"][3][Drop.HEADROOM] += 1

    return spoil


def unmarked(making: Made) -> None:
    making.counters("leaf1:swp6")["queue"]["ecn_marked"][3] = 0


def test_each_check_of_the_incast_has_one_that_it_fails(tmp_path: Path) -> None:
    def failing(name: str, **words: Any) -> list[str]:
        (tmp_path / name).mkdir()
        return [check for check, outcome in outcomes(incast(tmp_path / name, **words)).items() if outcome == "fail"]

    assert failing("unmarked", spoil=unmarked) == ["marks-and-pauses"]
    assert failing("lossy", spoil=lost_at("leaf1:swp6")) == ["lossless"]
    assert failing("unfair", shares=(60, 20, 20)) == ["fair"]
    assert failing("slow", shares=(20, 20, 20)) == ["the-link-is-full"]
    assert failing("one-by-one", ends=(0.6, 1.2, 1.8)) == ["three-take-three-times-as-long"]
    assert failing("faster", ends=(1.5, 1.5, 1.5)) == ["three-take-three-times-as-long"]
    making = made(tmp_path, "incast")
    making.phase("alone")
    making.counters("leaf1:swp3")["priority"]["tx_pause"][3] += 1
    pass_time(making, {})
    making.phase("")
    assert outcomes(making)["quiet-alone"] == "fail"


def test_a_phase_that_never_came_is_unknown_and_so_is_a_run_that_was_killed(tmp_path: Path) -> None:
    making = made(tmp_path, "incast")
    making.phase("alone")
    pass_time(making, {})
    making.phase("")
    found = judge(making.finished())
    assert found.verdicts["quiet-alone"].outcome is VerdictOutcome.PASS
    assert found.verdicts["fair"].outcome is VerdictOutcome.UNKNOWN
    assert "has no phase incast: there is alone" in found.verdicts["fair"].evidence
    assert found.outcome is VerdictOutcome.UNKNOWN
    (tmp_path / "killed").mkdir()
    killed = judge(incast(tmp_path / "killed").killed())
    assert {verdict.outcome for verdict in killed.verdicts.values()} == {VerdictOutcome.UNKNOWN}


def storm(folder: Path, *, stuck: int = 1, wave: tuple[int, ...] = (1, 9, 20, 35), verify: int = 100) -> Made:
    making = made(folder, "pfc-storm")
    healthy = {"leaf2:swp6": LINK, "leaf2:swp3": LINK // 2}
    making.phase("baseline")
    pass_time(making, healthy)
    making.phase("inject")
    began = making.ns
    for port, after in zip(("leaf2:swp6", "spine1:swp2", "leaf1:swp1", "h1:eth1"), wave, strict=True):
        node, interface = port.split(":")
        making.event(
            began + after * 1_000_000, source="port", kind="paused", node=node, interface=interface, number=3, value=1
        )
    making.sample()
    making.phase("")
    making.phase("observe")
    paused = making.counters("leaf2:swp6")["priority"]["paused_ns"]
    paused[3] += (SECONDS * 10**9 + STEP) * stuck
    pass_time(making, {port: size * (1 - stuck) for port, size in healthy.items()})
    making.phase("")
    making.phase("verify")
    pass_time(making, {port: size * verify // 100 for port, size in healthy.items()})
    making.phase("")
    return making


def test_a_good_storm_passes(tmp_path: Path) -> None:
    assert set(outcomes(storm(tmp_path)).values()) == {"pass"}


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ({"stuck": 0}, {"the-storm-stops-the-leaf": "fail", "an-unrelated-pair-stops": "fail"}),
        ({"wave": (9, 1, 20, 35)}, {"pauses-spread-hop-by-hop": "fail"}),
        ({"verify": 50}, {"rate-recovers": "fail"}),
    ],
)
def test_each_check_of_the_storm_has_one_that_it_fails(tmp_path: Path, words: Any, wrong: dict[str, str]) -> None:
    found = outcomes(storm(tmp_path, **words))
    assert {name: outcome for name, outcome in found.items() if outcome != "pass"} == wrong


def test_a_loss_in_the_storm_fails(tmp_path: Path) -> None:
    making = made(tmp_path, "pfc-storm")
    making.phase("inject")
    making.sample()
    making.phase("observe")
    lost_at("leaf2:swp1")(making)
    pass_time(making, {})
    making.phase("")
    found = outcomes(making)
    assert found["nothing-is-lost"] == "fail"
    assert found["pauses-spread-hop-by-hop"] == "unknown"


def test_a_recording_cannot_have_code_of_its_own_run(tmp_path: Path) -> None:
    making = incast(tmp_path)
    (tmp_path / "incast.py").write_text("raise SystemExit('run')")
    asked = {"scenario": "incast", "folder": str(tmp_path), "seed": 1, "params": {}}
    files.write_json(making.folder.facts("params"), asked)
    assert judge(making.finished()).outcome is VerdictOutcome.PASS


def test_what_no_scenario_has_made_cannot_be_judged(tmp_path: Path) -> None:
    making = Made(tmp_path / "run", TOPOLOGY)
    making.phase("x")
    with pytest.raises(UsageError, match="was not made by a scenario"):
        judge(making.finished())


@pytest.mark.parametrize("params", [{"hold": "for ever"}, {"holt": "2s"}, None])
def test_parameters_that_it_does_not_take_are_told_in_a_line(tmp_path: Path, params: object) -> None:
    making = incast(tmp_path)
    files.write_json(making.folder.facts("params"), {"scenario": "incast", "seed": 1, "params": params})
    with pytest.raises(UsageError, match=r"is not as incast makes it: .*another version of the scenario"):
        judge(making.finished())
