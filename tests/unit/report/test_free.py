"""The report of a recording that no scenario made: what was done, what happened, when most did, and a diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lab.cli.kit.scenario_verdict import told_of
from lab.report.markdown import write_markdown
from lab.report.playback import playback
from lab.report.run_facts import ReportFacts, gather
from lab.scenario import library
from lab.telemetry.read.recording import Recording
from lab.telemetry.sample.queue_pairs import SCHEMA
from lab.telemetry.store import recording_folder as files
from tests.unit.scenario.test_judge import LINK, TOPOLOGY, storm
from tests.unit.telemetry.made import START, STEP, Made
from tests.unit.telemetry.played import queue_pair

if TYPE_CHECKING:
    from pathlib import Path

QUIET, BUSY = 40, 20
"""Samples before and after, and in which something happens."""


def free(folder: Path) -> Made:
    """Traffic at all times, and in the middle three times as much, which is marked and pauses the senders."""
    making = Made(folder / "run", TOPOLOGY, hosts=("h1", "h4"))
    for number in range(2 * QUIET + BUSY):
        busy = QUIET <= number < QUIET + BUSY
        making.counters("leaf1:swp6")["priority"]["tx_bytes"][3] += LINK if busy else LINK // 3
        if busy:
            making.counters("leaf1:swp6")["queue"]["ecn_marked"][3] += 50
            making.counters("h1:eth1")["priority"]["paused_ns"][3] += STEP // 2
        making.sample()
    return making


def facts_of(path: Path) -> ReportFacts:
    return gather(Recording.open(path), told_of(path, library.OWN))


def played(path: Path) -> dict[str, Any]:
    return playback(Recording.open(path), facts_of(path))


def test_it_opens_where_most_happens(tmp_path: Path) -> None:
    path = free(tmp_path).finished()
    assert QUIET * STEP / 1e9 < played(path)["opening"] <= (QUIET + BUSY) * STEP / 1e9


def test_one_moment_of_loss_is_not_hidden_by_traffic(tmp_path: Path) -> None:
    making = free(tmp_path)
    for number in range(QUIET):
        making.devices[0] += np.array((0, 9, 0, 9, 0, 0, 0), np.uint64) * np.uint64(number == QUIET // 2)
        making.counters("leaf1:swp6")["queue"]["drop_packets"][3][0] += 30 * (number == QUIET // 2)
        making.counters("leaf1:swp6")["priority"]["tx_bytes"][3] += LINK
        making.counters("leaf1:swp6")["queue"]["ecn_marked"][3] += 50
        making.sample()
    lost = (2 * QUIET + BUSY + QUIET // 2) * STEP / 1e9
    assert played(making.finished())["opening"] == pytest.approx(lost, abs=0.6)


@pytest.mark.parametrize("samples", [0, 1, 2, 9])
def test_where_nothing_happens_it_opens_at_the_beginning(tmp_path: Path, samples: int) -> None:
    making = Made(tmp_path / "run", TOPOLOGY)
    for _ in range(samples):
        making.sample()
    assert played(making.finished())["opening"] == 0.0


def test_it_contradicts_nothing_that_was_counted(tmp_path: Path) -> None:
    text = write_markdown(facts_of(free(tmp_path).finished()))
    seen = text.split("## How it was seen")[1].split("## ")[0]
    assert "leaf1:swp6: queue3_ecn_marked grew by" in seen.replace("\\_", "_")
    assert "no counter of marks" not in seen
    assert f"| leaf1:swp6 | `queue3_ecn_marked` | {50 * BUSY} |" in text


def test_it_is_diagnosed(tmp_path: Path) -> None:
    facts = facts_of(free(tmp_path).finished())
    assert facts.diagnosis is not None
    text = write_markdown(facts)
    assert "## Diagnosis" in text
    assert "This report contains no diagnosis" not in text
    for cause in facts.diagnosis.causes:
        assert cause.cause in text


def test_it_says_where_packets_vanish(tmp_path: Path) -> None:
    making = free(tmp_path)
    for _ in range(QUIET):
        making.counters("h1:eth1")["priority"]["tx_packets"][3] += 100
        making.counters("leaf1:swp3")["priority"]["rx_packets"][3] += 90
        making.sample()
    text = write_markdown(facts_of(making.finished()))
    assert "Where packets are not conserved:" in text
    assert "| `h1:eth1--leaf1:swp3` | packets vanish |" in text


def test_it_says_nothing_of_packets_that_all_arrive(tmp_path: Path) -> None:
    assert "Where packets are not conserved:" not in write_markdown(facts_of(free(tmp_path).finished()))


def test_one_of_a_scenario_is_not(tmp_path: Path) -> None:
    facts = facts_of(storm(tmp_path).finished())
    assert facts.diagnosis is None
    assert "## Diagnosis" not in write_markdown(facts)


def test_what_was_typed_is_evidence_with_its_moment(tmp_path: Path) -> None:
    making = free(tmp_path)
    typed = ["rocelab", "rdma", "bw", "h1", "h4"]
    files.append_line(making.folder.commands, {
        "ns": START + 10**9, "end_ns": START + 3 * 10**9, "node": "", "argv": typed, "exit_code": 0,
        "stdout": "97.9 Mb/s\n", "stderr": "",
    })  # fmt: skip
    path = making.finished()
    text = write_markdown(facts_of(path))
    assert (
        "```text\n$ rocelab rdma bw h1 h4\n97.9 Mb/s\n```\nExit code 0 (`commands.jsonl`), begun at 1.000 s." in text
    )
    assert "| 1.000 | $ rocelab rdma bw h1 h4 |".replace("$", "\\$") in text
    assert "No command" not in text
    assert [(each["typed"], each["at"]) for each in played(path)["commands"]] == [(" ".join(typed), 1.0)]


def test_many_routes_are_a_few_lines(tmp_path: Path) -> None:
    making = free(tmp_path)
    for number in range(30):
        route = {"source": "kernel", "kind": "route", "node": "leaf1", "prefix": f"10.0.{number}.0/24"}
        making.event(making.ns, **route, interfaces=[], type="unicast", gone=True)
        making.event(making.ns + 4 * 10**9, **route, interfaces=["swp1", "swp2"], type="unicast", gone=False)
    making.event(
        making.ns,
        source="kernel",
        kind="route",
        node="leaf1",
        prefix="10.9.0.0/24",
        interfaces=None,
        type="blackhole",
    )
    moments = [moment.what for moment in facts_of(making.finished()).timeline if "route" in moment.what]
    first = "10.0.0.0/24, 10.0.1.0/24, 10.0.2.0/24, 10.0.3.0/24 and 26 more"
    assert moments == [
        f"leaf1: 30 routes removed: {first}",
        "leaf1: 1 route of type blackhole: 10.9.0.0/24",
        f"leaf1: 30 routes via swp1 swp2: {first}",
    ]


def test_one_prefix_in_two_vrfs_is_two_routes(tmp_path: Path) -> None:
    making = free(tmp_path)
    for table in (254, 1001, 1002):
        route = {"source": "kernel", "kind": "route", "node": "leaf1", "prefix": "10.0.0.0/24", "table": table}
        making.event(making.ns, **route, interfaces=[], type="unicast", gone=True)
        making.event(making.ns + 4 * 10**9, **route, interfaces=["swp1"], type="unicast", gone=False)
    moments = [moment.what for moment in facts_of(making.finished()).timeline if "route" in moment.what]
    places = ("", " in table 1001", " in table 1002")
    assert moments == [
        f"leaf1: 1 route {change}{place}: 10.0.0.0/24" for change in ("removed", "via swp1") for place in places
    ]


def test_many_queue_pairs_are_a_few_lines(tmp_path: Path) -> None:
    making = free(tmp_path)
    for after, state in ((0, "RTS"), (4 * 10**9, "gone")):
        for number in range(30):
            row = queue_pair(17 + number, state, node=f"h{number % 8 + 1}")
            making.log.rows(SCHEMA, START + after + number * 10**7, [row])
    moments = [moment for moment in facts_of(making.finished()).timeline if "QP" in moment.what]
    assert {moment.source for moment in moments} == {"rows/queue_pairs.parquet"}
    assert [moment.what for moment in moments] == [
        "30 QPs of h1:eth1, h2:eth1, h3:eth1, h4:eth1 and 4 more in state RTS: ib_write_bw",
        "30 QPs of h1:eth1, h2:eth1, h3:eth1, h4:eth1 and 4 more gone",
    ]
