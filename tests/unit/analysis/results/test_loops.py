"""Routing loops: one transmission comes by again and again, its TTL smaller each time; and lookalikes."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.analysis.results.fact_builder import analyse
from lab.analysis.views.follow import follow
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng
from tests.unit.analysis.stories import NAK, START

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.results.analysis_facts import AnalysisFacts

A, B, C = (bytes.fromhex(f"02aa0000000{n}") for n in (1, 2, 3))
US = 1000


def frame(sender: bytes, receiver: bytes, ttl: int, psn: int = 50, path: packets.Path = packets.THERE) -> bytes:
    """A SEND as a router has written its addresses."""
    return receiver + sender + packets.send(psn, path=replace(path, hops=ttl))[12:]


def capture(events: Sequence[tuple[int, int, bytes]], *links: str, way: int = Direction.UNKNOWN) -> bytes:
    """Frames by their time in ns and their link."""
    taken = [Record(START + time, link, len(octets), way, octets) for time, link, octets in events]
    return pcapng(taken, *(Interface(link, speed=10**9) for link in links or ("tap",)))


def analysed(*arguments: object, **options: int) -> AnalysisFacts:
    return analyse(io.BytesIO(capture(*arguments, **options)), "story")  # type: ignore[arg-type]


def between_two(
    ttl: int, passes: int, *, psn: int = 50, at: int = 0, path: packets.Path = packets.THERE
) -> list[tuple[int, int, bytes]]:
    """A link between two routers that send a packet back to each other."""
    return [
        (at + n * 2 * US, 0, frame(*((A, B) if n % 2 == 0 else (B, A)), ttl - n, psn, path)) for n in range(passes)
    ]


@pytest.mark.parametrize("passes", [3, 9, 60])
@pytest.mark.parametrize("path", [packets.THERE, packets.THERE6])
@pytest.mark.parametrize("way", [Direction.UNKNOWN, Direction.INBOUND])
def test_two_routers_that_send_a_packet_back_to_each_other(passes: int, path: packets.Path, way: int) -> None:
    facts = analysed(between_two(63, passes, path=path), way=way)
    (loop,) = facts.loops
    assert (loop.psn, loop.packets, loop.hops) == (50, 1, 2)
    (link,) = loop.links
    assert (link.times, link.turned) == (passes, True)
    assert set(link.macs) == {"02:aa:00:00:00:01", "02:aa:00:00:00:02"}
    (finding,) = facts.findings
    assert not finding.note
    assert f"PSN 50 passed tap {passes} times" in finding.what
    assert f"with a lower {'TTL' if path is packets.THERE else 'hop limit'} each time" in finding.what
    assert "routing loop" in finding.meaning


def test_a_circle_of_three_routers_passes_a_link_one_way() -> None:
    facts = analysed([(n * 6 * US, 0, frame(A, B, 62 - 3 * n)) for n in range(5)])
    (loop,) = facts.loops
    assert (loop.hops, loop.links[0].times, loop.links[0].turned) == (3, 5, False)
    (finding,) = facts.findings
    assert "a routing loop: 3 routers send packets to 10.0.0.2 in a circle" in finding.meaning


def test_every_link_of_a_circle_is_named() -> None:
    """leaf1 to spine1 to leaf2 and back to leaf1: three links, each with its passes."""
    hops = ((A, B), (B, C), (C, A))
    events = [(n * 2 * US, n % 3, frame(*hops[n % 3], 63 - n)) for n in range(30)]
    facts = analysed(events, "leaf1:swp1", "spine1:swp2", "leaf2:swp3", way=Direction.OUTBOUND)
    (loop,) = facts.loops
    assert [(link.link, link.times) for link in loop.links] == [
        ("leaf1:swp1", 10), ("spine1:swp2", 10), ("leaf2:swp3", 10)
    ]  # fmt: skip
    assert "leaf1:swp1 10 times, spine1:swp2 10 times, leaf2:swp3 10 times" in facts.findings[0].what


def test_a_slow_loop_is_one_and_nothing_was_sent_again() -> None:
    """A full link queues for 80 ms, longer than copies of a mirror are apart."""
    events = [(n * 80_000 * US, 0, octets) for n, (_, _, octets) in enumerate(between_two(63, 12))]
    facts = analysed(events)
    assert facts.loops[0].links[0].times == 12
    assert not any("retransmitted" in finding.what for finding in facts.findings)


def test_a_loop_that_begins_later_and_takes_all_packets() -> None:
    """Ten packets pass, then every one goes round until its TTL is used up."""
    events = [(n * 100 * US, 0, frame(A, B, 63, n)) for n in range(10)]
    for psn in range(10, 14):
        events += between_two(63, 62, psn=psn, at=psn * 100 * US)
    facts = analysed(sorted(events))
    assert (facts.loops[0].packets, facts.loops[0].links[0].times) == (4, 62)


def test_addresses_that_are_not_known_leave_the_ttls() -> None:
    """Raw IP has none: more than any path's number of TTLs."""
    facts = analysed([(n * US, 0, bytes(12) + frame(A, A, 63 - n)[12:]) for n in range(12)])
    (loop,) = facts.loops
    assert (loop.links[0].turned, loop.links[0].macs) == (False, ())
    (finding,) = facts.findings
    assert "where" not in finding.what


def test_a_mirror_of_several_routers_is_none() -> None:
    """Each router writes its own addresses, and none comes twice."""
    macs = [bytes.fromhex(f"02cc0000000{n}") for n in range(6)]
    events = [
        (psn * 100 * US + hop * US, 0, frame(macs[hop], macs[hop + 1], 64 - hop, psn))
        for psn in range(1, 40)
        for hop in range(5)
    ]
    facts = analysed(events)
    assert not facts.loops
    (finding,) = facts.findings
    assert finding.note
    assert "from one hop or more further on" in finding.what


def test_a_router_with_one_arm_is_none() -> None:
    """It sends a packet on over the link that it came from, to another host."""
    events = [(psn * 100 * US + hop * US, 0, frame(*pair, 64 - hop, psn))
              for psn in range(1, 40) for hop, pair in enumerate(((A, B), (B, C)))]  # fmt: skip
    assert not analysed(events).loops


def test_a_retransmission_over_a_longer_path_is_none() -> None:
    """The path becomes two hops longer while a packet is lost behind here and sent again."""
    story = [frame(A, B, 62, psn) for psn in (1, 2, 3)] + [frame(A, B, 60, psn) for psn in (2, 3, 4)]
    events = [(n * US, 0, octets) for n, octets in enumerate([*story[:3], packets.ack(2, NAK), *story[3:]])]
    assert not analysed(events).loops


def test_requests_that_are_refused_often_over_paths_of_two_lengths_are_in_none() -> None:
    """RNR NAKs: each retransmission takes one of two paths, longer than that of the requests before."""
    story = [(psn * US, 0, frame(A, B, 64, psn)) for psn in range(42, 50)]
    for turn in range(40):
        at, hops = 100 * US * (turn + 1), 62 if turn % 3 else 60
        story += [
            (at, 0, frame(A, B, hops)),
            (at + US, 0, packets.ack(50, 0x21, path=replace(packets.BACK, hops=hops))),
        ]
    assert not analysed(story).loops


def test_cnps_over_paths_of_three_lengths_are_in_no_loop() -> None:
    """They are alike: a CNP has no PSN."""
    story = [(psn * US, 0, frame(A, B, 64, psn, packets.MARKED)) for psn in range(300)]
    story += [
        (turn * 10 * US + 500, 0, packets.congestion(replace(packets.BACK, hops=64 - turn % 3 * 2)))
        for turn in range(30)
    ]
    assert not analysed(sorted(story)).loops


def test_a_cnp_in_a_loop_is_found() -> None:
    """The control: its TTL falls by two with each turn."""
    cnps = [packets.congestion(replace(packets.BACK, hops=64 - 2 * turn)) for turn in range(30)]
    (loop,) = analysed([(turn * 10 * US, 0, cnp) for turn, cnp in enumerate(cnps)]).loops
    assert (loop.hops, loop.links[0].times) == (2, 30)


def test_follow_does_not_call_a_loop_sent_again() -> None:
    (track,) = follow(io.BytesIO(capture(between_two(63, 9))), "story", packets.QP2, 50)
    (copy,) = track.copies
    assert (len(copy.sightings), copy.circles) == (9, "tap")


def test_follow_tells_a_retransmission_from_a_pass() -> None:
    """One that is sent again has the same TTL; both go round."""
    events = [*between_two(63, 4), *between_two(63, 4, at=100 * US)]
    (track,) = follow(io.BytesIO(capture(events)), "story", packets.QP2, 50)
    assert [len(copy.sightings) for copy in track.copies] == [4, 4]
    straight = [(n, n, frame(A, B, 64 - n)) for n in range(3)]
    (track,) = follow(io.BytesIO(capture(straight, "a", "b", "c")), "story", packets.QP2, 50)
    assert [copy.circles for copy in track.copies] == [""]


def tunnelled(number: int, ttl: int, vni: int = 10, psn: int = 50) -> bytes:
    """A SEND in VXLAN, from leaf A to leaf B if ``number`` is even, else back; ``ttl`` is the inner one."""
    outer = packets.vxlan(packets.send(psn, path=replace(packets.THERE, hops=ttl)), vni)
    macs = A + B if number % 2 else B + A
    addresses = outer[30:34] + outer[26:30] if number % 2 else outer[26:34]
    return macs + outer[12:26] + addresses + outer[34:]


@pytest.mark.parametrize("passes", [3, 9, 60])
def test_leaves_that_send_a_packet_back_to_each_other_in_a_tunnel(passes: int) -> None:
    """Each leaf writes a new outer header, with the same outer TTL; only the inner one decreases."""
    facts = analysed([(n * 2 * US, 0, tunnelled(n, 63 - n)) for n in range(passes)])
    (loop,) = facts.loops
    assert (loop.inner, loop.vnis, loop.hops, loop.links[0].turned) == (True, (10,), 2, True)
    assert loop.links[0].times == passes
    (finding,) = facts.findings
    assert f"QP 0x22 in VNI 10: 1 packet in a loop of 2 hops: PSN 50 passed tap {passes} times" in finding.what
    assert "with a lower inner TTL each time" in finding.what
    assert "routing loop in the overlay" in finding.meaning
    assert "VRFs" in finding.meaning


def test_vrfs_that_send_a_packet_back_to_each_other_through_one_leaf() -> None:
    """It passes the link in the VNI of one VRF, and comes back in that of the other."""
    facts = analysed([(n * 2 * US, 0, tunnelled(n, 63 - n, vni=20 if n % 2 else 10)) for n in range(12)])
    (loop,) = facts.loops
    (link,) = loop.links
    assert (loop.vnis, loop.inner, link.times, link.turned) == ((10, 20), True, 12, True)
    (finding,) = facts.findings
    assert "in VNIs 10 and 20: 1 packet in a loop of 2 hops" in finding.what


def test_spines_that_send_a_tunnelled_packet_in_a_circle_are_of_the_underlay() -> None:
    events = []
    for n in range(9):
        octets = tunnelled(n, 63)
        events.append((n * 2 * US, 0, octets[:22] + bytes([60 - n]) + octets[23:]))
    (loop,) = (facts := analysed(events)).loops
    assert (loop.inner, loop.vnis, loop.hops) == (False, (10,), 2)
    assert "overlay" not in facts.findings[0].meaning


def test_a_packet_that_a_firewall_returns_into_another_vrf_is_no_loop() -> None:
    """The control: each packet passes the link twice, once in each VNI, and one leaf further on."""
    events = [
        (psn * 100 * US + back * US, 0, tunnelled(back, 63 - 2 * back, vni=20 if back else 10, psn=psn))
        for psn in range(1, 40)
        for back in (0, 1)
    ]
    assert not analysed(events).loops


def test_follow_finds_a_loop_in_a_tunnel() -> None:
    events = [(n * 2 * US, 0, tunnelled(n, 63 - n)) for n in range(9)]
    (track,) = follow(io.BytesIO(capture(events)), "story", packets.QP2, 50)
    (copy,) = track.copies
    assert (len(copy.sightings), copy.circles) == (9, "tap")
