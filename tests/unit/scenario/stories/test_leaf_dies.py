"""The scenario leaf-dies, judged: each check has a recording that it passes, fails, and cannot tell of."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.model.load import read_topology
from lab.scenario import library
from lab.scenario.judge import judge
from lab.telemetry.store import recording_folder as files
from tests.unit.telemetry.made import Made

if TYPE_CHECKING:
    from pathlib import Path

SECONDS: Final = {"baseline": 1.0, "inject": 1.0, "observe": 1.0, "fix": 1.0, "hang": 4.5, "mend": 1.0, "verify": 1.0}
EVERY: Final = 10_000_000
ON_TWO, ON_ONE = "h1:h3", "h2:h3"
SILENT: Final[dict[str, list[tuple[str, float, str, float]]]] = {
    ON_TWO: [("inject", 0.1, "inject", 0.35), ("hang", 0.2, "hang", 3.0)],
    ON_ONE: [("inject", 0.1, "fix", 0.5), ("hang", 0.2, "mend", 0.5)],
}
"""Of each pair, from where in a phase to where there is no answer, in seconds."""
DOWN: Final = [("inject", "spine1:swp1"), ("inject", "h1:eth1"), ("inject", "h2:eth1"), ("inject", "leaf1:swp1")]


class Played:
    """A run of phases that are as long as they say; not yet ended."""

    def __init__(self, path: Path, without: str = "") -> None:
        topology = read_topology(library.OWN.parent / "topologies" / "incast.yaml")  # of its counters nothing is read
        self.made = Made(path, topology)
        files.write_json(self.made.folder.facts("params"), {"scenario": "leaf-dies", "seed": 1, "params": {}})
        self.begins: dict[str, int] = {}
        self.first = self.made.ns
        for name, seconds in SECONDS.items():
            self.begins[name] = self.made.ns
            if name != without:
                self.made.phase(name)
            for _ in range(round(seconds * 20)):
                self.made.sample()
            if name != without:
                self.made.phase("")

    def down(self, *links: tuple[str, str]) -> None:
        for number, (phase, port) in enumerate(links, 1):
            node, _, interface = port.partition(":")
            told = {"source": "kernel", "kind": "link", "node": node, "interface": interface, "up": False}
            self.made.event(self.begins[phase] + number, **told, admin_up=True, mtu=4300)

    def pings(self, pair: str, silences: list[tuple[str, float, str, float]]) -> None:
        node, address, folder = pair.partition(":")[0], "10.1.10.3", self.made.folder
        told = {"kind": "note", "text": "echo", "pair": pair, "node": node, "address": address}
        files.append_line(folder.notes, {"ns": self.first, **told})
        gone = [(self.at(*each[:2]), self.at(*each[2:])) for each in silences]
        sent = enumerate(range(self.first, self.made.ns, EVERY), 1)
        said = "\n".join(_line(number, ns, gone) for number, ns in sent)
        ran = {"argv": ["ping", "-D", "-O", address], "exit_code": 0, "stdout": said, "stderr": ""}
        files.append_line(folder.commands, {"ns": self.first, "end_ns": self.made.ns, "node": node, **ran})

    def at(self, phase: str, seconds: float) -> int:
        return self.begins[phase] + round(seconds * 1e9)


def _line(number: int, ns: int, gone: list[tuple[int, int]]) -> str:
    stamp = f"[{(ns + 10**18) // 10**9}.{ns % 10**9 // 1000:06}]"
    if any(begin <= ns < end for begin, end in gone):
        return f"{stamp} no answer yet for icmp_seq={number}"
    return f"{stamp} 64 bytes from 10.1.10.3: icmp_seq={number} ttl=64 time=0.5 ms"


def played(
    path: Path, silent: dict[str, Any] = SILENT, down: list[tuple[str, str]] = DOWN, without: str = ""
) -> Made:
    run = Played(path, without)
    run.down(*down)
    for pair, silences in silent.items():
        run.pings(pair, silences)
    return run.made


def outcomes(made: Made) -> dict[str, str]:
    return {name: verdict.outcome.value for name, verdict in judge(made.finished()).verdicts.items()}


def test_a_good_run_passes(tmp_path: Path) -> None:
    assert set(outcomes(played(tmp_path / "run")).values()) == {"pass"}


@pytest.mark.parametrize(
    ("pair", "silence", "wrong"),
    [
        (ON_TWO, ("inject", 0.1, "observe", 0.2), "carrier-loss-acts-at-once"),
        (ON_ONE, ("inject", 0.1, "observe", 0.8), "a-single-homed-host-is-cut-off"),
        (ON_TWO, ("hang", 0.2, "hang", 1.0), "a-hang-takes-three-missed-packets"),
        (ON_TWO, ("hang", 0.2, "hang", 4.4), "a-hang-takes-three-missed-packets"),
        (ON_TWO, ("verify", 0.2, "verify", 0.3), "both-hosts-recover"),
        (ON_ONE, ("baseline", 0.2, "baseline", 0.3), "both-hosts-recover"),
    ],
)
def test_when_there_was_no_answer_decides(
    pair: str, silence: tuple[str, float, str, float], wrong: str, tmp_path: Path
) -> None:
    silent = deepcopy(SILENT)
    silent[pair] = [*(each for each in silent[pair] if each[0] != silence[0]), silence]
    found = outcomes(played(tmp_path / "run", silent))
    assert [name for name, outcome in found.items() if outcome != "pass"] == [wrong]


@pytest.mark.parametrize("down", [DOWN[1:], DOWN[:2], [*DOWN, ("hang", "h2:eth1")], [*DOWN, ("hang", "spine1:swp1")]])
def test_who_loses_a_carrier_and_when_decides(down: list[tuple[str, str]], tmp_path: Path) -> None:
    found = outcomes(played(tmp_path / "run", down=down))
    assert [name for name, outcome in found.items() if outcome != "pass"] == ["all-links-lose-carrier"]


def test_a_host_that_no_leaf_carries_is_no_failover(tmp_path: Path) -> None:
    """h1 is cut off as h2 is: both of the checks that look at it fail."""
    found = outcomes(played(tmp_path / "run", {**SILENT, ON_TWO: SILENT[ON_ONE]}))
    assert {name for name, outcome in found.items() if outcome == "fail"} == {
        "carrier-loss-acts-at-once", "a-single-homed-host-is-cut-off", "a-hang-takes-three-missed-packets",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("without", "known"),
    [
        ("observe", {"a-hang-takes-three-missed-packets", "both-hosts-recover"}),
        ("hang", {"carrier-loss-acts-at-once", "a-single-homed-host-is-cut-off", "both-hosts-recover"}),
    ],
)
def test_a_phase_that_is_missing_makes_it_unknown(without: str, known: set[str], tmp_path: Path) -> None:
    found = outcomes(played(tmp_path / "run", without=without))
    assert {name for name, outcome in found.items() if outcome != "unknown"} == known


def test_without_pings_and_of_a_run_that_was_killed_it_is_unknown(tmp_path: Path) -> None:
    found = outcomes(played(tmp_path / "without", {}))
    assert {name for name, outcome in found.items() if outcome != "unknown"} == {"all-links-lose-carrier"}
    killed = judge(played(tmp_path / "killed").killed()).verdicts
    assert {verdict.outcome.value for verdict in killed.values()} == {"unknown"}
