"""Tables that grow: rows are read as they were written, from log and Parquet, and damaged ones are refused."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.errors import InvalidInput, UsageError
from lab.telemetry.read.recording import Recording
from lab.telemetry.sample.queue_pairs import SCHEMA
from lab.telemetry.store.log_store import LogStore
from lab.telemetry.store.rawlog import LogFrameKind
from lab.telemetry.store.row_tables import RowSchema, unpack
from tests.unit.model.qos.fabrics import fabric
from tests.unit.telemetry.made import START, STEP, Made
from tests.unit.telemetry.played import queue_pair

if TYPE_CHECKING:
    from pathlib import Path

THINGS = RowSchema("things", 2, (("name", "S4"), ("number", "u2"), ("state", "S8"), ("level", "f8"), ("far", "i8")))


def row(name: str, number: int, state: str, level: float = 0.0, far: int = -1) -> dict[str, Any]:
    return {"name": name, "number": number, "state": state, "level": level, "far": far}


def told(path: Path) -> Made:
    """A queue pair is there from the beginning, another appears in the middle and goes."""
    made = Made(path, fabric("pfc-ecn"), hosts=("h1", "h2"))
    made.log.rows(SCHEMA, made.sample(), [queue_pair(17, "RTS")])
    made.sample()
    made.log.rows(SCHEMA, made.sample(), [queue_pair(18, "INIT", remote=-1), queue_pair(17, "ERR", "RTS")])
    made.log.rows(THINGS, made.sample(), [row("ä", 1, "up", 0.5, -(2**40))])
    made.log.rows(SCHEMA, made.sample(), [queue_pair(18, "RTS", "INIT")])
    made.log.rows(SCHEMA, made.sample(), [queue_pair(18, "gone", "RTS")])
    return made


@pytest.fixture(params=["finished", "killed"])
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Recording:
    made = told(tmp_path / "run")
    return Recording.open(made.finished() if request.param == "finished" else made.killed())


def test_what_appears_during_a_recording_is_a_series_with_its_own_times(recording: Recording) -> None:
    table = recording.table("queue_pairs")
    assert table.keys == [("h1", "eth1", 17), ("h1", "eth1", 18)]
    (_, first), (key, second) = table
    assert key == ("h1", "eth1", 18)
    assert first.column("state").tolist() == ["RTS", "ERR"]
    assert first.ns.tolist() == [START, START + 2 * STEP]
    assert second.column("state").tolist() == ["INIT", "RTS", "gone"]
    assert second.seconds.tolist() == pytest.approx([0.1, 0.2, 0.25])
    assert second.column("remote").tolist() == [-1, 18, 18]
    assert len(second) == 3


def test_values_of_every_type_are_read_as_they_were_written(recording: Recording) -> None:
    assert recording.grown == ("queue_pairs", "things")
    assert recording.table("things").rows.dicts() == [row("ä", 1, "up", 0.5, -(2**40))]


def test_changes_of_queue_pairs_are_events_as_in_older_recordings(recording: Recording) -> None:
    events = recording.events(source="rdma", kind="qp")
    assert [(each.data["qpn"], each.data["state"], each.data["before"]) for each in events] == [
        (17, "RTS", ""), (18, "INIT", ""), (17, "ERR", "RTS"), (18, "RTS", "INIT"), (18, "gone", "RTS"),
    ]  # fmt: skip
    assert [each.data["remote"] for each in events] == [18, None, 18, 18, 18]
    assert {(each.node, each.interface) for each in events} == {("h1", "eth1")}
    assert events[0].data["program"] == "ib_write_bw"


def test_what_is_not_there_is_named_with_what_is(recording: Recording) -> None:
    with pytest.raises(UsageError, match="has no table queue_pair: "):
        recording.table("queue_pair")
    with pytest.raises(UsageError, match="table queue_pairs has no h1:eth1:99"):
        recording.table("queue_pairs").series(("h1", "eth1", 99))
    with pytest.raises(UsageError, match="there is no column sate"):
        recording.table("queue_pairs").series(("h1", "eth1", 17)).column("sate")


def test_a_recording_of_before_there_were_such_tables_has_none(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    made.event(made.sample(), source="rdma", kind="qp", **queue_pair(17, "RTS"))
    path = made.finished()
    about = json.loads(made.folder.about.read_text())
    del about["rows"]
    made.folder.about.write_text(json.dumps(about))
    recording = Recording.open(path)
    assert recording.grown == ()
    assert not made.folder.rows.exists()
    assert [each.data["qpn"] for each in recording.events(kind="qp")] == [17]
    with pytest.raises(UsageError, match="has no table queue_pairs: there is none"):
        recording.table("queue_pairs")


def test_duckdb_reads_the_table_in_long_form(tmp_path: Path) -> None:
    path = told(tmp_path / "run").finished() / "rows" / "queue_pairs.parquet"
    question = "SELECT qpn, max(ns) - min(ns), list(state ORDER BY ns) FROM read_parquet(?) GROUP BY qpn ORDER BY qpn"
    assert duckdb.execute(question, [str(path)]).fetchall() == [
        (17, 2 * STEP, ["RTS", "ERR"]), (18, 3 * STEP, ["INIT", "RTS", "gone"]),
    ]  # fmt: skip


def test_a_kill_loses_the_rows_of_the_last_frame_at_most(tmp_path: Path) -> None:
    made = told(tmp_path / "run")
    made.killed()
    whole = made.folder.log.read_bytes()
    every = LogStore(made.folder.log).row_tables["queue_pairs"].dicts()
    counts: set[int] = set()
    for length in range(0, len(whole), 3):  # frames have no such period
        made.folder.log.write_bytes(whole[:length])
        try:
            tables = LogStore(made.folder.log).row_tables
        except InvalidInput:
            assert not counts  # not even its header is whole
            continue
        rows = tables["queue_pairs"].dicts() if "queue_pairs" in tables else []
        assert rows == every[: len(rows)]
        counts.add(len(rows))
    assert counts == {0, 1, 3, 4}


def content(description: object, rows: bytes = b"") -> bytes:
    text = description if isinstance(description, bytes) else json.dumps(description).encode()
    return len(text).to_bytes(2, "little") + text + rows


RIGHT: dict[str, Any] = {"table": "things", "keys": 1, "columns": [["name", "S4"], ["number", "u4"]]}
DAMAGED = {
    "nothing": b"",
    "no JSON": content(b"{"),
    "nested": content(b"[" * 60_000),
    "not text": content(b"\xff\xfe"),
    "a list": content([]),
    "a path": content(RIGHT | {"table": "../../etc/passwd"}),
    "no name": content(RIGHT | {"table": 7}),
    "a long name": content(RIGHT | {"table": "a" * 41}),
    "no keys": content(RIGHT | {"keys": 0}),
    "keys of nothing": content(RIGHT | {"keys": 3}),
    "true keys": content(RIGHT | {"keys": True}),
    "no columns": content(RIGHT | {"columns": []}),
    "columns that are none": content(RIGHT | {"columns": ["name", 3]}),
    "many columns": content(RIGHT | {"columns": [[f"c{number}", "u1"] for number in range(65)]}),
    "twice a column": content(RIGHT | {"columns": [["a", "u1"], ["a", "u1"]]}),
    "a time": content(RIGHT | {"columns": [["ns", "u8"]]}),
    "an object": content(RIGHT | {"columns": [["name", "O"]]}),
    "a record": content(RIGHT | {"columns": [["name", "V8"]]}),
    "wide integers": content(RIGHT | {"columns": [["name", "u16"]]}),
    "wide text": content(RIGHT | {"columns": [["name", "S999"]]}),
    "endless text": content(RIGHT | {"columns": [["name", "S99999999999"]]}),
    "half a row": content(RIGHT, bytes(12)),
    "cut": content(RIGHT)[:-1],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_frame_that_no_recorder_writes_is_one_clear_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - each says something else
        unpack(memoryview(DAMAGED[name]))
    assert not isinstance(refused.value, RecursionError)
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    made.log.frame(LogFrameKind.ROWS, made.sample(), DAMAGED[name])
    made.sample()
    with pytest.raises(InvalidInput) as error:
        Recording.open(made.killed())
    assert len(str(error.value).splitlines()) == 1
    assert str(error.value).startswith(f"{made.folder.log}: is damaged: ")
    assert str(error.value).isprintable()


def test_a_right_frame_is_none_of_those() -> None:
    schema, rows = unpack(memoryview(content(RIGHT, b"ab\0\0\x07\0\0\0")))
    assert schema == RowSchema("things", 1, (("name", "S4"), ("number", "u4")))
    assert rows.tolist() == [(b"ab", 7)]


def test_a_table_that_changes_its_columns_is_refused(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    made.log.frame(LogFrameKind.ROWS, made.sample(), content(RIGHT, bytes(8)))
    made.log.frame(LogFrameKind.ROWS, made.sample(), content(RIGHT | {"keys": 2}, bytes(8)))
    with pytest.raises(InvalidInput, match="table things changes its columns"):
        Recording.open(made.killed())


def test_queue_pairs_with_other_columns_are_one_clear_line(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    made.log.frame(LogFrameKind.ROWS, made.sample(), content(RIGHT | {"table": "queue_pairs"}, bytes(8)))
    recording = Recording.open(made.killed())
    with pytest.raises(InvalidInput, match=r"is damaged: KeyError: 'remote';"):
        recording.events()


def test_tables_without_end_are_refused(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    for number in range(65):
        made.log.frame(LogFrameKind.ROWS, made.sample(), content(RIGHT | {"table": f"t{number}"}, bytes(8)))
    with pytest.raises(InvalidInput, match="more than 64 tables"):
        Recording.open(made.killed())


@pytest.mark.parametrize(
    "rows",
    [
        7,
        [7],
        ["queue_pairs"],
        [RIGHT | {"table": "../counters/ports"}],
        [RIGHT | {"columns": [["x", "O"]]}],
        {"a": 1},
    ],
)
def test_a_description_that_no_recorder_writes_is_one_clear_line(tmp_path: Path, rows: object) -> None:
    made = told(tmp_path / "run")
    path = made.finished()
    about = json.loads(made.folder.about.read_text())
    made.folder.about.write_text(json.dumps(about | {"rows": rows}))
    with pytest.raises(InvalidInput, match=r"recording\.json: is damaged: "):
        Recording.open(path).events()


def _tables() -> dict[str, pa.Table | None]:
    right = {"ns": [1, 2], "name": ["a", "b"], "number": pa.array([1, 2], pa.uint32())}
    return {
        "missing": None,
        "no times": pa.table({name: each for name, each in right.items() if name != "ns"}),
        "no column": pa.table({name: each for name, each in right.items() if name != "number"}),
        "texts": pa.table(right | {"number": ["a", "b"]}),
        "too large": pa.table(right | {"number": [1, 2**40]}),
        "nothing": pa.table(right | {"name": ["a", None]}),
        "backwards": pa.table(right | {"ns": [2, 1]}),
        "lists": pa.table(right | {"name": [["a"], ["b"]]}),
        "many": pa.table({"ns": pa.array(np.zeros(20_000_001, np.int8))}),
    }


@pytest.mark.parametrize("name", [*_tables(), "bytes"])
def test_a_file_that_no_recorder_writes_is_one_clear_line(tmp_path: Path, name: str) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    made.log.frame(LogFrameKind.ROWS, made.sample(), content(RIGHT, b"ab\0\0\x07\0\0\0"))
    recording = Recording.open(made.finished())
    assert recording.table("things").keys == [("ab",)]
    file = made.folder.rows / "things.parquet"
    file.unlink()
    if name == "bytes":
        file.write_bytes(b"PAR1" + zlib.crc32(b"").to_bytes(4))
    elif (table := _tables()[name]) is not None:
        pq.write_table(table, file)
    with pytest.raises(InvalidInput, match=r"things\.parquet: is damaged: ") as error:
        Recording.open(made.folder.path).table("things")
    assert len(str(error.value).splitlines()) == 1
