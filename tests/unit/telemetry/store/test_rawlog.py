"""The log of a recording: what is written is read, and a log that is cut anywhere is read up to there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from lab.errors import InvalidInput
from lab.telemetry.store.log_store import LogStore
from lab.telemetry.store.rawlog import LogFrameKind, LogWriter
from lab.telemetry.store.sample_layout import CounterColumn, CounterTable

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 6
WORDS = some.lists(some.integers(0, 2**64 - 1) | some.integers(0, 3), min_size=WIDTH, max_size=WIDTH)
SECTION = CounterTable("things", ("node", "number"), (("a",), ("b",)), (0, 3), (CounterColumn("x", 0),), 3, 1)


def written(path: Path, rows: list[list[int]]) -> Path:
    header = {"sections": [SECTION.as_data()], "port_events": None, "nodes": []}
    path.unlink(missing_ok=True)
    log = LogWriter(path, header, 0, WIDTH)
    for number, row in enumerate(rows):
        log.sample(number * 10, number * 10 - 1, 7, np.array(row, np.uint64))
    log.flush()
    log.close()
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=some.lists(WORDS, max_size=8), most=some.sampled_from([1, 64, 1 << 20]))
def test_what_is_written_is_read(tmp_path: Path, rows: list[list[int]], most: int) -> None:
    log = LogStore(written(tmp_path / "log", rows))
    found = [row for window in log.windows(most) for row in window.words(np.arange(WIDTH)).tolist()]
    assert found == rows
    assert log.samples["ns"].tolist() == [number * 10 for number in range(len(rows))]
    assert log.samples["due"].tolist() == [number * 10 - 1 for number in range(len(rows))]
    moved = [place for place in range(WIDTH) if any(row[place] for row in rows)]
    assert log.rows("things").tolist() == moved
    assert log.column("things", "x").tolist() == [[row[place] for place in moved] for row in rows]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    rows = [[number, number * number, 0, 5, 2**63, number % 2] for number in range(20)]
    return written(tmp_path_factory.mktemp("whole") / "log", rows).read_bytes()


def samples_of(path: Path) -> list[int]:
    found: list[int] = LogStore(path).samples["ns"].tolist()
    return found


def test_a_log_that_is_cut_anywhere_is_read_up_to_there(tmp_path: Path, whole: bytes) -> None:
    everything = list(range(0, 200, 10))
    seen: set[int] = set()
    for length in range(len(whole) + 1):
        (tmp_path / "log").write_bytes(whole[:length])
        try:
            found = samples_of(tmp_path / "log")
        except InvalidInput:
            assert not seen  # not even its header is whole
            continue
        assert found == everything[: len(found)]
        seen.add(len(found))
    assert seen == set(range(21))


def test_a_log_with_a_wrong_bit_ends_before_it(tmp_path: Path, whole: bytes) -> None:
    for place in range(len(whole) - 1, 0, -37):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        (tmp_path / "log").write_bytes(damaged)
        try:
            found = samples_of(tmp_path / "log")
        except InvalidInput:
            continue
        assert found == list(range(0, 10 * len(found), 10))
        assert len(found) <= 20


def test_what_waits_is_flushed_after_half_a_second(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log", {"sections": [], "port_events": None, "nodes": []}, 0, 1)
    size = (tmp_path / "log").stat().st_size
    log.frame(LogFrameKind.EVENT, 499_999_999, json.dumps({"kind": "early"}).encode())
    assert (tmp_path / "log").stat().st_size == size
    log.frame(LogFrameKind.EVENT, 500_000_000, json.dumps({"kind": "later"}).encode())
    assert [event["kind"] for event in LogStore(tmp_path / "log").events()] == ["early", "later"]
    log.close()
