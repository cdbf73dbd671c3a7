"""``rocelab expect`` on a fabric that seems to run, and on what perftest's commands wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.dataplane.port_layout import Drop
from lab.errors import ExitCode, LabError, UsageError
from tests.unit.model.qos.fabrics import fabric
from tests.unit.running import Running, run

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = [
    {"src": "h1", "dst": "h4", "goodput_bps": 33_000_000},
    {"src": "h2", "dst": "h4", "goodput_bps": 32_000_000},
]
BW = {"pairs": PAIRS, "all": {"goodput_bps": 65_000_000}}
LAT = {"pairs": [{"src": "h1", "dst": "h4", "p50_s": 1e-5, "p99_s": 3e-4}]}


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    return run(fabric("pfc-ecn"), tmp_path, monkeypatch)


def judged(*words: str, text: str = "") -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(app, ["expect", *words, "--json"], input=text)
    if isinstance(result.exception, LabError):
        raise result.exception
    return result.exit_code, json.loads(result.stdout)


def values(*words: str, text: str = "") -> list[Any]:
    return [each["value"] for each in judged(*words, text=text)[1]["expectations"]]


def test_what_ports_counted(running: Running) -> None:
    queues, priorities = running.maps.counters["queue"], running.maps.counters["priority"]
    queues["drop_packets"][running.id("leaf1:swp3"), 3, Drop.HEADROOM] = 5
    queues["drop_packets"][running.id("h1:eth1"), 0, Drop.LIMIT] = 2
    queues["drop_bytes"][running.id("h1:eth1"), 0, Drop.LIMIT] = 1000
    queues["ecn_marked"][running.id("leaf1:swp3"), 3] = 9
    queues["watermark_bytes"][running.id("leaf1:swp3"), 3] = 70_000
    queues["watermark_bytes"][running.id("leaf1:swp4"), 3] = 90_000
    priorities["tx_pause"][running.id("leaf1:swp3"), 3] = 11
    priorities["tx_pause"][running.id("leaf1:swp4"), 4] = 1
    expected = {
        "drops == 0": 7,
        "drops(leaf1) == 0": 5,
        "drops(h1:eth1,leaf1:swp3) == 0": 7,
        "queue0_drop_limit_bytes == 1KB": 1000,
        "marks == 9": 9,
        "queue3_watermark_bytes == 1": 90_000,
        "queue3_watermark_bytes(leaf1:swp3) == 1": 70_000,
        "pauses == 1": 12,
        "tx_prio3_pause(leaf1) == 1": 11,
        "storms == 0": 0,
        "ignored == 0": 0,
        "rx_cnp == 0": 0,
    }
    assert values(*expected) == list(expected.values())


@pytest.mark.usefixtures("running")
def test_exit_codes_say_the_worst() -> None:
    for words, code, verdict in (
        (["drops == 0"], ExitCode.PASS, "pass"),
        (["drops == 0", "goodput > 1Mbit"], ExitCode.UNKNOWN, "unknown"),
        (["drops == 1", "goodput > 1Mbit"], ExitCode.FAIL, "fail"),
        (["drops == 0 and drops > 0"], ExitCode.FAIL, "fail"),
    ):
        found, document = judged(*words)
        assert (found, document["verdict"]) == (code, verdict), words


def test_what_was_measured_needs_no_fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.backends.fabric_state.FABRICS", tmp_path / "fabrics")
    bw, lat = tmp_path / "bw.json", tmp_path / "lat.json"
    bw.write_text(json.dumps(BW), encoding="utf-8")
    lat.write_text(json.dumps(LAT), encoding="utf-8")
    words = ["goodput > 1Mbit", "goodput(h2,h4) > 1Mbit", "goodput(h4,h2) > 1Mbit", "p99(h1,h4) < 1ms", "p50 < 1ms"]
    files = ["--from", str(bw), "--from", str(lat)]
    assert values(*words, *files) == [65_000_000, 32_000_000, None, 3e-4, 1e-5]
    assert values("goodput(h1,h4) > 1Mbit", "--from", "-", text=json.dumps(BW)) == [33_000_000]
    assert values("p50 < 1ms", "--from", str(bw)) == [None]


def test_a_fabric_without_lossless_ports_counted_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(replace(fabric("pfc-ecn"), qos=None), tmp_path, monkeypatch)
    code, document = judged("drops == 0")
    assert (code, document["expectations"][0]["seen"]) == (3, "not counted: the fabric has no qos")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["dropps == 0"], "there is no figure dropps: did you mean 'drops'"),
        (["drops(leaf7) == 0"], "no node or tier 'leaf7' in fabric t"),
        (["goodput(h1) > 1Mbit"], "goodput is of two hosts: write"),
        (["drops == 0", "--from", "none.json"], "none.json is no JSON: "),
        (["drops == 1Mbit"], "drops is a plain number"),
    ],
)
@pytest.mark.usefixtures("running")
def test_what_cannot_be_is_refused(words: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        judged(*words)


@pytest.mark.usefixtures("running")
def test_the_table_says_what_was_seen() -> None:
    result = CliRunner().invoke(app, ["expect", "drops == 0", "p99 < 1ms"])
    cells = [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if line[:1] == "│"
    ]
    assert cells == [["drops == 0", "0", "pass"], ["p99 < 1ms", "nothing was measured: see --from", "unknown"]]
