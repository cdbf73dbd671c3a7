"""The sampler's process: its rate, the samples that are asked for, a full disk, a fabric that goes away."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.telemetry.sample.child_process import ChildProcess
from lab.telemetry.sample.sampler import Sampler
from lab.telemetry.store.log_store import LogStore
from lab.telemetry.store.rawlog import LogWriter
from lab.telemetry.store.sample_layout import CounterColumn, CounterTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HZ = 100


@dataclass
class Clockwork:
    """Counts how often it was read."""

    width: int = 1
    reads: int = 0
    sections: tuple[CounterTable, ...] = (
        CounterTable("things", ("node",), (("a",),), (0,), (CounterColumn("x", 0),)),
    )

    def read(self, words: NDArray[np.uint64]) -> None:
        self.reads += 1
        words[0] = self.reads

    def close(self) -> None:
        self.reads = 0


def log_at(path: Path) -> LogWriter:
    header = {"sections": [Clockwork().sections[0].as_data()], "port_events": None, "nodes": []}
    return LogWriter(path, header, 0, 1)


def started(log: LogWriter, live: Path) -> ChildProcess:
    sampler = Sampler(log, [Clockwork()], 10**9 // HZ, live.exists)
    child = ChildProcess("the sampler", sampler.run, [log.descriptor])
    log.close()
    return child


def test_samples_that_are_asked_for_are_taken_at_once(tmp_path: Path) -> None:
    sampler = started(log_at(tmp_path / "log"), tmp_path)
    times = [sampler.ask({"do": "mark"})["ns"] for _ in range(3)]
    said = sampler.ask({"do": "end"})
    assert sampler.end() == 0
    log = LogStore(tmp_path / "log")
    taken = log.samples["ns"].tolist()
    assert set(times) < set(taken)
    assert taken == sorted(taken)
    assert taken[-1] == said["ns"]
    assert said["samples"] == len(taken)
    assert log.column("things", "x")[:, 0].tolist() == list(range(1, len(taken) + 1))
    assert not said["failure"]
    assert not said["gone"]


def test_what_is_due_has_the_rate(tmp_path: Path) -> None:
    sampler = started(log_at(tmp_path / "log"), tmp_path)
    while sampler.ask({"do": "mark"})["samples"] < 4 * HZ:
        pass
    sampler.ask({"do": "end"})
    sampler.end()
    samples = LogStore(tmp_path / "log").samples
    assert (samples["ns"] >= samples["due"]).all()


def test_a_full_disk_ends_the_samples_and_is_said(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.fail("this system has no /dev/full")
    log = log_at(tmp_path / "log")
    import os  # noqa: PLC0415

    os.dup2(os.open(full, os.O_WRONLY), log.descriptor)
    sampler = started(log, tmp_path)
    said = sampler.ask({"do": "mark"})
    assert said["failure"] == "No space left on device"
    assert sampler.ask({"do": "end"})["failure"] == "No space left on device"
    assert sampler.end() == 0
    assert len(LogStore(tmp_path / "log").samples["ns"]) == 0


def test_a_fabric_that_went_away_is_sampled_no_more(tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.touch()
    sampler = started(log_at(tmp_path / "log"), live)
    sampler.ask({"do": "mark"})
    live.unlink()
    while not (said := sampler.ask({"do": "mark"}))["gone"]:
        pass
    assert sampler.ask({"do": "end"})["samples"] == said["samples"]
    sampler.end()
    assert [event["kind"] for event in LogStore(tmp_path / "log").events()] == ["fabric_gone"]


def test_one_that_rests_takes_no_sample_until_it_is_woken(tmp_path: Path) -> None:
    sampler = started(log_at(tmp_path / "log"), tmp_path)
    before = sampler.ask({"do": "rest"})
    looks = [sampler.ask({"do": what}) for what in ("look", "mark", "look")]
    time.sleep(5 / HZ)
    looks.append(sampler.ask({"do": "look"}))
    assert [(look["samples"], look["ns"]) for look in looks] == [(before["samples"], before["ns"])] * 4
    woken = sampler.ask({"do": "wake"})
    assert woken["samples"] == before["samples"] + 1
    assert woken["ns"] > before["ns"] + 5 * 10**9 // HZ
    assert woken["skipped"] == before["skipped"]
    while sampler.ask({"do": "look"})["samples"] < woken["samples"] + 3:
        pass
    assert sampler.ask({"do": "end"})["samples"] > woken["samples"] + 3
    assert sampler.end() == 0


def test_one_that_is_ended_while_it_rests_has_what_was_there_before(tmp_path: Path) -> None:
    sampler = started(log_at(tmp_path / "log"), tmp_path)
    rested = sampler.ask({"do": "rest"})
    assert sampler.ask({"do": "end"})["ns"] == rested["ns"]
    assert sampler.end() == 0
    assert LogStore(tmp_path / "log").samples["ns"][-1] == rested["ns"]
