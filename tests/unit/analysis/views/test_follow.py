"""One packet over several links: times, delays, copies, tunnels, and what is not it."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.analysis.views.follow import Track, follow
from lab.cli.app import app
from lab.wire.craft.build import vxlan
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng
from tests.unit.wire.packets import VTEPS

LINKS = [Interface(name) for name in ("h1:eth1", "leaf1:swp1", "spine1:swp2", "leaf2:swp3")]
START = 10**18
QP = packets.QP2


def at(link: int, time: int, frame: bytes) -> Record:
    return Record(START + time, link, len(frame), Direction.OUTBOUND, frame)


def one(psn: int, hops: int = 64, ecn: int = 2) -> bytes:
    return packets.send(psn, path=replace(packets.THERE, hops=hops, ecn=ecn))


def capture(records: list[Record]) -> bytes:
    return pcapng(records, *LINKS)


STORY = capture(
    [
        at(0, 0, one(7)),
        at(1, 900, one(7, 63)),
        at(0, 1000, one(8)),
        at(2, 2_000, vxlan(VTEPS, 10, one(7, 62, ecn=3))),
        at(3, 2_100, packets.ack(7)),
        at(3, 3_500, one(7, 61, ecn=3)),
        at(0, 50_000, one(8)),  # the first copy of 8 got lost behind h1
        at(1, 51_000, one(8, 63)),
        at(3, 59_000, one(8, 61)),
    ]
)


def tracks(psn: int, data: bytes = STORY, chunk: int = 8 * 2**20) -> list[Track]:
    return follow(io.BytesIO(data), "story", QP, psn, chunk)


@pytest.mark.parametrize("chunk", [8 * 2**20, 400])
def test_a_packet_is_followed_from_link_to_link(chunk: int) -> None:
    (track,) = tracks(7, chunk=chunk)
    assert (track.opcode, track.src, track.dst) == ("RC SEND Only", "10.0.0.1", "10.0.0.2")
    (copy,) = track.copies
    assert [sighting.link for sighting in copy.sightings] == [link.name for link in LINKS]
    assert [sighting.number for sighting in copy.sightings] == [1, 2, 4, 6]
    assert copy.delays == [900, 1100, 1500]
    assert [sighting.vni for sighting in copy.sightings] == [None, None, 10, None]
    assert [sighting.marked for sighting in copy.sightings] == [False, False, True, True]
    assert copy.sightings[1].hops == 63


def test_a_retransmission_is_a_copy_of_its_own() -> None:
    (track,) = tracks(8)
    assert [[sighting.time - START for sighting in copy.sightings] for copy in track.copies] == [
        [1000],
        [50_000, 51_000, 59_000],
    ]
    assert [copy.delays for copy in track.copies] == [[], [1000, 8000]]


def numbered(ident: int, hops: int) -> bytes:
    """The packet as a sender that counts its packets sends it; nobody here checks its ICRC."""
    frame = one(9, hops)
    return frame[:18] + ident.to_bytes(2) + frame[20:]


def test_copies_under_way_at_once_are_told_apart_by_their_identification() -> None:
    """The second copy leaves before the first one arrives, and gets lost behind leaf1; the third is in a tunnel."""
    data = capture(
        [
            at(0, 0, numbered(1, 64)),
            at(0, 100, numbered(2, 64)),
            at(1, 900, numbered(1, 63)),
            at(1, 1000, numbered(2, 63)),
            at(0, 1100, numbered(3, 64)),
            at(2, 2000, vxlan(VTEPS, 10, numbered(1, 62))),
            at(2, 2100, vxlan(VTEPS, 10, numbered(3, 62))),
            at(3, 9000, numbered(3, 61)),
            at(3, 9100, numbered(1, 61)),
        ]
    )
    (track,) = tracks(9, data)
    assert [[sighting.time - START for sighting in copy.sightings] for copy in track.copies] == [
        [0, 900, 2000, 9100],
        [100, 1000],
        [1100, 2100, 9000],
    ]
    assert {sighting.ident for sighting in track.copies[1].sightings} == {2}


def test_the_same_identification_on_the_same_link_is_another_copy() -> None:
    (track,) = tracks(9, capture([at(0, 0, numbered(1, 64)), at(1, 5, numbered(1, 63)), at(0, 9, numbered(1, 64))]))
    assert [len(copy.sightings) for copy in track.copies] == [2, 1]


def test_ipv6_has_no_identification() -> None:
    (track,) = tracks(9, capture([at(0, 0, packets.send(9, path=packets.THERE6))]))
    assert track.copies[0].sightings[0].ident is None


def test_the_same_qp_and_psn_at_another_host_is_another_packet() -> None:
    other = packets.send(7, path=packets.BACK)
    found = tracks(7, capture([at(0, 0, one(7)), at(1, 10, other), at(2, 20, one(7))]))
    assert [(track.src, len(track.copies[0].sightings)) for track in found] == [("10.0.0.1", 2), ("10.0.0.2", 1)]


def test_links_that_are_not_in_order_of_time_are_put_in_order() -> None:
    (track,) = tracks(7, capture([at(1, 900, one(7)), at(0, 0, one(7))]))
    assert track.copies[0].delays == [900]


def rocelab(file: Path, *words: str, data: bytes = STORY) -> tuple[int, str]:
    file.write_bytes(data)
    done = CliRunner().invoke(app, ["follow", str(file), *words], env={"COLUMNS": "160"})
    return done.exit_code, done.output or str(done.exception)


def test_the_command_shows_delays_and_copies(tmp_path: Path) -> None:
    code, said = rocelab(tmp_path / "f", f"{QP:#x}:8")
    assert code == 0
    assert "RC SEND Only  10.0.0.1 > 10.0.0.2  QP 0x22  PSN 8: sent again once" in said
    assert "copy 2: h1:eth1 to leaf2:swp3 in 9 us, 49 us after the first one" in said
    assert "2, sent again" in said
    code, said = rocelab(tmp_path / "f", f"{QP}:7", "--json")
    assert json.loads(said)[0]["copies"][0]["delays"] == [900, 1100, 1500]


def test_a_packet_that_nobody_saw_is_said_so(tmp_path: Path) -> None:
    code, said = rocelab(tmp_path / "f", "0x22:99")
    assert code == 1
    assert "no packet to QP 0x22 with PSN 99" in said
    assert rocelab(tmp_path / "f", "0x22:99", "--json") == (1, "[]\n")


@pytest.mark.parametrize(
    ("packet", "complaint"),
    [
        ("7", "'7' names no packet: write QPN:PSN, like 0x11:4711"),
        ("0x11:x", "'0x11:x' names no packet: write QPN:PSN"),
        ("0x11:16777216", "QPN and PSN are from 0 to 16777215"),
    ],
)
def test_wrong_names_of_packets(tmp_path: Path, packet: str, complaint: str) -> None:
    assert complaint in rocelab(tmp_path / "f", packet)[1]


def test_the_same_psn_after_a_lap_is_another_packet() -> None:
    """2**24 packets on, in steps that a capture of every 4 millionth one shows."""
    laps = [at(0, time, one(psn & 0xFFFFFF)) for time, psn in enumerate(range(7, 7 + 2**24 + 1, 2**22))]
    found = tracks(7, capture(laps))
    assert [len(track.copies) for track in found] == [1, 1]
    again = tracks(7, capture([at(0, 0, one(7)), at(0, 1, one(8)), at(0, 2, one(7))]))
    assert [len(track.copies) for track in again] == [2]


def test_two_links_of_one_name_are_two() -> None:
    """Both hosts call theirs eth0: merged into one file a packet is seen once by each, and sent once."""
    both = [at(0, 0, one(7)), at(1, 900, one(7, 63))]
    (track,) = tracks(7, pcapng(both, Interface("eth0"), Interface("eth0")))
    (copy,) = track.copies
    assert [sighting.link for sighting in copy.sightings] == ["eth0", "eth0 (2)"]
