"""``rocelab congestion`` on a fabric that seems to run."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.errors import LabError, UsageError
from tests.unit.model.qos.fabrics import fabric
from tests.unit.running import Running, run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    made = run(fabric("pfc-ecn"), tmp_path, monkeypatch)
    monkeypatch.setattr("lab.cli.traffic.congestion.open_maps", lambda _, **_options: made.maps)
    return made


def said(*words: str) -> str:
    result = CliRunner().invoke(app, ["congestion", *words, "--for", "1ms"])
    if isinstance(result.exception, LabError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_tree_begins_at_the_full_queue(running: Running) -> None:
    """h1 is paused by leaf1:swp3, whose group is in XOFF, for the queue to h2."""
    counters = running.maps.counters
    counters["queue"]["depth_bytes"][running.id("leaf1:swp4"), 3] = 455_000
    counters["group"]["xoff"][running.id("leaf1:swp3"), 3] = 1
    head, edge = said().splitlines()
    assert head.rstrip() == "leaf1:swp4, priority 3: up to 455 KB in its queue"
    assert "leaf1:swp3 pauses h1:eth1: 0% of the time, 0 XOFF" in edge
    (root,) = json.loads(said("--json", "--priority", "3"))
    assert (root["end"], root["depth"], root["pauses"][0]["peer"]) == ("leaf1:swp4", 455_000, "h1:eth1")
    assert said("--priority", "4") == "no port was paused in 1 ms\n"


def test_nics_with_cnps_have_a_row_of_what_was_counted_meanwhile(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts from before the observation do not count; a NIC without any has no row."""
    ports = running.maps.counters
    before, receiver, sender = running.id("h1:eth1"), running.id("h2:eth1"), running.id("h3:eth1")
    ports["np_cnp_sent"][before] = 7
    waited = threading.Event.wait

    def wait(event: threading.Event, timeout: float | None = None) -> bool:
        ports["np_ecn_marked_roce_packets"][receiver] += 3
        ports["np_cnp_sent"][receiver] += 1
        ports["rp_cnp_handled"][sender] += 1
        ports["rp_cnp_ignored"][sender] += 2
        return waited(event, timeout)

    monkeypatch.setattr(threading.Event, "wait", wait)
    text = said()
    for name in ("np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored"):
        assert name in text
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if ":eth1" in line]
    assert cells == [["h2:eth1", "60", "20", "0", "0"], ["h3:eth1", "0", "0", "20", "40"]]


@pytest.mark.usefixtures("running")
def test_without_cnps_there_is_no_table() -> None:
    assert said() == "no port was paused in 1 ms\n"


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("span", ["0s", "2h", "soon"])
def test_a_time_that_makes_no_sense_is_refused(span: str) -> None:
    result = CliRunner().invoke(app, ["congestion", "--for", span])
    assert isinstance(result.exception, UsageError)
