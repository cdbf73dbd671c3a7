"""Storms and long pauses in captures without the link's rate, and flow control that no standard has."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

import pytest

from lab.analysis.results.analysis_exit_code import verdict
from lab.analysis.results.fact_builder import analyse
from lab.errors import ExitCode
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcap, pcapng
from tests.unit.analysis.links import LINKS
from tests.unit.analysis.stories import MS, START

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.results.analysis_facts import AnalysisFacts, CaptureFinding

US = 1000
STORM = packets.pause({3: 0xFFFF})
RESUME = packets.pause({3: 0})


def at_times(
    events: Sequence[tuple[int, bytes]], *, speed: int | None = None, rate: int | None = None
) -> AnalysisFacts:
    """Frames by their time in ns at one link, whose rate is not in the file unless ``speed`` is given."""
    taken = [Record(START + time, 0, len(frame), Direction.UNKNOWN, frame) for time, frame in sorted(events)]
    return analyse(io.BytesIO(pcapng(taken, Interface("pcap", speed=speed))), "f", rate=rate)


def global_pause(quanta: int) -> bytes:
    """IEEE 802.3's Pause (annex 31B)."""
    head = bytes.fromhex("0180c20000010200000000098808") + struct.pack("!HH", 1, quanta)
    return head.ljust(60, b"\0")


def only(facts: AnalysisFacts) -> CaptureFinding:
    (finding,) = facts.findings
    return finding


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ([3], "priority 3 paused"), ([4, 5], "priorities 4 and 5 paused"),
        ([0, 1, 3], "priorities 0, 1 and 3 paused"),
        ([0, 2, 3, 4, 7], "priorities 0, 2 to 4 and 7 paused"), (range(8), "priorities 0 to 7 paused"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("every", [10 * US, 41 * US])
def test_a_storm_is_one_at_any_rate_and_of_all_its_classes(classes: Sequence[int], said: str, every: int) -> None:
    """65,535 quanta of 512 bits last 41.9 us at 800 Gb/s, so that XOFFs 41 us apart stop a link for good."""
    frame = packets.pause(dict.fromkeys(classes, 0xFFFF))
    facts = at_times([(n * every, frame) for n in range(6)])
    finding = only(facts)
    assert said in finding.what
    assert f"by 6 XOFFs{'' if len(classes) == 1 else ' each'} and no XON" in finding.what
    assert "100% of the capture" in finding.what
    assert "PFC storm" in finding.meaning
    assert finding.count == 1
    assert verdict(facts) is ExitCode.FAIL


def test_classes_that_are_paused_at_other_places_or_otherwise_are_apart() -> None:
    """Of two senders: 3 and 4 in a storm of both, 5 of one; and 6 with XONs."""
    storm = packets.pause({3: 0xFFFF, 4: 0xFFFF})
    more = packets.pause({3: 0xFFFF, 4: 0xFFFF, 5: 0xFFFF})
    other = more[:6] + bytes.fromhex("02000000000a") + more[12:]
    ended = [
        (n * MS + late, packets.pause({6: quanta})) for n in range(50) for late, quanta in ((1, 9999), (MS // 2, 0))
    ]
    events = [(n * MS, frame) for n in range(50) for frame in (storm, other)]
    found = [finding.what for finding in at_times([*events, *ended], speed=10**9).findings]
    assert len(found) == 3
    assert [what for what in found if "priorities 3 and 4 paused for" in what and "2 links" in what]
    assert [what for what in found if "00:0a: priority 5 paused for" in what]
    assert [what for what in found if "priority 6 paused for" in what and "XON" not in what]
    assert "by 100 XOFFs each and no XON" in "".join(found)


@pytest.mark.parametrize(
    "frame",
    [
        b"\x02" + STORM[1:],
        b"\xff" * 6 + STORM[6:],
        b"\xff" * 6 + b"\x02\0\0\0\0\x09\x88\x08\0\x01\xff\xff" + bytes(42),
    ],
)
def test_a_storm_to_another_address_pauses_nothing(frame: bytes) -> None:
    """Receivers ignore PFC whose address is not the reserved one (IEEE 802.3 annex 31D), so there is no storm."""
    facts = at_times([(n * 10 * US, frame) for n in range(100)])
    finding = only(facts)
    assert "100 frames of flow control to" in finding.what
    assert not facts.pauses
    assert facts.pause_frames == 100
    assert verdict(facts) is ExitCode.FAIL


def test_a_storm_of_pause_to_the_station_itself_is_one() -> None:
    """The control: a receiver obeys it (IEEE 802.3 annex 31B)."""
    frame = bytes.fromhex("020000000001") + global_pause(0xFFFF)[6:]
    found = at_times([(n * 10 * US, frame) for n in range(100)]).findings
    assert any("all classes paused" in finding.what for finding in found)


def test_what_quanta_last_at_least_is_counted() -> None:
    """Every ms 41.9 us at 800 Gb/s, which is 4%; at 1 Gb/s it is all of the time: nobody can say which."""
    facts = at_times([(n * MS, STORM) for n in range(11)])
    assert facts.pauses[0].least == pytest.approx(10 * 65535 * 512 / 800e9, rel=1e-4)
    assert facts.pauses[0].most == pytest.approx(10e-3)
    finding = only(facts)
    assert finding.unjudged
    assert "--rate" in finding.meaning
    assert verdict(facts) is ExitCode.UNKNOWN


@pytest.mark.parametrize(("rate", "code"), [(10**9, ExitCode.FAIL), (800 * 10**9, ExitCode.PASS)])
def test_a_rate_decides_what_was_not_judged(rate: int, code: ExitCode) -> None:
    assert verdict(at_times([(n * MS, STORM) for n in range(11)], rate=rate)) is code


def test_short_pauses_that_xon_ends_are_none() -> None:
    """The control: ten pauses of 5 us in 10 ms, each ended by XON, without a rate."""
    events = [(n * MS + late, frame) for n in range(11) for late, frame in ((0, STORM), (5 * US, RESUME))]
    facts = at_times(events)
    assert not facts.findings
    assert verdict(facts) is ExitCode.PASS


def test_a_pause_that_began_just_before_the_end_is_none() -> None:
    assert not at_times([(0, RESUME), (99 * MS, STORM), (100 * MS, packets.send(1))]).findings


def test_a_long_pause_is_a_storm_however_long_the_capture() -> None:
    """0.3 s of 10 s, at 100 Mb/s: 3%, but as long as a watchdog waits."""
    events = [(0, STORM), (150 * MS, STORM), (300 * MS, RESUME), (10_000 * MS, RESUME)]
    assert "paused for 300 ms" in only(at_times(events, speed=10**8)).what
    short = [(0, STORM), (100 * MS, RESUME), (10_000 * MS, RESUME)]
    assert not at_times(short, speed=10**8).findings


def test_one_moment_is_too_short_to_judge() -> None:
    assert only(at_times([(0, STORM)])).unjudged


@pytest.mark.parametrize(("classes", "each"), [([3], ""), ([3, 4], " each"), ([3, 5], " each")])
def test_what_is_not_judged_counts_the_frames_of_each_class(classes: Sequence[int], each: str) -> None:
    quanta = (0xFFFF, 0xFFFF, 0)
    events = [(n * MS, packets.pause(dict.fromkeys(classes, quanta[n % 3]))) for n in range(30)]
    finding = only(at_times(events))
    assert finding.unjudged
    assert f"by 20 XOFFs and 10 XON{each}," in finding.what


def test_a_storm_of_global_pause_stops_all_classes() -> None:
    facts = at_times([(n * 10 * US, global_pause(0xFFFF)) for n in range(4)])
    told = [finding.what for finding in facts.findings]
    assert any("all classes paused" in what and "no XON" in what for what in told)


def test_global_pause_is_a_note_and_beside_pfc_it_is_wrong() -> None:
    few = [(0, global_pause(5)), (US, global_pause(0)), (100 * MS, global_pause(0))]
    assert only(at_times(few)).note
    both = at_times([*few, (MS, packets.pause({3: 5})), (MS + US, RESUME)])
    assert not only(both).note
    assert "both PFC and IEEE 802.3 Pause" in only(both).what


def vector(classes: int) -> bytes:
    return STORM[:16] + struct.pack("!H", classes) + STORM[18:]


@pytest.mark.parametrize(
    ("frame", "said", "note"),
    [
        (vector(0), "class vector is 0:", True),
        (vector(0x0800), "class vector is 0x0800", True),
        (STORM[:14] + b"\x01\x02" + STORM[16:], "reserved opcode 0x0102", False),
        (b"\x02" + STORM[1:], "flow control to 02:80:c2:00:00:01", False),
        (b"\xff" * 6 + STORM[6:], "flow control to ff:ff:ff:ff:ff:ff", False),
    ],
)
def test_frames_that_are_not_as_the_standards_have_them(frame: bytes, said: str, note: bool) -> None:
    facts = at_times([(0, frame), (MS, packets.send(1)), (1000 * MS, packets.send(2))])
    odd = [finding for finding in facts.findings if said in finding.what]
    assert [finding.note for finding in odd] == [note]
    assert "1 frame of" in odd[0].what
    assert facts.odd_control[0].frames == 1


def test_pause_to_the_station_itself_is_allowed() -> None:
    """IEEE 802.3 annex 31B: the group address, or that of the station; control frames of EPON are none of these."""
    unicast = bytes.fromhex("020000000001") + global_pause(0)[6:]
    gate = STORM[:14] + b"\x00\x02" + STORM[16:]
    assert not at_times([(0, unicast), (MS, gate)]).odd_control


@pytest.mark.parametrize("name", ["cooked", "cooked 2"])
def test_a_link_type_without_destinations_has_no_wrong_ones(name: str) -> None:
    linktype, wrap = LINKS[name]
    facts = analyse(io.BytesIO(pcap([wrap(STORM), wrap(packets.send(1))], linktype=linktype)), "f", rate=10**9)
    assert [port.xoff for port in facts.pauses] == [1]
    assert not facts.odd_control
