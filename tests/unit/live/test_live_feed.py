"""What a page gets of a running fabric: the same as a report has of the finished recording."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lab.errors import OperationFailed
from lab.live import live_feed
from lab.live.live_feed import LiveFeed
from lab.live.live_page import empty_run
from lab.live.update_ring import UpdateRing
from lab.report.playback import playback
from lab.report.run_facts import gather
from lab.report.scenario_text import ScenarioText
from lab.telemetry.read.recording import Recording
from lab.telemetry.sample import queue_pairs
from lab.telemetry.sample.qp_rates import SCHEMA
from lab.telemetry.store.rawlog import LogFrameKind
from tests.unit.report.test_limits import LINE, row
from tests.unit.report.test_page import unfolded
from tests.unit.scenario.test_judge import incast, storm
from tests.unit.telemetry.made import START, STEP
from tests.unit.telemetry.played import played, queue_pair

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.telemetry.made import Made

PIECE = 777
"""Bytes of the log that arrive at a time: frames are cut."""


class Page:
    """Applies updates as the page does, but keeps each value at each sample."""

    def __init__(self) -> None:
        self.paths: dict[int, tuple[str, ...]] = {}
        self.series: dict[tuple[str, ...], list[int]] = {}
        self.times: list[int] = []
        self.pauses: dict[tuple[str, int, int], int | None] = {}
        self.others: dict[str, list[Any]] = {"events": [], "commands": [], "qps": []}

    def take(self, update: dict[str, Any]) -> None:
        for number, *path in update.get("series", []):
            self.paths[number] = tuple(path)
            self.series[tuple(path)] = [0] * len(self.times)
        for values in self.series.values():
            values.append(values[-1] if values else 0)
        flat = update.get("values", [])
        for number, value in zip(flat[::2], flat[1::2], strict=True):
            self.series[self.paths[number]][-1] = value
        for port, priority, start, end in update.get("pauses", []):
            self.pauses[port, priority, start] = end
        for kind, found in self.others.items():
            found.extend(update.get(kind, []))
        for number in update.get("dropped", []):
            self.series.pop(self.paths.pop(number))
        self.times.append(update["t"])


def updates_of(made: Made) -> tuple[LiveFeed, list[dict[str, Any]]]:
    """Feed a log in pieces."""
    ring = UpdateRing()
    feed = LiveFeed(ring)
    made.log.flush()
    log = made.folder.log.read_bytes()
    found: list[dict[str, Any]] = []
    for start in range(0, len(log), PIECE):
        feed.feed(log[start : start + PIECE])
        found += map(json.loads, list(ring._kept))
        ring._kept.clear()
    return feed, found


def page_of(made: Made) -> Page:
    page = Page()
    for update in updates_of(made)[1]:
        page.take(update)
    return page


def recorded(made: Made) -> dict[str, Any]:
    """The data of the report's player."""
    recording = Recording.open(made.finished())
    return playback(recording, gather(recording, ScenarioText()))


@pytest.mark.parametrize("make", [storm, incast])
def test_it_has_the_series_and_pauses_of_the_recording(tmp_path: Path, make: Any) -> None:
    made = make(tmp_path)
    page, run = page_of(made), recorded(made)
    count = len(page.times)
    assert count == len(run["times"])
    moved = {path: values for path, values in page.series.items() if path[0] == "ports"}
    assert moved
    for port, lanes in run["ports"].items():
        for priority, lane in lanes.items():
            for measure, changes in lane.items():
                found = moved.pop(("ports", port, priority, measure), [0] * count)
                assert found == list(unfolded(changes, count)), (port, priority, measure)
    assert moved == {}
    starts = {
        (port, int(priority), flat[0]) for port, lanes in run["pauses"].items() for priority, flat in lanes.items()
    }
    assert set(page.pauses) == starts


def test_sessions_queue_pairs_and_losses_are_those_of_the_recording(tmp_path: Path) -> None:
    made = played(tmp_path / "run")
    page, run = page_of(made), recorded(made)
    count = len(page.times)
    up = list(unfolded(run["sessions"]["leaf1:swp1 bgp"], count))
    assert page.series["sessions", "leaf1:swp1 bgp"][1:] == up[1:]
    (event,) = page.others["events"]
    assert event["text"] == "leaf1:swp1 BGP session: Established to Idle"
    assert event["ports"] == ["leaf1:swp1"]
    assert page.others["qps"] == [
        ["h1:eth1", 17, 18, "RC", "RTS", "ib_write_bw"], ["h1:eth1", 19, 20, "RC", "RTS", "ib_write_bw"],
        ["h1:eth1", 17, 18, "RC", "ERR", "ib_write_bw"], ["h1:eth1", 19, 20, "RC", "gone", ""],
    ]  # fmt: skip
    for name, changes in run["again"].items():
        assert page.series["again", name] == list(unfolded(changes, count))


def test_a_snapshot_has_what_exists(tmp_path: Path) -> None:
    """A page that is opened in the storm begins with the paused ports, and with the counters of that time."""
    made = storm(tmp_path)
    feed, found = updates_of(made)
    page, late = Page(), Page()
    for update in found:
        page.take(update)
    late.take(feed.snapshot())
    assert {path: values[-1] for path, values in late.series.items()} == {
        path: values[-1] for path, values in page.series.items()
    }
    assert late.pauses == {key: end for key, end in page.pauses.items() if end is None}
    assert len(late.pauses) == 4


def test_limits_are_followed_and_their_number_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "MOST_LIMITED", 2)
    made = storm(tmp_path)
    name = "h1:eth1 QP {:#x} to 10.0.0.4".format
    for number in range(50):
        limited = {**row("h1", LINE // 2, 3), "qpn": number}
        made.log.rows(SCHEMA, made.ns, [limited])
        if number != 10:
            made.log.rows(SCHEMA, made.ns, [{**limited, "limited": 0}])
        made.sample()
    page = page_of(made)
    followed = {path[1]: values[-1] for path, values in page.series.items() if path[0] == "limits"}
    assert followed == {name(10): LINE // 2, name(49): LINE}


@pytest.mark.parametrize(
    ("changes", "followed"),
    [
        ("1 limited, 1 free, 1 limited, 2 limited", 1),  # limited again: it keeps its place
        ("1 limited, 1 free, 2 limited", 2),  # no page has got the first one
        ("1 limited, 1 free, sample, 2 limited", 2),
    ],
)
def test_which_qp_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: str, followed: int) -> None:
    """There is room for one."""
    monkeypatch.setattr(live_feed, "MOST_LIMITED", 1)
    made = storm(tmp_path)
    for change in changes.split(", "):
        if change == "sample":
            made.sample()
            continue
        qpn, state = change.split()
        made.log.rows(
            SCHEMA, made.ns, [{**row("h1", LINE // 2, 3), "qpn": int(qpn), "limited": int(state == "limited")}]
        )
    made.sample()
    found = [path[1] for path in page_of(made).series if path[0] == "limits"]
    assert found == [f"h1:eth1 QP {followed:#x} to 10.0.0.4"]


def test_commands_and_steps_of_jobs_are_shown(tmp_path: Path) -> None:
    made = storm(tmp_path)
    made.event(
        START + 3 * STEP, source="command", kind="command", node="", began=START + STEP,
        argv=["rocelab", "ping", "a b"], code=1, output="x" * 20_000,
    )  # fmt: skip
    step = {
        "source": "job", "kind": "step", "ns": START + 2 * STEP, "job": "train", "rank": 2, "node": "h3",
        "interface": "eth1", "step": 7, "begin": START, "compute": 30_000_000, "communication": 20_000_000,
        "waiting": 0, "late": 0,
    }  # fmt: skip
    made.log.frame(LogFrameKind.EVENT, START + 4 * STEP, json.dumps(step).encode())
    made.sample()
    page = page_of(made)
    (command,) = page.others["commands"]
    assert (command["typed"], command["code"], len(command["output"])) == ("rocelab ping 'a b'", 1, 10_000)
    assert command["at"] == STEP // 1000
    event = page.others["events"][-1]
    assert event["text"] == "train, step 7 of rank 2 at h3:eth1: 50 ms, 20 ms of it communication"
    assert event["at"] == 2 * STEP // 1000


def test_links_that_go_down_are_reported_and_have_a_series(tmp_path: Path) -> None:
    made = storm(tmp_path)
    for up in (True, False, False, True, False):  # the first is no change
        made.link("leaf1:swp1", up=up)
        made.sample()
    made.link("leaf1:other", up=False)  # no port of the topology
    made.sample()
    feed, found = updates_of(made)
    page = Page()
    for update in found:
        page.take(update)
    links = {path[1]: values[-6:] for path, values in page.series.items() if path[0] == "links"}
    assert links == {"leaf1:swp1": [0, 0, 0, 1, 0, 0]}
    texts = [(each["word"], each["text"], each["ports"]) for each in page.others["events"]]
    assert texts == [("Link", f"leaf1:swp1 is {state}", ["leaf1:swp1"]) for state in ("down", "up", "down")]
    assert any(path == ["links", "leaf1:swp1"] for _, *path in feed.snapshot()["series"])


def test_a_lost_daemon_has_no_session_that_is_up(tmp_path: Path) -> None:
    """One that comes back has them again: it would report those that it has not."""
    made = storm(tmp_path)

    def take(**told: Any) -> None:
        made.event(made.ns, source="routing", node="leaf1", **told)
        made.sample()

    for kind, state in (("bgp", "Established"), ("bfd", "up")):
        take(kind=kind, interface="swp1", state=state, before="")
    take(kind="bgp", interface="swp2", state="Idle", before="")
    take(kind="other", interface="swp3", state="Idle", before="")  # no session that the page has
    for kind in ("daemon_lost", "daemon_back"):
        take(kind=kind, daemon="bgpd")
    page = page_of(made)
    found = {path[1]: values[-2:] for path, values in page.series.items() if path[0] == "sessions"}
    assert found == {"leaf1:swp1 bgp": [0, 1], "leaf1:swp2 bgp": [0, 0], "leaf1:swp1 bfd": [1, 1]}


def test_a_silent_daemon_is_reported_once(tmp_path: Path) -> None:
    """The sampler reports it each second."""
    made = storm(tmp_path)
    for second in (0, 1, 2, 9):
        at = made.ns + second * 10**9
        made.event(at, source="routing", kind="daemon_silent", node="leaf1", daemon="bgpd")
    made.sample()
    events = page_of(made).others["events"]
    assert [each["text"] for each in events] == ["leaf1 daemon silent daemon bgpd"] * 2


def test_a_burst_of_events_is_bounded(tmp_path: Path) -> None:
    made = storm(tmp_path)
    for number in range(1000):
        made.event(made.ns + number, source="routing", kind="zebra", node="leaf1", state="gone")
    made.sample()
    found = updates_of(made)[1]
    assert max(len(update.get("events", [])) for update in found) == 50
    assert sum(update.get("unlisted", 0) for update in found) == 950


def test_steps_of_a_fast_job_leave_room_for_other_events(tmp_path: Path) -> None:
    made = storm(tmp_path)
    for number in range(200):
        made.event(
            made.ns, source="job", kind="step", job="fast", rank=0, node="h3", interface="eth1", step=number,
            compute=1000, communication=1000,
        )  # fmt: skip
    made.event(made.ns, source="routing", kind="zebra", node="leaf1", state="gone")
    made.sample()
    (update,) = (each for each in updates_of(made)[1] if "events" in each)
    assert [each["word"] for each in update["events"]] == ["Job"] * 25 + ["Routing"]
    assert update["unlisted"] == 175


def test_dropped_news_of_the_kernel_are_counted_and_reported_once_a_second(tmp_path: Path) -> None:
    made = storm(tmp_path)
    for number in range(30):
        made.event(made.ns, source="recorder", kind="news_lost", number=0)
        if number == 14:
            made.sample()
    made.sample()
    found = updates_of(made)[1]
    assert [each["gaps"] for each in found if "gaps" in each] == [15, 15]
    (event,) = (event for each in found for event in each.get("events", ()))
    node = event["nodes"][0]
    assert event["text"] == f"the kernel dropped news of {node}: changes of its links may be missing"


def test_the_last_queue_pair_is_gone_from_the_snapshot(tmp_path: Path) -> None:
    made = storm(tmp_path)
    made.log.rows(queue_pairs.SCHEMA, made.ns, [queue_pair(17, "RTS")])
    made.log.rows(queue_pairs.SCHEMA, made.ns, [queue_pair(17, "gone", "RTS")])
    made.sample()
    assert updates_of(made)[0].snapshot()["qps"] == []


@pytest.mark.parametrize("data", [b"x" * 100, b"rocelab: no such option\n" * 9])
def test_what_is_no_log_is_one_clear_line(data: bytes) -> None:
    with pytest.raises(OperationFailed, match="the sampler's output cannot be read"):
        LiveFeed(UpdateRing()).feed(data)


def test_the_page_begins_with_the_run_of_a_report(tmp_path: Path) -> None:
    """The player's scripts read both: every key of a recording is there."""
    made = storm(tmp_path)
    topology = Recording.open(made.folder.path).topology
    assert set(recorded(made)) - set(empty_run(topology, "x", 10)) == {"every"}
