"""The tables of top and replay, compared with DuckDB on the Parquet files; live tables equal recorded ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from lab.errors import InvalidInput, OperationFailed
from lab.telemetry.read.dashboard import DEVICES, PORTS, SHEETS, queue_pairs, standings
from lab.telemetry.read.recorded_events import RecordedEvent
from lab.telemetry.read.recording import Recording
from lab.telemetry.read.timeline_frames import LiveFilm, RecordedFilm
from tests.unit.model.qos.fabrics import fabric
from tests.unit.telemetry.made import START, STEP, Made
from tests.unit.telemetry.played import OTHER, PORT, played

if TYPE_CHECKING:
    from pathlib import Path

_COUNTED = """
    SELECT {sums}
    FROM '{file}' now JOIN '{file}' old USING ({keys})
    WHERE now.ns = (SELECT max(ns) FROM '{samples}' WHERE ns <= {at})
      AND old.ns = (SELECT max(ns) FROM '{samples}' WHERE ns <= now.ns - 1000000000)
      AND {where}

"""


def judged(path: Path, at: int, table: str, keys: str, where: str, *sums: str) -> tuple[float, ...]:
    """What DuckDB makes of a table's rows at the last sample until ``at``, and at the last a second before that."""
    counters = path / "counters"
    (found,) = duckdb.sql(
        _COUNTED.format(
            sums=", ".join(sums), file=counters / f"{table}.parquet", samples=counters / "samples.parquet",
            keys=keys, where=where, at=at,
        )
    ).fetchall()  # fmt: skip
    return tuple(float(value or 0) for value in found)  # of what never counted there are no rows


def port_figures(path: Path, at: int, port: str) -> dict[str, float]:
    node, _, interface = port.partition(":")
    where = f"node = '{node}' AND interface = '{interface}'"
    rate = "/ any_value((now.ns - old.ns) / 1e9)"
    priorities = judged(
        path, at, "priorities", "node, interface, priority", where,
        *(f"sum(now.{name} - old.{name}) {rate}" for name in (
            "tx_prio_bytes", "rx_prio_bytes", "rx_prio_pause", "tx_prio_pause")),
        f"max(now.rx_prio_pause_duration - old.rx_prio_pause_duration) {rate}",
    )  # fmt: skip
    names = [
        name for name in duckdb.read_parquet(str(path / "counters" / "queues.parquet")).columns
        if name.startswith("queue_drop_") and name.endswith("_packets")
    ]  # fmt: skip
    assert len(names) == 6
    queues = judged(
        path, at, "queues", "node, interface, queue", where,
        "sum(now.queue_depth_bytes)", f"sum(now.queue_ecn_marked - old.queue_ecn_marked) {rate}",
        "sum(" + " + ".join(f"now.{name} - old.{name}" for name in names) + f") {rate}",
    )  # fmt: skip
    tx, rx, rx_pauses, tx_pauses, paused = priorities
    depth, marked, dropped = queues
    return {
        "tx_bps": tx * 8, "rx_bps": rx * 8, "queue_bytes": depth, "paused": paused / 1e6, "rx_pauses": rx_pauses,
        "tx_pauses": tx_pauses, "marked": marked, "dropped": dropped,
    }  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(tmp_path_factory.mktemp("played") / "run").finished()


@pytest.mark.parametrize("seconds", [2.5, 3.03, 3.7, 4.15, 5.9])
def test_a_ports_figures_are_those_that_duckdb_finds(path: Path, seconds: float) -> None:
    film = RecordedFilm(Recording.open(path))
    at = START + round(seconds * 1e9)
    look = film.look(PORTS, at)
    assert look.ns == max(ns for ns in film.times.tolist() if ns <= at)
    for port in (PORT, OTHER):
        assert look.of(port) == pytest.approx(port_figures(path, at, port)), port
    moves = 2.0 < seconds < 5.2
    assert (look.of(PORT)["tx_bps"] > 0) == moves
    assert sum(look.of("leaf1:swp1").values()) == 0


@pytest.mark.parametrize("seconds", [2.5, 3.7, 5.9])
def test_a_devices_figures_are_those_that_duckdb_finds(path: Path, seconds: float) -> None:
    at = START + round(seconds * 1e9)
    told = RecordedFilm(Recording.open(path)).look(DEVICES, at).of("h1:eth1")
    rate = "/ any_value((now.ns - old.ns) / 1e9)"
    names = {"tx_packets": "sent_pkts", "rx_packets": "rcvd_pkts", "gaps": "out_of_seq_request",
             "naks": "rcvd_seq_err", "retries": "completer_retry_err"}  # fmt: skip
    found = judged(
        path, at, "rdma", "node, interface, device", "node = 'h1'",
        *(f"sum(now.{counter} - old.{counter}) {rate}" for counter in names.values()),
    )  # fmt: skip
    assert {name: told[name] for name in names} == pytest.approx(dict(zip(names, found, strict=True)))
    assert math.isnan(told["tx_bps"])  # this device does not count bytes


def test_whoever_reads_along_sees_what_a_recording_has(tmp_path: Path) -> None:
    """The log in pieces of any size, which cut frames anywhere."""
    made = played(tmp_path / "run")
    path = made.killed()
    log = made.folder.log.read_bytes()
    film = LiveFilm()
    ends = sorted(np.random.default_rng(7).integers(0, len(log), 200).tolist())
    with pytest.raises(OperationFailed):
        LiveFilm().feed(b"error: no fabric runs" * 2)
    for start, end in zip([0, *ends], [*ends, len(log)], strict=True):
        film.feed(log[start:end])
    recorded = RecordedFilm(Recording.open(path))
    assert (film.name, film.time, film.end) == ("t", "virtual", recorded.end)
    for sheet in SHEETS:
        live, kept = film.look(sheet, film.end), recorded.look(sheet, recorded.end)
        for name in kept.names:
            assert live.of(name) == pytest.approx(kept.of(name), nan_ok=True), name
    assert [(each.state, each.changes) for each in film.standings(film.end)] == [("Idle", 1)]
    assert film.standings(film.end) == recorded.standings(recorded.end)
    assert film.queue_pairs(film.end) == recorded.queue_pairs(recorded.end) != []


def test_sessions_are_as_they_were_told_by_then(path: Path) -> None:
    film = RecordedFilm(Recording.open(path))
    states = [[each.state for each in film.standings(START + ns)] for ns in (0, 10**9, 3 * 10**9)]
    assert states == [[], ["Established"], ["Idle"]]


def test_queue_pairs_are_as_they_were_told_by_then_and_those_that_are_gone_are_not_shown(path: Path) -> None:
    film = RecordedFilm(Recording.open(path))
    told = [[(each.qpn, each.state, each.remote) for each in film.queue_pairs(START + ns)] for ns in (0, 10**9)]
    assert told == [[], [(17, "RTS", 18), (19, "RTS", 20)]]
    (left,) = film.queue_pairs(film.end)
    assert (left.node, left.interface, left.qpn, left.kind, left.state) == ("h1", "eth1", 17, "RC", "ERR")
    assert (left.program, left.since > START + 10**9) == ("ib_write_bw", True)


def test_a_queue_pair_has_the_rate_that_it_was_limited_to_by_then() -> None:
    data = {"qpn": 17, "type": "RC", "remote": 18, "state": "RTS", "program": ""}
    event = RecordedEvent(10, 0.0, "rdma", "qp", "h1", "eth1", data)
    named = {"node": "h1", "interface": "eth1", "qpn": 17}
    other = {**named, "qpn": 19, "limited": 1, "rate": 5}
    rates = [(20, {**named, "limited": 1, "rate": 10**6}), (25, other), (30, {**named, "limited": 0, "rate": 10**8})]
    found = [[each.rate for each in queue_pairs([event], at, rates)] for at in (15, 25, 35)]
    assert found == [[None], [10**6], [None]]


def test_a_history_has_each_sample_the_latest_first(path: Path) -> None:
    film = RecordedFilm(Recording.open(path))
    at = START + 3 * 10**9
    past = film.history(PORTS, at, 30)
    assert [look.ns for look in past] == [ns for ns in film.times.tolist() if ns <= at][::-1][:30]
    assert past[7].of(PORT) == pytest.approx(port_figures(path, past[7].ns, PORT))
    assert len(film.history(PORTS, START + 5 * STEP, 30)) == 6


def test_a_recording_without_samples_cannot_be_looked_at(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has no samples"):
        RecordedFilm(Recording.open(Made(tmp_path / "run", fabric("pfc-ecn")).killed()))


def test_a_session_is_as_old_as_its_daemon_says() -> None:
    def told(ns: int, **data: Any) -> RecordedEvent:
        return RecordedEvent(ns, 0.0, "routing", "bgp", "leaf1", data["port"], data)

    events = [
        told(9 * 10**9, port="swp1", state="Established", before="", age=300.5),
        told(9 * 10**9, port="swp2", state="Established", before=""),
        told(9 * 10**9, port="swp3", state="Established", before="", age=300),
        told(12 * 10**9, port="swp3", state="Idle", before="Established"),
    ]
    found = {each.interface: (each.since / 1e9, each.exact) for each in standings(events, 20 * 10**9)}
    assert found == {"swp1": (-291.5, True), "swp2": (9.0, False), "swp3": (12.0, True)}


def test_sessions_of_a_lost_daemon_are_not_up_until_it_is_back() -> None:
    """A daemon that is killed reports nothing. When it is back, it reports the differences from before."""

    def told(second: int, kind: str, interface: str = "", **data: Any) -> RecordedEvent:
        return RecordedEvent(second * 10**9, 0.0, "routing", kind, "leaf1", interface, data)

    events = [
        told(1, "bgp", "swp1", state="Established", before=""),
        told(1, "bgp", "swp2", state="Idle", before=""),
        told(1, "bfd", "swp1", state="up", before=""),
        told(3, "daemon_lost", daemon="bgpd"),
        told(3, "daemon_lost", daemon="zebra"),
        told(5, "daemon_back", daemon="bgpd"),
        told(6, "bgp", "swp1", state="Idle", before="Established"),
        told(8, "daemon_lost", daemon="bgpd"),
        told(9, "daemon_lost", daemon="bgpd"),
        told(10, "daemon_back", daemon="bgpd"),
    ]
    found = [
        [(each.interface, each.protocol, each.state, each.changes) for each in standings(events, second * 10**9)]
        for second in (2, 3, 5, 6, 9, 10)
    ]
    bfd = ("swp1", "bfd", "up", 0)
    assert found == [
        [bfd, ("swp1", "bgp", "Established", 0), ("swp2", "bgp", "Idle", 0)],
        [bfd, ("swp1", "bgp", "daemon lost", 1), ("swp2", "bgp", "daemon lost", 1)],
        [bfd, ("swp1", "bgp", "Established", 2), ("swp2", "bgp", "Idle", 2)],
        [bfd, ("swp1", "bgp", "Idle", 3), ("swp2", "bgp", "Idle", 2)],
        [bfd, ("swp1", "bgp", "daemon lost", 5), ("swp2", "bgp", "daemon lost", 4)],
        [bfd, ("swp1", "bgp", "Idle", 6), ("swp2", "bgp", "Idle", 5)],
    ]
