"""The scenario spine-as-bottleneck, judged: each check has a recording that it passes, fails, and cannot tell of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.model.load import read_topology
from lab.scenario import library
from lab.scenario.judge import judge
from lab.telemetry.store import recording_folder as files
from tests.unit.telemetry.made import Made

if TYPE_CHECKING:
    from pathlib import Path

NS: Final = 10**9
PHASES: Final = ("baseline", "few", "inject", "observe", "fix", "verify")
FRAME, TUNNEL, OTHER = 4000, 50, 600
"""Octets of a frame and of the tunnel's headers, and how many frames h5 sends in a second."""
Flood = dict[str, int]


def flood(sent: int, fits: int, depth: int) -> Flood:
    """What is counted while h1 sends so many frames a second, of whose copies so many fit on the uplink."""
    copies = 3 * sent
    return {
        "sent": sent, "offered": copies + OTHER, "carried": fits + OTHER, "lost": copies - fits,
        "refused": copies - fits, "others": 0, "octets": 0, "depth": depth, "h4": fits // 3,
    }  # fmt: skip


QUIET: Final = flood(0, 0, 0)
MANY: Final = flood(1250, 2600, 230_000)
GOOD: Final = {"few": flood(625, 1875, 0), "observe": MANY}
STREAM: Final = dict.fromkeys(PHASES, 20)
"""Mb/s of h5 that arrive."""
TIMES: Final = {**dict.fromkeys(PHASES, 0.5), "inject": 18.0, "observe": 18.9}
"""ms of h5's pings."""


def played(
    path: Path, floods: dict[str, Flood], stream: dict[str, int] = STREAM, times: dict[str, float] = TIMES,
    *, vteps: int = 3, without: str = "",
) -> Made:  # fmt: skip
    """A run of phases of a second each; not yet ended."""
    made = Made(path, read_topology(library.topology_of(library.find("spine-as-bottleneck"))), hosts=[])
    files.write_json(made.folder.facts("params"), {"scenario": "spine-as-bottleneck", "seed": 1, "params": {}})
    began = made.ns
    arrived: list[str] = []
    answers: list[str] = []
    for phase in PHASES:
        told = floods.get(phase, QUIET)
        made.counters("leaf1:swp1")["queue"]["depth_bytes"][0] = told["depth"]
        if phase != without:
            made.phase(phase)
        if phase == "few":
            _ran(made, "leaf1", ["bridge", "fdb"], json.dumps(_entries(vteps)))
        _count(made, told)
        for _ in range(20):
            made.sample()
            tenths = len(arrived)
            if made.ns - began >= (tenths + 1) * NS // 10:
                start, kbits = tenths / 10, stream[phase] * 1000
                line = f"[  5]  {start:.2f}-{start + 0.1:.2f}  sec  1 KBytes  {kbits} Kbits/sec"
                arrived.append(line)
            stamp = made.ns + 10**18
            answers.append(
                f"[{stamp // NS}.{stamp % NS // 1000:06}] 64 bytes from 10.1.20.2: icmp_seq={len(answers) + 1} ttl=64"
                f" time={times[phase]} ms"
            )
        if phase != without:
            made.phase("")
    _told(made, began, "\n".join(arrived), "\n".join(answers))
    return made


def _entries(vteps: int) -> list[dict[str, Any]]:
    flooded = [{"mac": "00:00:00:00:00:00", "dst": f"10.252.0.{each + 2}"} for each in range(vteps)]
    return [*flooded, {"mac": "02:1a:00:06:00:01", "master": "bridge"}]


def _count(made: Made, told: Flood) -> None:
    loud, other, up = (made.counters(f"leaf1:swp{number}") for number in (2, 3, 1))
    for port, frames in ((loud, told["sent"]), (other, OTHER)):
        port["priority"]["rx_packets"][0] += frames
        port["priority"]["rx_bytes"][0] += FRAME * frames
    up["queue"]["offered_packets"][0] += told["offered"]
    up["queue"]["drop_packets"][0][1] += told["lost"]
    up["priority"]["tx_packets"][0] += told["carried"]
    up["priority"]["tx_bytes"][0] += (FRAME + TUNNEL) * told["carried"] + told["octets"]
    loud["group"]["drop_packets"][0] += told["refused"]
    other["group"]["drop_packets"][0] += told["others"]
    for host in ("h2", "h3", "h4"):
        made.counters(f"{host}:eth1")["priority"]["rx_packets"][0] += told["h4"] if host == "h4" else told["sent"]


def _ran(made: Made, node: str, argv: list[str], said: str, began: int | None = None) -> None:
    done = {"argv": argv, "exit_code": 0, "stdout": said, "stderr": ""}
    files.append_line(made.folder.commands, {"ns": began or made.ns, "end_ns": made.ns, "node": node, **done})


def _told(made: Made, began: int, arrived: str, answers: str) -> None:
    of = {"ns": began, "kind": "note", "pair": "h5:h6"}
    files.append_line(made.folder.notes, {**of, "text": "stream", "node": "h6", "port": 5201, "began": began})
    files.append_line(made.folder.notes, {**of, "text": "echo", "node": "h5", "address": "10.1.20.2"})
    _ran(made, "h6", ["iperf3", "--port", "5201"], arrived, began)
    _ran(made, "h5", ["ping", "10.1.20.2"], answers, began)


def outcomes(made: Made) -> dict[str, str]:
    return {name: verdict.outcome.value for name, verdict in judge(made.finished()).verdicts.items()}


def failing(made: Made) -> list[str]:
    return [name for name, outcome in outcomes(made).items() if outcome != "pass"]


def test_a_good_run_passes(tmp_path: Path) -> None:
    assert failing(played(tmp_path / "run", GOOD)) == []


@pytest.mark.parametrize(
    ("phase", "change", "wrong"),
    [
        ("few", {"offered": 2 * 625 + OTHER}, "one-copy-for-each-vtep"),
        ("observe", {"offered": 2 * 1250 + OTHER}, "one-copy-for-each-vtep"),
        ("few", {"octets": -TUNNEL * 1875}, "bytes-match-the-copies"),
        ("few", {"h4": 500}, "each-host-receives-one-copy"),
        ("few", {"lost": 1}, "the-uplink-is-full"),
        ("observe", {"lost": 0}, "the-uplink-is-full"),
        ("observe", {"carried": 2500}, "the-uplink-is-full"),
        ("observe", {"refused": 0}, "only-broadcasts-are-dropped"),
        ("observe", {"others": 1}, "only-broadcasts-are-dropped"),
        ("observe", {"depth": 100_000}, "pings-wait-in-the-queue"),
    ],
)
def test_what_is_counted_decides(phase: str, change: Flood, wrong: str, tmp_path: Path) -> None:
    floods = {**GOOD, phase: {**GOOD[phase], **change}}
    assert failing(played(tmp_path / "run", floods)) == [wrong]


def test_as_many_copies_as_vteps_and_no_others(tmp_path: Path) -> None:
    assert failing(played(tmp_path / "run", GOOD, vteps=2)) == ["one-copy-for-each-vtep"]


@pytest.mark.parametrize("phase", ["few", "observe", "verify"])
def test_a_stream_that_loses_fails(phase: str, tmp_path: Path) -> None:
    made = played(tmp_path / "run", GOOD, {**STREAM, phase: 10})
    assert failing(made) == ["only-broadcasts-are-dropped"]


@pytest.mark.parametrize(("phase", "ms"), [("observe", 1.0), ("observe", 40.0), ("verify", 18.0)])
def test_how_long_pings_take_decides(phase: str, ms: float, tmp_path: Path) -> None:
    made = played(tmp_path / "run", GOOD, times={**TIMES, phase: ms})
    assert failing(made) == ["pings-wait-in-the-queue"]


def test_what_a_run_does_not_show_is_unknown(tmp_path: Path) -> None:
    """A phase is missing; and then the run was killed."""
    for phase, known in (("few", {"pings-wait-in-the-queue"}),
                         ("observe", {"bytes-match-the-copies", "each-host-receives-one-copy"})):  # fmt: skip
        found = outcomes(played(tmp_path / phase, GOOD, without=phase))
        assert {name for name, outcome in found.items() if outcome != "unknown"} == known
    killed = judge(played(tmp_path / "killed", GOOD).killed()).verdicts
    assert {verdict.outcome.value for verdict in killed.values()} == {"unknown"}
