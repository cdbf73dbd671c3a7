"""The output of iperf3 and ping as series; an incomplete recording is rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lab.errors import InvalidInput, UsageError
from lab.telemetry.read.program_series import ECHO, STREAM, echoes, received, reports
from lab.telemetry.read.recording import Recording
from lab.telemetry.store import recording_folder as files
from tests.unit.model.qos.fabrics import fabric
from tests.unit.telemetry.made import START, Made

if TYPE_CHECKING:
    from pathlib import Path

IPERF3 = """\
-----------------------------------------------------------
Server listening on 40001 (test #1)
-----------------------------------------------------------
Accepted connection from 10.0.0.1, port 56650
[  5] local 10.0.0.4 port 40001 connected to 10.0.0.1 port 56652
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-0.10   sec   128 KBytes  10473 Kbits/sec
[  5]   0.10-0.21   sec   256 KBytes  19102 Kbits/sec
[  5]   0.21-0.30   sec  0.00 Bytes  0.00 Kbits/sec
[  5]   0.30-0.40   sec   128 KBytes  9.98 Kbits/sec
[  5]   0.30-0.40   sec   128 KBytes  9.98 Kbits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-0.40   sec  1.50 MBytes  10485 Kbits/sec                  receiver
"""
"""Of iperf3 3.12, which says the last interval twice."""
PING = """\
PING 10.0.0.4 (10.0.0.4) 56(84) bytes of data.
[1000000005.010000] 64 bytes from 10.0.0.4: icmp_seq=1 ttl=63 time=0.051 ms
[1000000005.030000] no answer yet for icmp_seq=2
[1000000005.030100] 64 bytes from 10.0.0.4: icmp_seq=3 ttl=63 time=10.2 ms
[1000000005.040000] no answer yet for icmp_seq=3
[1000000005.050000] no answer yet for icmp_seq=4
[1000000005.050090] 64 bytes from 10.0.0.4: icmp_seq=5 ttl=63 time=2 ms

--- 10.0.0.4 ping statistics ---
5 packets transmitted, 3 received, 40% packet loss, time 40ms
rtt min/avg/max/mdev = 0.051/4.083/10.200/4.3 ms
"""
NOTES: list[dict[str, Any]] = [
    {"ns": START, "kind": "note", "text": STREAM, "pair": "h1:h4", "node": "h4", "port": 40001, "began": START},
    {"ns": START, "kind": "note", "text": ECHO, "pair": "h2:h4", "node": "h2", "address": "10.0.0.4"},
]
COMMANDS = [
    ("h4", ["iperf3", "--server", "--port", "40001"], IPERF3),
    ("h2", ["ping", "-D", "-O", "10.0.0.4"], PING),
]


def recorded(path: Path, notes: list[dict[str, Any]], commands: list[tuple[str, list[str], str]]) -> Recording:
    made = Made(path / "run", fabric("pfc-ecn"))
    for phase in ("first", "second"):
        made.phase(phase)
        made.sample()
    for note in notes:
        files.append_line(made.folder.notes, note)
    for node, argv, said in commands:
        line = {"ns": START, "end_ns": START + 10**9, "node": node, "argv": argv, "exit_code": 0, "stderr": ""}
        files.append_line(made.folder.commands, {**line, "stdout": said})
    return Recording.open(made.finished())


def test_what_arrives_by_tcp_is_a_counter_over_time(tmp_path: Path) -> None:
    series = received(recorded(tmp_path, NOTES, COMMANDS), "h1:h4")
    assert [int(ns) - START for ns in series.ns] == [100_000_000, 210_000_000, 300_000_000, 400_000_000]
    octets = [130_912, 262_652, 0, 125]  # 10473, 19102, 0 and 9.98 kbit/s for 0.1, 0.11, 0.09 and 0.1 s
    assert [int(each) for each in series.values] == [sum(octets[: end + 1]) for end in range(4)]
    assert not series.gauge


def test_the_sum_at_the_end_is_no_interval_and_none_counts_twice() -> None:
    assert [each.end for each in reports(IPERF3)] == [0.1, 0.21, 0.3, 0.4]


def test_pings_that_were_answered_late_are_not_lost(tmp_path: Path) -> None:
    found = echoes(recorded(tmp_path, NOTES, COMMANDS), "h2:h4")
    assert [int(each) for each in found.times.values] == [51_000, 10_200_000, 2_000_000]
    assert [int(ns) - START for ns in found.times.ns] == [10_000_000, 30_100_000, 50_090_000]
    assert [int(ns) - START for ns in found.unanswered] == [30_000_000, 50_000_000]
    assert (found.lost(START, START + 50_000_000), found.lost(START, START + 10**9)) == (1, 2)


def test_of_a_pair_that_was_pinged_twice_the_last_time_counts(tmp_path: Path) -> None:
    again = ("h2", ["ping", "-D", "-O", "10.0.0.4"], PING.replace("time=0.051 ms", "time=7 ms"))
    found = echoes(recorded(tmp_path, [*NOTES, NOTES[1]], [*COMMANDS, again]), "h2:h4")
    assert int(found.times.first) == 7_000_000


def test_a_pair_that_was_not_asked_for_is_told_with_its_neighbours(tmp_path: Path) -> None:
    recording = recorded(tmp_path, NOTES, COMMANDS)
    with pytest.raises(UsageError, match="no stream of h1:h5"):
        received(recording, "h1:h5")
    with pytest.raises(UsageError, match="no echo of h1:h4"):
        echoes(recording, "h1:h4")


def test_one_whose_recorder_was_killed_before_it_ended_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="traffic of h2:h4 was not recorded"):
        echoes(recorded(tmp_path, NOTES, COMMANDS[:1]), "h2:h4")


@pytest.mark.parametrize("damage", [{"began": None}, {"began": "soon"}])
def test_a_damaged_note_is_told_in_a_line(tmp_path: Path, damage: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"notes\.jsonl: is damaged"):
        received(recorded(tmp_path, [{**NOTES[0], **damage}], COMMANDS), "h1:h4")
