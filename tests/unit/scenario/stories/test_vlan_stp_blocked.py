"""The scenario vlan-stp-blocked, judged: each check has a recording that it passes, fails, and cannot tell of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.model.load import read_topology
from lab.scenario import library
from lab.scenario.judge import judge
from lab.telemetry.read.program_series import ECHO, STREAM
from lab.telemetry.store import recording_folder as files
from tests.unit.telemetry.made import Made

if TYPE_CHECKING:
    from pathlib import Path

SECONDS: Final = {"baseline": 2.0, "flood": 1.0, "inject": 1.0, "observe": 15.0, "fix": 10.0, "verify": 2.0}
EVERY: Final = 20_000_000
CUT, BESIDE = "h1:h3", "h3:h5"
ADDRESS: Final = {CUT: "10.1.10.2", BESIDE: "10.1.10.3"}
SILENT: Final = {CUT: [("inject", 0.1, "observe", 12.3), ("fix", 0.5, "fix", 8.2)], BESIDE: []}
"""Of each pair, from where in a phase to where there is no answer, in seconds: 13.2 and 7.7 of them."""
RATES: Final = {"h1:h3": 48_000, "h2:h4": 46_000}
"""Kbit/s of each stream."""
SENT: Final = {"spine1:swp2": 24_000_000, "spine1:swp1": 500_000, "spine2:swp1": 700}
"""Bytes in the baseline."""
FLOODED: Final = ("leaf1:swp1", "leaf1:swp2", "spine1:swp2", "spine1:swp3", "h3:eth1", "h5:eth1")
COUNTS: Final = {**dict.fromkeys(FLOODED, 204), "h4:eth1": 3}
"""Packets of the flood: sent by switches, received by hosts."""
DARK, REPAIRED = "the-outage-matches-the-timers", "the-repair-causes-an-outage"
BY_PINGS: Final = {DARK, REPAIRED, "other-hosts-are-not-affected"}


class Played:
    """A run of phases that are as long as they say; not yet ended."""

    def __init__(self, path: Path, sent: dict[str, int], counts: dict[str, int], without: str = "") -> None:
        self.made = Made(path, read_topology(library.OWN.parent / "topologies" / "vlans.yaml"))
        about = {"scenario": "vlan-stp-blocked", "seed": 1, "params": {}}
        files.write_json(self.made.folder.facts("params"), about)
        self.begins: dict[str, int] = {}
        self.first = self.made.ns
        for name, seconds in SECONDS.items():
            self.begins[name] = self.made.ns
            if name != without:
                self.made.phase(name)
            if name == "baseline":
                for port, octets in sent.items():
                    self.made.counters(port)["priority"]["tx_bytes"][0] += octets
            if name == "flood":
                for port, packets in counts.items():
                    way = "rx_packets" if port.startswith("h") else "tx_packets"
                    self.made.counters(port)["priority"][way][0] += packets
            for _ in range(round(seconds * 20)):
                self.made.sample()
            if name != without:
                self.made.phase("")

    def pings(self, pair: str, silences: list[tuple[str, float, str, float]]) -> None:
        node, address = pair.partition(":")[0], ADDRESS[pair]
        gone = [(self.at(*each[:2]), self.at(*each[2:])) for each in silences]
        sent = enumerate(range(self.first, self.made.ns, EVERY), 1)
        said = "\n".join(_line(address, number, ns, gone) for number, ns in sent)
        self._note({"text": ECHO, "pair": pair, "node": node, "address": address})
        self._ran(node, ["ping", "-D", "-O", address], said)

    def stream(self, pair: str, rate: int) -> None:
        node = pair.partition(":")[2]
        tenths = range(round(SECONDS["baseline"] * 10))
        form = "[  5]   {:.2f}-{:.2f}   sec   600 KBytes  {} Kbits/sec"
        said = "\n".join(form.format(each / 10, (each + 1) / 10, rate) for each in tenths)
        self._note({"text": STREAM, "pair": pair, "node": node, "port": 40001, "began": self.begins["baseline"]})
        self._ran(node, ["iperf3", "--server", "--port", "40001"], said)

    def at(self, phase: str, seconds: float) -> int:
        return self.begins[phase] + round(seconds * 1e9)

    def _note(self, told: dict[str, Any]) -> None:
        files.append_line(self.made.folder.notes, {"ns": self.first, "kind": "note", **told})

    def _ran(self, node: str, argv: list[str], said: str) -> None:
        ran = {"argv": argv, "exit_code": 0, "stdout": said + "\n", "stderr": ""}
        files.append_line(self.made.folder.commands, {"ns": self.first, "end_ns": self.made.ns, "node": node, **ran})


def _line(address: str, number: int, ns: int, gone: list[tuple[int, int]]) -> str:
    stamp = f"[{(ns + 10**18) // 10**9}.{ns % 10**9 // 1000:06}]"
    if any(begin <= ns < end for begin, end in gone):
        return f"{stamp} no answer yet for icmp_seq={number}"
    return f"{stamp} 64 bytes from {address}: icmp_seq={number} ttl=64 time=0.5 ms"


def played(
    path: Path,
    silent: dict[str, Any] = SILENT,
    *,
    rates: dict[str, int] = RATES,
    sent: dict[str, int] = SENT,
    counts: dict[str, int] = COUNTS,
    without: str = "",
) -> Made:
    run = Played(path, sent, counts, without)
    for pair, silences in silent.items():
        run.pings(pair, silences)
    for pair, rate in rates.items():
        run.stream(pair, rate)
    return run.made


def outcomes(made: Made) -> dict[str, str]:
    return {name: verdict.outcome.value for name, verdict in judge(made.finished()).verdicts.items()}


def wrong(made: Made) -> list[str]:
    return [name for name, outcome in outcomes(made).items() if outcome != "pass"]


def test_a_good_run_passes(tmp_path: Path) -> None:
    assert wrong(played(tmp_path / "run")) == []


@pytest.mark.parametrize(
    ("cut", "found"),
    [
        ([("inject", 0.1, "observe", 10.5), SILENT[CUT][1]], [DARK]),
        ([("inject", 0.1, "observe", 14.0), SILENT[CUT][1]], [DARK]),
        ([("inject", 0.1, "inject", 0.9), SILENT[CUT][1]], [DARK]),
        ([SILENT[CUT][0], ("fix", 0.5, "fix", 0.9)], [REPAIRED]),
        ([SILENT[CUT][0], ("fix", 0.1, "verify", 1.5)], [REPAIRED]),
    ],
)
def test_how_long_it_was_dark_decides(cut: list[Any], found: list[str], tmp_path: Path) -> None:
    assert wrong(played(tmp_path / "run", {**SILENT, CUT: cut})) == found


def test_others_who_wait_too_fail(tmp_path: Path) -> None:
    beside = [("observe", 1.0, "observe", 2.0)]
    found = wrong(played(tmp_path / "run", {**SILENT, BESIDE: beside}))
    assert found == ["other-hosts-are-not-affected"]


def test_a_second_spine_that_carries_fails(tmp_path: Path) -> None:
    assert wrong(played(tmp_path / "run", sent={**SENT, "spine2:swp2": 30_000})) == ["one-spine-carries-everything"]


@pytest.mark.parametrize("rate", [30_000, 90_000])
def test_two_uplinks_fail_and_so_does_half_a_link(rate: int, tmp_path: Path) -> None:
    assert wrong(played(tmp_path / "run", rates={**RATES, "h1:h3": rate})) == ["two-pairs-share-one-uplink"]


@pytest.mark.parametrize("change", [*(dict([each]) for each in ((port, 0) for port in FLOODED)), {"h4:eth1": 200}])
def test_a_flood_that_is_nowhere_or_in_the_other_vlan_fails(change: dict[str, int], tmp_path: Path) -> None:
    assert wrong(played(tmp_path / "run", counts={**COUNTS, **change})) == ["each-link-carries-a-broadcast-once"]


def test_a_flood_that_comes_twice_fails(tmp_path: Path) -> None:
    assert wrong(played(tmp_path / "run", counts={**COUNTS, "h5:eth1": 400})) == [
        "each-link-carries-a-broadcast-once"
    ]


@pytest.mark.parametrize(
    ("without", "unknown"),
    [
        ("baseline", {"one-spine-carries-everything", "two-pairs-share-one-uplink"}),
        ("flood", {"each-link-carries-a-broadcast-once"}),
        ("observe", BY_PINGS - {REPAIRED}),
        ("fix", {REPAIRED}),
    ],
)
def test_a_phase_that_is_missing_makes_it_unknown(without: str, unknown: set[str], tmp_path: Path) -> None:
    found = outcomes(played(tmp_path / "run", without=without))
    assert {name for name, outcome in found.items() if outcome == "unknown"} == unknown
    assert "fail" not in found.values()


def test_without_pings_or_streams_and_of_a_run_that_was_killed_it_is_unknown(tmp_path: Path) -> None:
    found = outcomes(played(tmp_path / "without", silent={}, rates={}))
    assert {name for name, outcome in found.items() if outcome == "unknown"} == {
        *BY_PINGS, "two-pairs-share-one-uplink"
    }  # fmt: skip
    killed = judge(played(tmp_path / "killed").killed()).verdicts
    assert {verdict.outcome.value for verdict in killed.values()} == {"unknown"}
