"""Recordings read back: by our reader from the log and from Parquet, and by DuckDB, which knows nothing of us."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.dataplane.counter_names import COUNTERS, CounterScope
from lab.dataplane.counters import CounterReading
from lab.dataplane.port_layout import EVENT, Drop, EventKind
from lab.errors import InvalidInput, UsageError
from lab.telemetry.read.measures import DROPPED
from lab.telemetry.read.recording import Recording
from lab.telemetry.store.rawlog import LogFrameKind
from tests.unit.model.qos.fabrics import fabric
from tests.unit.telemetry.made import RDMA, START, STEP, Made, plain_run
from tests.unit.telemetry.played import played

if TYPE_CHECKING:
    from pathlib import Path

PORT = "leaf1:swp3"


def told(made: Made) -> None:
    """Three phases: nothing, 30 pauses and 4 marks at leaf1:swp3, and 1 pause more."""
    made.phase("baseline")
    for _ in range(3):
        made.sample()
    made.phase("inject")
    counted = made.counters(PORT)
    for number in range(5):
        counted["priority"]["rx_pause"][3] += 6
        counted["priority"]["tx_bytes"][3] += 1000
        counted["queue"]["depth_bytes"][3] = 7000 - 1000 * number
        counted["queue"]["ecn_marked"][3] = number
        counted["queue"]["drop_packets"][3][Drop.HEADROOM] = 2
        counted["rx_pfc"] += 6
        made.sample(late=300 * number)
    made.phase("fix")
    counted["priority"]["rx_pause"][3] += 1
    made.sample()


@pytest.fixture(params=["finished", "killed"])
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Recording:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    made.event(START + 60_000_000, source="routing", kind="bgp", node="leaf1", interface="swp1", state="Idle")
    told(made)
    return Recording.open(made.finished() if request.param == "finished" else made.killed())


def test_a_phase_has_what_grew_in_it(recording: Recording) -> None:
    pauses = recording.port(PORT).rx_pause(priority=3)
    assert [pauses.during(name).delta() for name in ("baseline", "inject", "fix")] == [0, 30, 1]
    assert recording.delta("rx_prio3_pause", PORT, "inject") == 30
    assert recording.delta("rx_pfc", PORT) == 30
    assert recording.rate("tx_prio3_bytes", PORT, "inject") == pytest.approx(5000 / (6 * STEP / 1e9), rel=1e-6)
    assert [phase.name for phase in recording.phases] == ["baseline", "inject", "fix"]
    assert recording.phase("inject").seconds == pytest.approx(0.3)
    assert recording.port("leaf1:swp4").rx_pause().delta() == 0
    assert recording.port(PORT).marked(3).delta() == 4
    assert recording.port(PORT).drops(3).delta() == 2
    assert recording.port(PORT).drops(reason="limit").delta() == 0
    assert recording.seconds == pytest.approx(0.55)


def test_gauges_are_not_differences(recording: Recording) -> None:
    depth = recording.port(PORT).depth(3)
    assert depth.during("inject").max == 7000
    assert depth.last == 3000
    with pytest.raises(UsageError, match="gauge"):
        depth.delta()


def test_times_and_rates_of_single_samples(recording: Recording) -> None:
    pauses = recording.port(PORT).rx_pause(3)
    assert pauses.since() == pytest.approx(0.25)
    assert pauses.rates().max == pytest.approx(6 / 0.05, rel=0.01)
    late = recording.samples["ns"] - recording.samples["due"]
    assert sorted(set(late.tolist())) == [0, 300, 600, 900, 1200]


def test_events_lie_in_their_phases(recording: Recording) -> None:
    (event,) = recording.events(source="routing", during="baseline")
    assert (event.kind, event.node, event.interface, event.data) == ("bgp", "leaf1", "swp1", {"state": "Idle"})
    assert event.seconds == pytest.approx(0.06)
    assert recording.events(source="routing", during="inject") == []
    assert [event.data["name"] for event in recording.events(kind="phase")] == ["baseline", "inject", "fix"]


def test_what_is_not_there_is_named_with_what_is(recording: Recording) -> None:
    with pytest.raises(UsageError, match="has no port leaf1:swp77: there is"):
        recording.port("leaf1:swp77")
    with pytest.raises(UsageError, match="no phase later: there is baseline, inject, fix"):
        recording.phase("later")
    with pytest.raises(UsageError, match="no counter rx_prio_paus"):
        recording.port(PORT).counter("rx_prio3_paus")
    with pytest.raises(UsageError, match="no RDMA device h1: there is none"):
        recording.rdma("h1")
    assert recording.truth() == []
    assert recording.topology == fabric("pfc-ecn")


def test_a_plain_link_drops_in_both_directions_and_not_by_queue_or_reason(tmp_path: Path) -> None:
    port = Recording.open(plain_run(tmp_path / "run", 1000, dropped=3)).port(PORT)
    assert port.drops().delta() == 20 * (3 + 3) == port.value(DROPPED)
    for queue, reason in ((3, ""), (None, "headroom"), (3, "limit")):
        with pytest.raises(UsageError, match="is a plain link"):
            port.drops(queue, reason)


def test_whether_it_is_whole_is_said(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    told(made)
    killed = Recording.open(made.killed())
    assert killed.incomplete
    assert killed.why == "its recorder still runs, or was killed"


def test_every_counter_has_the_name_and_the_value_that_rocelab_counters_gives(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    words = made.maps.ports["counters"].copy().view("u8").reshape(len(made.maps.ports), -1)
    for number in range(words.shape[1]):
        words[:, number] = 10_000 * (number + 1)
    made.maps.ports["counters"] = words.view(made.maps.ports["counters"].dtype).reshape(-1)
    made.maps.ports["counters"]["priority"]["paused_from"] = 0
    made.maps.ports["counters"]["priority"]["paused_until"] = 0
    made.sample()
    port = Recording.open(made.finished()).port(PORT)
    node = made.numbering.nodes["leaf1"]
    read = CounterReading(
        node, START, made.maps.counters[node.first + 1 : node.first + 1 + len(node.devices)], 0, 0, 0
    )
    for counter in COUNTERS:
        for number in range(1 if counter.scope is CounterScope.PORT else 8):
            values = counter.of(read.port("swp3"))
            expected = values if counter.scope is CounterScope.PORT else values[number]
            assert port.counter(counter.name_of(number)).last == expected, counter.name_of(number)


def test_a_pause_that_has_not_ended_counts_up_to_the_sample(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    counted = made.counters(PORT)["priority"]
    counted["paused_ns"][3] = 5_000_000
    counted["paused_from"][3], counted["paused_until"][3] = START + STEP, START + 3 * STEP
    for _ in range(5):
        made.sample()
    paused = Recording.open(made.finished()).port(PORT).paused(3)
    assert paused.values.tolist() == [5_000, 5_000, 55_000, 105_000, 105_000]


def test_port_events_have_the_words_of_qos_events(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    node = made.numbering.nodes["leaf1"]
    records = np.zeros(2, EVENT)
    records["ns"], records["port"], records["index"] = [START + 9, START + 5], node.port("swp3"), 3
    records["kind"], records["value"] = [EventKind.GROUP_DROPS, EventKind.XOFF_SENT], [node.port("swp1"), 4096]
    made.log.frame(LogFrameKind.PORT_EVENTS, START + 20, records.tobytes())
    made.sample()
    first, second = Recording.open(made.finished()).events(source="port")
    assert (first.ns, first.kind, first.node, first.interface) == (START + 5, "xoff_sent", "leaf1", "swp3")
    assert first.data == {"number": 3, "value": 4096}
    assert (second.kind, second.data) == ("group_drops", {"number": 3, "value": 0, "towards": "leaf1:swp1"})


def asked(question: str, table: Path) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = duckdb.execute(question, [str(table)]).fetchall()
    return rows


def test_a_table_is_understood_once_and_no_file_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    told(made)
    folder = made.finished()
    unknown: list[str] = []

    class Opened(pq.ParquetFile):  # type: ignore[misc]  # pyarrow has no types
        def __init__(self, path: Path, metadata: object) -> None:
            if metadata is None:
                unknown.append(path.stem)
            super().__init__(path, metadata=metadata)

    monkeypatch.setattr(pq, "ParquetFile", Opened)
    port = Recording.open(folder).port(PORT)
    assert [port.depth(3).last, port.marked(3).delta(), port.drops(3).delta()] == [3000, 4, 2]
    assert sorted(unknown) == ["ports", "queues", "samples"]
    with os.scandir("/proc/self/fd") as descriptors:
        opened = [os.path.realpath(each.path) for each in descriptors]
    assert not [path for path in opened if path.startswith(str(folder))]


def test_duckdb_reads_the_tables_as_they_are(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    told(made)
    tables = made.finished() / "counters"
    grown = """
        SELECT node, interface, priority, max(rx_prio_pause) - min(rx_prio_pause), count(*), max(tx_prio_bytes)
        FROM read_parquet(?) GROUP BY ALL
    """
    assert asked(grown, tables / "priorities.parquet") == [("leaf1", "swp3", 3, 31, 12, 5000)]
    sums = "SELECT sum(rx_pfc), count(DISTINCT (node, interface)), min(epoch_ns(time)) FROM read_parquet(?)"
    devices = sum(len(node.devices) for node in made.numbering.nodes.values())
    assert asked(sums, tables / "ports.parquet") == [(6 * (1 + 2 + 3 + 4) + 30 * 3, devices, 10**18 + START)]
    assert asked("SELECT max(late), count(*) FROM read_parquet(?)", tables / "samples.parquet") == [(1200, 12)]


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        Recording.open(path).port(PORT).rx_pause(3)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_no_recording_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "is not a recording" in refused(tmp_path / "empty")
    assert "no recording" in refused(tmp_path / "missing")
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    made.sample()
    about = json.loads(made.folder.about.read_text())
    path = made.finished()
    for text, said in (
        (json.dumps({**about, "version": 2}), "is a recording of version 2; this rocelab reads up to version 1"),
        (json.dumps({**about, "format": "other"}), "is not rocelab's"),
        ("[]", "is not rocelab's"),
        ("{", "is damaged"),
    ):
        made.folder.about.write_text(text)
        assert said in refused(path)


@pytest.mark.parametrize("name", ["priorities", "ports", "samples"])
def test_damaged_tables_are_refused_in_one_line(tmp_path: Path, name: str) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    told(made)
    file = made.finished() / "counters" / f"{name}.parquet"
    whole = file.read_bytes()
    for content in (b"", b"PAR1", whole[: len(whole) // 2], bytes(len(whole))):
        file.write_bytes(content)
        assert "is damaged" in refused(tmp_path / "run")
    file.unlink()
    assert "is damaged" in refused(tmp_path / "run")


@pytest.mark.parametrize("name", ["counters/priorities", "counters/samples", "rows/queue_pairs"])
def test_a_small_file_with_millions_of_rows_is_refused(tmp_path: Path, name: str) -> None:
    """Equal rows take no space in a file, but in memory."""
    path = played(tmp_path / "run").finished()
    file = path / f"{name}.parquet"
    table = pq.read_table(file)
    equal = table.take([0] * 65536)
    with pq.ParquetWriter(file, table.schema, compression="zstd") as writer:
        for _ in range(64):
            writer.write_table(equal)
    assert file.stat().st_size < 400_000

    def read() -> None:
        recording = Recording.open(path)
        recording.port(PORT).rx_pause(3)
        recording.table("queue_pairs")

    with pytest.raises(InvalidInput, match=r"has 4194304 rows( at one time|, and there are \d+ samples|: at most)"):
        read()


def test_a_table_is_as_long_as_this_machine_has_the_memory_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long recording of many ports has hundreds of millions of rows, and is not damaged."""
    path = played(tmp_path / "run").finished()
    count = pq.read_metadata(path / "counters" / "ports.parquet").num_rows
    memory = {"SC_PAGE_SIZE": 32, "SC_PHYS_PAGES": count}
    monkeypatch.setattr(os, "sysconf", memory.__getitem__)
    Recording.open(path).port(PORT).rx_pause(3)
    memory["SC_PHYS_PAGES"] -= 1
    with pytest.raises(InvalidInput, match=rf"ports.parquet has {count} rows: at most {count - 1} are read"):
        Recording.open(path).port(PORT).rx_pause(3)


def test_rows_that_repeat_at_each_sample_are_read_however_small_their_file_is(tmp_path: Path) -> None:
    path = played(tmp_path / "run").finished()
    file = path / "rows" / "queue_pairs.parquet"
    table = pq.read_table(file)
    times = pa.array(np.repeat(table["ns"][0].as_py() + np.arange(1000) * 50_000_000, 100))
    pq.write_table(table.take([0] * len(times)).set_column(0, "ns", times), file, compression="zstd")
    assert file.stat().st_size < 25_000
    assert len(Recording.open(path).table("queue_pairs").keys) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("params", "[]"), ("params", '"x"'), ("params", '{"scenario": 1}'), ("params", '{"params": [1]}'),
        ("host", "5"), ("state/before", "[]"), ("state/before", '{"leaf1": 3}'),
    ],
)  # fmt: skip
def test_json_that_is_not_as_written_is_refused(tmp_path: Path, name: str, content: str) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    made.sample()
    recording = Recording.open(made.finished())
    file = recording.folder.path / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)
    with pytest.raises(InvalidInput, match=rf"{name}\.json: is damaged"):
        _ = (recording.parameters, recording.host, recording.state("before"))


def test_a_file_that_declares_to_be_huge_is_refused(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    made.sample()
    path = made.finished()
    (path / "state").mkdir()
    (path / "state" / "before.json").touch()
    os.truncate(path / "state" / "before.json", 1 << 40)
    assert "has 1.1 TB: at most 536.9 MB are read" in refused(path)


def test_a_killed_recording_without_a_log_is_refused(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    path = made.killed()
    made.folder.log.write_bytes(b"")
    assert "empty or damaged" in refused(path)
    made.folder.log.unlink()
    assert "cannot be read" in refused(path)


def test_a_torn_last_line_of_notes_is_left_out_and_another_is_refused(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    told(made)
    with made.folder.notes.open("a") as file:
        file.write('{"ns": 1, "kin')
    assert len(Recording.open(made.killed()).phases) == 3
    with made.folder.notes.open("a") as file:
        file.write("\n{}\n")
    assert "line 4 is damaged" in refused(tmp_path / "run")


def test_a_host_with_several_devices_is_asked_which(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"), hosts=("h1:eth1", "h1:eth2", "h2"))
    made.phase("baseline")
    made.devices[:, RDMA.index("rcvd_pkts")] += np.array([1, 2, 3], np.uint64)
    made.phase("")
    recording = Recording.open(made.finished())
    with pytest.raises(UsageError, match="h1 has 2 RDMA devices in run") as raised:
        recording.rdma("h1")
    assert raised.value.remedy == "name one of h1:eth1, h1:eth2"
    names = ("h1:eth1", "h1:eth2", "made.h1.eth2", "h2", "h2:eth1")
    assert [recording.rdma(name).counter("rcvd_pkts").delta() for name in names] == [1, 2, 2, 3, 3]
