"""Notes of ``rocelab rdma`` next to its figures: other counters that changed, and limits of the figures."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.kit import recorded_command
from lab.cli.schemas import adapter
from lab.cli.traffic import rdma
from lab.rdma import measure, perftest, window_counters
from lab.rdma.measure import BandwidthTest, Pair, Verb
from lab.telemetry.read.transfers import read_transfers
from lab.telemetry.store.recording_folder import Folder
from tests.unit.rdma.test_measure import PAIR

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from typer.testing import Result


class Counted:
    """Stands in for the meter of two devices."""

    seconds = 2.0
    first = 12.5

    def __enter__(self) -> Counted:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def moved(self) -> dict[str, dict[str, int]]:
        return {"h1": {"sent_pkts": 3}}

    def balance(self) -> window_counters.Balance:
        return window_counters.Balance(3, 3, 0)


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fabric on which everything is measured at once."""

    def bandwidth(pairs: Sequence[Pair], test: BandwidthTest, **_: Any) -> tuple[measure.BandwidthResult, ...]:
        took = float(test.duration or 1)
        return tuple(
            measure.BandwidthResult("h1", "h2", "write", 10**8, 1500, took, 0.0, 65536, 1, 4096, 106) for _ in pairs
        )

    def latency(pairs: Sequence[Pair], test: measure.LatencyTest, **_: Any) -> tuple[measure.LatencyResult, ...]:
        return tuple(measure.summarise(pair, test, [1e-6, 2e-6], 4096) for pair in pairs)

    monkeypatch.setattr(rdma, "open_fabric", lambda _: SimpleNamespace(state=None))
    monkeypatch.setattr(recorded_command, "_recorded_into", lambda _: [])
    monkeypatch.setattr(rdma, "find_pair", lambda *_: PAIR)
    monkeypatch.setattr(rdma, "_meter", lambda *_: Counted())
    monkeypatch.setattr(rdma, "arrivals", lambda *_: ())
    monkeypatch.setattr(perftest, "measure_bandwidth", bandwidth)
    monkeypatch.setattr(perftest, "measure_latency", latency)


def said(*words: str) -> Result:
    """What ``rocelab rdma`` answers about h1 and h2."""
    result = CliRunner().invoke(app, ["rdma", words[0], "h1", "h2", *words[1:]])
    assert result.exit_code == 0, result.output
    return result


def test_transfers_are_kept_in_recordings_of_the_fabric(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What each pair moved in the measured time, and when that began."""
    folder = Folder(tmp_path)
    folder.about.write_text("{}")
    monkeypatch.setattr(recorded_command, "_recorded_into", lambda _: [tmp_path])
    said("bw", "--duration", "2", "--pair", "h1:h2")
    one, other = read_transfers(folder.transfers)
    assert one == other
    assert (one.ns, one.seconds, one.pair, one.verb) == (12_500_000_000, 2.0, "h1:h2", "write")
    assert (one.bytes, one.qps) == (1500 * 65536, 1)


@pytest.mark.parametrize(("words", "margin"), [(("--duration", "2"), 1), (("--iterations", "20"), 0)])
def test_the_transfer_outside_the_measured_time_is_mentioned(words: tuple[str, ...], margin: int) -> None:
    """Counters of ports have all of it: of a run of 2 s twice as much as was measured."""
    told = said("bw", *words).stdout
    assert ("for 1 s before and 1 s after the 2 s measured" in " ".join(told.split())) is bool(margin)
    data = said("bw", *words, "--json").stdout
    adapter("rdma bw").validate_json(data)
    assert json.loads(data)["margin_s"] == margin


@pytest.mark.parametrize(
    ("verb", "cpus", "warned"), [("write", 1, True), ("write", 2, False), ("send", 1, False), ("", 1, False)]
)
def test_latency_that_is_not_the_network_s_alone_says_so(
    monkeypatch: pytest.MonkeyPatch, verb: str, cpus: int, *, warned: bool
) -> None:
    monkeypatch.setattr("lab.rdma.perftest.os.sched_getaffinity", lambda _: set(range(cpus)))
    asked = ["--verb", verb] if verb else []
    told = said("lat", *asked)
    assert ("warning: the programs of a write poll" in told.stderr) is warned
    assert f"RDMA {verb or Verb.SEND.value} latency" in told.stdout
    data = said("lat", *asked, "--json").stdout
    adapter("rdma lat").validate_json(data)
    assert bool(json.loads(data)["warnings"]) is warned
