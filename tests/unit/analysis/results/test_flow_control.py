"""Pauses of both ends of a link, with and without its rate, and where a filter hid them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from lab.analysis.results.fact_builder import analyse
from lab.wire.pcapng import Direction, Interface, Record, Writer
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records
from tests.unit.analysis.stories import MS, START

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts


def pause_frame(sender: int, quanta: int) -> bytes:
    frame = packets.pause({3: quanta})
    return frame[:11] + bytes([sender]) + frame[12:]


def test_pauses_of_both_ends_are_told_apart_by_their_senders() -> None:
    """A TAP: one end pauses for 90 ms of 100, which the other end's XON every 10 ms does not end."""
    frames = [(0, pause_frame(1, 0xFFFF)), (90 * MS, pause_frame(1, 0))]
    frames += [(at * 10 * MS + 20_000, pause_frame(2, 0)) for at in range(10)] + [(100 * MS, pause_frame(2, 0))]
    taken = [Record(START + at, 0, 60, Direction.UNKNOWN, frame) for at, frame in sorted(frames)]
    facts = analyse(io.BytesIO(pcapng(taken, Interface("tap", speed=10**8))), "story")
    paused = {port.sender: port.paused for port in facts.pauses}
    assert paused["02:00:00:00:00:01"] == pytest.approx(90e-3)
    assert not paused["02:00:00:00:00:02"]
    assert "tap, from 02:00:00:00:00:01: priority 3 paused for 90 ms" in facts.findings[0].what


def test_the_files_rate_comes_before_the_one_given() -> None:
    """100 quanta are 51,200 bits: 51.2 us at the 1 Gb/s that the file names, whatever was given."""
    taken = [Record(START + at, 0, 60, Direction.INBOUND, pause_frame(1, q)) for at, q in ((0, 100), (10 * MS, 0))]
    known, unknown = (
        analyse(io.BytesIO(pcapng(taken, Interface("x", speed=speed))), "story", rate=10**8).pauses[0].paused
        for speed in (10**9, None)
    )
    assert known == pytest.approx(51.2e-6)
    assert unknown == pytest.approx(512e-6)


def captured(select: str) -> AnalysisFacts:
    output = io.BytesIO()
    writer = Writer(output, select=select)
    writer.add_interface(Interface("h1:eth1"))
    writer.write(records([packets.send(1), packets.ack(1)]))
    return analyse(io.BytesIO(output.getvalue()), "story")


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("", ""),
        ("roce or pfc", ""),
        ("roce", "not captured: the capture filter was 'roce'"),
        ("host h1", "not captured: the capture filter was 'host h1'"),
        ("udp port 4791", "perhaps not captured: the capture filter was 'udp port 4791'"),
    ],
)
def test_pauses_that_a_filter_left_out_are_not_none(select: str, said: str) -> None:
    assert captured(select).pause_frames_hidden == said
