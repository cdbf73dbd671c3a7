"""``rocelab counters`` on a fabric that seems to run."""

import itertools
import json
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lab.backends.lifecycle import open_fabric
from lab.cli.app import app
from lab.cli.kit import complete
from lab.cli.kit.output import stdout
from lab.cli.machine.docs import PAGES
from lab.dataplane.counter_names import COUNTERS
from lab.errors import ExitCode, LabError, UsageError
from tests.unit.model.qos.fabrics import fabric
from tests.unit.running import Running, run

PAGE = PAGES / "counters.md"


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setattr(stdout, "width", 200)
    return run(fabric("pfc-ecn"), tmp_path, monkeypatch)


@pytest.fixture
def drained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    """A fabric whose hosts take in 20 Mb/s."""
    monkeypatch.setattr(stdout, "width", 200)
    slow = "{fabric: pfc-ecn, roles: {host: slow}, profiles: {slow: {nic: {drain: 20Mbit}}}}"
    return run(fabric(slow), tmp_path, monkeypatch)


def said(*words: str, expect: int = 0) -> str:
    result = CliRunner().invoke(app, ["counters", *words])
    if isinstance(result.exception, LabError):
        raise result.exception
    assert result.exit_code == expect, result.output
    return result.stdout


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]


def cells(text: str) -> list[dict[str, str]]:
    """Each row by the heads of its columns, without what is empty."""
    heads = next([cell.strip() for cell in line.split("┃")[1:-1]] for line in text.splitlines() if line[:1] == "┃")
    return [{head: cell for head, cell in zip(heads, row, strict=True) if cell} for row in rows(text)]


def paused(running: Running, end: str) -> None:
    """A port that was paused seven times for 2.5 s and has marked, dropped and received something."""
    port = running.id(end)
    priority, queue, group = (running.maps.counters[name] for name in ("priority", "queue", "group"))
    priority["rx_packets"][port, 3], priority["rx_bytes"][port, 3] = 10, 42_000
    priority["rx_pause"][port, 3], priority["rx_resume"][port, 3] = 7, 6
    priority["paused_ns"][port, 3] = 2_500_000_000
    queue["depth_bytes"][port, 3], queue["depth_packets"][port, 3] = 4_200, 1
    queue["watermark_bytes"][port, 3], queue["ecn_marked"][port, 3] = 80_000, 12
    queue["offered_packets"][port, 3], queue["offered_bytes"][port, 3] = 3, 12_600
    queue["drop_packets"][port, 3, 2], queue["drop_bytes"][port, 3, 2] = 2, 8_400
    group["bytes"][port, 3], group["watermark_bytes"][port, 3] = 0, 9_000


def test_only_what_moved_is_shown(running: Running) -> None:
    paused(running, "leaf1:swp3")
    text = said()
    assert cells(text) == [
        {
            "port": "leaf1:swp3",
            "peer": "h1:eth1",
            "prio": "3",
            "received": "42 KB",
            "XOFF/XON rx": "7/6",
            "paused time": "2.5 s",
            "queue, peak": "4.2 KB, 80 KB",
            "ECN marks": "12",
            "drops": "2 headroom",
            "buffer, peak": "0 B, 9 KB",
        }
    ]
    assert "Emulated ports" in text


def test_the_congestion_control_of_a_nic_is_shown_once_under_its_own_names(running: Running) -> None:
    port = running.id("h1:eth1")
    names = ("np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored")
    for number, name in enumerate(names, 1):
        running.maps.counters[name][port] = number
    running.maps.counters["priority"]["rx_packets"][port, [0, 3]] = 1
    first, second = cells(said("h1", "--columns", ",".join(("prio", *names))))
    assert first == {"prio": "0"} | {name: str(number) for number, name in enumerate(names, 1)}
    assert second == {"prio": "3"}, "the port's counts are on its first row alone"


def test_a_clock_that_was_lost_is_told_as_long_as_the_fabric_lives(running: Running) -> None:
    def told() -> list[tuple[str, str]]:
        lines = re.finditer(r"The clock of (\S+), which ends its pauses, was lost and replaced (.*) since", said())
        return [(line[1], line[2]) for line in lines]

    assert not told()
    revived = running.maps.nodes["revived"]
    for name, times in (("leaf1", 1), ("h1", 3)):
        revived[running.numbering.nodes[name].number] = times
    assert sorted(told()) == [("h1", "3 times"), ("leaf1", "once")]
    CliRunner().invoke(app, ["counters", "clear"])
    assert len(told()) == 2


@pytest.mark.usefixtures("running")
def test_all_shows_every_priority_of_the_ports_that_are_named() -> None:
    assert len(rows(said("leaf1:swp3", "h1", "--all"))) == 16
    assert [(row["port"], row["prio"]) for row in cells(said("spine", "--all", "--priority", "3"))] == [
        (f"spine{number}:swp{port}", "3") for number in (1, 2) for port in (1, 2)
    ]


def test_the_queue_and_group_are_those_of_the_priority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdout, "width", 200)
    mapped = run(
        fabric("{fabric: [pfc-ecn, m], profiles: {m: {map: {queue: {3: 5}, group: {3: 4, 4: 3}}}}}"),
        tmp_path,
        monkeypatch,
    )
    port = mapped.id("h1:eth1")
    mapped.maps.counters["priority"]["tx_packets"][port, 3] = 1
    mapped.maps.counters["queue"]["watermark_bytes"][port, 5] = 5_000
    mapped.maps.counters["group"]["watermark_bytes"][port, 4] = 4_000
    (row,) = cells(said())
    assert (row["queue, peak"], row["buffer, peak"]) == ("0 B, 5 KB", "0 B, 4 KB")


def test_json_has_names_of_operators_and_no_zeros(running: Running) -> None:
    paused(running, "leaf1:swp3")
    data = json.loads(said("leaf1:swp3", "h1", "--json"))
    assert data["emulated"]
    assert data["nodes"]["h1"]["interfaces"] == {"eth1": {}}
    known = data["nodes"]["leaf1"]["interfaces"]["swp3"]
    assert (known["rx_prio3_pause"], known["rx_prio3_pause_duration"]) == (7, 2_500_000)
    assert set(data["nodes"]["leaf1"]["interfaces"]) == {"swp3"}
    every = json.loads(said("leaf1:swp3", "--json", "--all"))["nodes"]["leaf1"]["interfaces"]["swp3"]
    assert every["tx_prio7_pause"] == 0


def test_a_queue_whose_sums_do_not_come_out_is_a_failure(running: Running) -> None:
    queue = running.maps.counters["queue"]
    queue["offered_packets"][running.id("h1:eth1"), 3] = 2
    text = said(expect=ExitCode.FAIL)
    assert "h1:eth1 queue 3: 2 packets, 0 bytes were offered and are not accounted for" in text
    (lost,) = json.loads(said("--json", expect=ExitCode.FAIL))["unbalanced"]
    assert lost == {"node": "h1", "interface": "eth1", "queue": 3, "missing_packets": 2, "missing_bytes": 0}


class Intervals:
    """Stands in for the clock of --watch: something is counted in each interval, and the third one is the last."""

    def __init__(self, running: Running, port: int | None = None) -> None:
        self.left = 3
        self.running = running
        self.port = running.id("h1:eth1") if port is None else port

    def set(self) -> None:
        self.left = 0

    def wait(self, _: float) -> bool:
        self.left -= 1
        counters = self.running.maps.counters["priority"]
        counters["tx_packets"][self.port, 3] += 100
        counters["tx_bytes"][self.port, 3] += 400_000
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)
        return self.left <= 0


def test_watch_shows_rates_until_it_is_interrupted(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "Event", lambda: Intervals(running))
    seen = cells(said("h1", "--watch", "--interval", "50ms"))
    assert (seen[-2]["port"], seen[-2]["peer"], seen[-2]["prio"]) == ("h1:eth1", "leaf1:swp3", "all")
    assert re.fullmatch(r"[\d.]+ [kMGT]b/s \d+%", seen[-2]["tx load"])
    assert seen[-1]["prio"] == "3"


def test_a_pipe_gets_a_table_for_each_interval(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is renewed in place is for those who look at it: a pipe would get the last one, or none."""
    monkeypatch.setattr(threading, "Event", lambda: Intervals(running))
    assert said("h1", "--watch").count("lossless ports of t, by the second") == 2


def test_an_interrupt_before_the_first_interval_is_no_error(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody is quicker than the fabric is opened: what is watched changes nothing, and so breaks nothing."""

    def interrupted(name: str | None) -> Any:
        signal.raise_signal(signal.SIGINT)
        return open_fabric(name)

    monkeypatch.setattr("lab.cli.traffic.counters.open_fabric", interrupted)
    assert running.id("h1:eth1")
    assert rows(said("h1", "--watch")) == []


def test_watch_in_json_is_a_line_for_each_interval(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "Event", lambda: Intervals(running))
    documents: list[Any] = [json.loads(line) for line in said("h1", "--watch", "--json").splitlines()]
    sent = [entry["nodes"]["h1"]["interfaces"]["eth1"]["tx_prio3_packets"] for entry in documents]
    assert sent == [100, 200]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["leaf1:swp9"], "no interface 'swp9' on leaf1: it has"),
        (["leaf9"], "no node or tier 'leaf9'"),
        (["--watch", "--interval", "soon"], "--interval: 'soon' is not a time"),
        (["--watch", "--interval", "1ms"], "--interval 1ms is too short"),
        (["--fabric", "x"], "no fabric x: there is t"),
    ],
)
@pytest.mark.usefixtures("running")
def test_what_cannot_be_shown_is_one_line(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        said(*words)
    assert str(refused.value).startswith(message)


def test_a_fabric_without_lossless_ports_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(fabric("null"), tmp_path, monkeypatch)
    with pytest.raises(UsageError, match="fabric t has no lossless ports: write `qos: lab`"):
        said()


def test_names_are_listed_without_a_fabric() -> None:
    listed = json.loads(said("--names", "--json"))
    assert [entry["name"] for entry in listed] == [counter.name for counter in COUNTERS]


@pytest.mark.usefixtures("running")
def test_completion_knows_nodes_and_ports() -> None:
    assert {"leaf1", "leaf1:swp4", "h1:eth1"} <= set(complete.port_names())


def test_the_docs_have_the_names_as_they_are() -> None:
    """The table of ``rocelab docs counters``: our name, mlx5's, SONiC's."""
    table = re.findall(r"^\| `(\S+)` \| (\S*) \| (\S*) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    ours = {counter.name_of("N"): counter for counter in COUNTERS}
    assert len(table) > 10
    for name, mlx5, sonic in table:
        found = (ours[name].mlx5.replace("prion", "prioN"), ours[name].sonic.replace("_n_", "_N_"))
        assert found == (mlx5.strip("`"), sonic.strip("`")), name


def test_the_queue_behind_a_slow_receiver_is_a_port_of_its_own(drained: Running) -> None:
    queue = drained.maps.counters["queue"]
    drain = drained.numbering.nodes["h1"].drain("eth1")
    for name in ("offered_packets", "offered_bytes"):
        queue[name][drain, 3] = 7
    queue["drop_packets"][drain, 3, 1], queue["drop_bytes"][drain, 3, 1] = 7, 7
    assert [row[0] for row in rows(said("h1"))] == ["h1:rx-eth1"]
    document = json.loads(said("host", "--json"))
    assert document["nodes"]["h1"]["interfaces"]["rx-eth1"]["queue3_drop_shared_packets"] == 7
    assert "rx-eth1" not in json.loads(said("leaf1", "--json"))["nodes"]["leaf1"]["interfaces"]


def test_a_slow_receiver_is_watched_against_its_own_rate(drained: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    drain = drained.numbering.nodes["h1"].drain("eth1")
    monkeypatch.setattr(threading, "Event", lambda: Intervals(drained, drain))
    monkeypatch.setattr("lab.dataplane.counters.time.monotonic_ns", itertools.count(0, 1_000_000_000).__next__)
    whole, priority = cells(said("h1", "--watch"))[-2:]
    assert (whole["port"], whole["prio"], whole["rx load"]) == ("h1:rx-eth1", "all", "0 b/s 0%")
    assert whole["tx load"] == "3.219 Mb/s 16%"  # (400,000 + 100 x 24) x 8 of 20 Mb/s
    assert priority["prio"] == "3"


@pytest.mark.usefixtures("drained")
def test_the_queue_that_a_slow_host_is_is_announced() -> None:
    assert "rx-eth1 is the receive queue of eth1" in said("h1")
    assert "rx-eth1" not in said("leaf1")


def everything(running: Running) -> None:
    """Something in every column that there is."""
    port = running.id("leaf1:swp3")
    for scope in ("priority", "queue", "group"):
        counted = running.maps.counters[scope]
        for name in counted.dtype.names or ():
            if name not in {"paused_from", "paused_until"}:
                counted[name][port, 3] = 123_456
    running.maps.counters["rx_cnp"][port] = 5


@pytest.mark.parametrize("width", [80, 100, 132, 200, 300])
def test_no_cell_is_split_however_narrow_it_is(running: Running, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    everything(running)
    monkeypatch.setattr(stdout, "width", width)
    text = said("leaf1:swp3", expect=ExitCode.FAIL)  # its sums do not come out
    (row,) = cells(text)
    assert all(len(line) <= width for line in text.splitlines() if line[:1] in "┃│")
    assert {"port", "prio", "XOFF/XON rx", "XOFF/XON tx"} <= set(row)
    assert ("Columns left out on this narrow terminal: " in text) == (len(row) < 16)
    assert text.count("PG drops") == ("PG drops" in row), "that is a column, and no remark"
    assert len(row) == 16 or width < 300


def test_the_compact_view_is_that_of_pfc(running: Running) -> None:
    everything(running)
    (row,) = cells(said("leaf1:swp3", "--compact", expect=ExitCode.FAIL))
    assert list(row) == ["port", "peer", "prio", "XOFF/XON tx", "XOFF/XON rx", "XOFF ignored", "buffer, peak"]
    assert (row["XOFF/XON rx"], row["XOFF ignored"]) == ("123456/123456", "123456")


def test_columns_are_those_that_are_asked_for(running: Running) -> None:
    paused(running, "leaf1:swp3")
    text = said("leaf1:swp3", "--columns", "ce,port,cnp")
    assert rows(text) == [["12", "leaf1:swp3", ""]]
    for words, told in (("pears,port", "no column 'pears': did you mean 'peer'"), ("", "no column ''")):
        with pytest.raises(UsageError, match=told):
            said("--columns", words)
    with pytest.raises(UsageError, match="--compact and --columns both choose columns"):
        said("--compact", "--columns", "port")


def test_what_a_group_had_no_room_for_shows_at_its_port(running: Running) -> None:
    """The packets came in by swp3 and were to leave by swp4: an operator looks at the one, and at the other."""
    running.maps.counters["group"]["drop_packets"][running.id("leaf1:swp3"), 3] = 7
    queue = running.maps.counters["queue"]
    for name in ("offered_packets", "drop_packets"):
        queue[name][running.id("leaf1:swp4"), 3] = 7 if name == "offered_packets" else [0, 0, 7, 0, 0, 0]
    came_in, to_leave = cells(said("leaf1"))
    assert came_in == {"port": "leaf1:swp3", "peer": "h1:eth1", "prio": "3", "PG drops": "7"}
    assert to_leave == {"port": "leaf1:swp4", "peer": "h2:eth1", "prio": "3", "drops": "7 headroom"}


def test_after_a_clear_only_what_comes_counts_and_the_kernels_counts_stay(running: Running) -> None:
    paused(running, "leaf1:swp3")
    paused(running, "leaf1:swp4")
    before = running.maps.counters.copy()
    said("clear", "leaf1:swp3")
    (other,) = cells(said("leaf1"))
    assert other["port"] == "leaf1:swp4", "only the port that was named is cleared"
    port = running.id("leaf1:swp3")
    assert (running.maps.counters["priority"] == before["priority"]).all()
    assert running.maps.counters["queue"]["watermark_bytes"][port, 3] == 4_200  # what waits there now
    running.maps.counters["priority"]["rx_pause"][port, 3] += 2
    running.maps.counters["queue"]["watermark_bytes"][port, 3] = 50_000
    text = said("leaf1:swp3")
    assert re.search(r"lossless ports of t since \d\d:\d\d:\d\d", text)
    (row,) = cells(text)
    assert (row["XOFF/XON rx"], row["queue, peak"]) == ("2/0", "4.2 KB, 50 KB")
    known = json.loads(said("leaf1:swp3", "--json"))["nodes"]["leaf1"]["interfaces"]["swp3"]
    assert known["rx_prio3_pause"] == 2
    assert "rx_prio3_packets" not in known
    (row,) = cells(said("leaf1:swp3", "--since", "build"))
    assert row["XOFF/XON rx"] == "9/6"


def test_sums_are_judged_as_the_kernel_has_them(running: Running) -> None:
    paused(running, "leaf1:swp3")
    said("clear")
    running.maps.counters["queue"]["offered_packets"][running.id("leaf1:swp3"), 3] += 1
    assert "1 packet, 0 bytes were offered and are not accounted for" in said(expect=ExitCode.FAIL)


def test_a_damaged_mark_is_none(running: Running) -> None:
    paused(running, "leaf1:swp3")
    said("clear")
    running.state.cleared.write_bytes(b"damaged")
    assert cells(said())[0]["XOFF/XON rx"] == "7/6"
