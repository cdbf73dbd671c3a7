"""Packets of interest: the first of each sort of a capture, when they were, and what of a capture cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli.kit.scenario_verdict import told_of
from lab.report.markdown import write_markdown
from lab.report.packet_picks import packets_of
from lab.report.playback import playback
from lab.report.run_facts import gather
from lab.scenario import library
from lab.telemetry.read.recording import Recording
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis.captures import pcapng
from tests.unit.analysis.packets import MARKED, ack, congestion, pause, send
from tests.unit.scenario.test_judge import storm
from tests.unit.telemetry.made import START

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.telemetry.made import Made

BEGAN = 10**18 + START
"""On the wall, of a recording that is made."""
LINK = "leaf1:swp1"
FRAMES = [
    send(7), send(8), send(9, path=MARKED), send(12), congestion(), ack(10, 0x60), pause({3: 0xFFFF}), pause({3: 0}),
    send(10), send(20), ack(11, 0x60),
]  # fmt: skip
"""PSN 10 and 11 are not there at first, and 13 to 19 never."""


def captured(folder: Path, frames: list[bytes]) -> Made:
    making = storm(folder)
    making.folder.captures.mkdir()
    records = [
        Record(BEGAN + number * 1_000_000, 0, len(frame), Direction.INBOUND, frame)
        for number, frame in enumerate(frames)
    ]
    (making.folder.captures / "links.pcapng").write_bytes(pcapng(records, Interface(LINK, speed=10**8)))
    return making


def test_the_first_of_each_sort_is_told_with_its_place_and_time(tmp_path: Path) -> None:
    found, unread = packets_of(Recording.open(captured(tmp_path, FRAMES).finished()))
    assert unread == []
    assert [(each.what, each.number, round(each.at, 6)) for each in found] == [
        ("the first packet that is marked (CE)", 3, 0.002),
        ("PSN 10 and 1 more was lost: the packet in its place", 4, 0.003),
        ("the first CNP", 5, 0.004),
        ("the first NAK", 6, 0.005),
        ("the first pause (PFC)", 7, 0.006),
    ]
    assert {(each.link, each.file) for each in found} == {(LINK, "captures/links.pcapng")}
    assert "PSN 12" in found[1].line
    assert "BTH, base transport header" in [header.name for header in found[1].headers]


def test_what_a_capture_has_not_is_left_out(tmp_path: Path) -> None:
    assert packets_of(Recording.open(captured(tmp_path, [send(7), send(8)]).finished())) == ([], [])


def test_a_capture_that_is_none_does_not_stop_the_report(tmp_path: Path) -> None:
    making = captured(tmp_path, FRAMES)
    (making.folder.captures / "torn.pcapng").write_bytes(b"no capture")
    (making.folder.captures / "folder.pcapng").mkdir()
    recording = Recording.open(making.finished())
    facts = gather(recording, told_of(recording.folder.path, library.OWN))
    assert len(facts.packets) == 5
    for name in ("torn", "folder"):
        assert any(f"captures/{name}.pcapng cannot be read" in line for line in facts.unknowns)
    told = write_markdown(facts)
    assert "### Packets" in told
    assert "PSN 10 and 1 more was lost" in told
    played = playback(recording, facts)["packets"]
    assert played[4]["typed"] == "rocelab dissect captures/links.pcapng --packet 7"
    fields = [field for header in played[4]["headers"] for field in header["fields"]]
    assert ["priority_enable_vector", "0x8"] in [field[:2] for field in fields]
