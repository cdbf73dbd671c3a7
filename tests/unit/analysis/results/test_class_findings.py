"""RoCE outside of the class that PFC protects, and DSCPs and ECN that change on the way."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.analysis.results.fact_builder import analyse
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng
from tests.unit.analysis.stories import MS, START

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.analysis.results.analysis_facts import AnalysisFacts, CaptureFinding


def classed(frame: bytes, dscp: int) -> bytes:
    """The frame with another DSCP, in IPv4 or IPv6."""
    octets = bytearray(frame)
    if octets[12:14] == b"\x08\x00":
        octets[15] = dscp << 2 | octets[15] & 3
    else:
        first = int.from_bytes(octets[14:18]) & ~(0x3F << 22) | dscp << 22
        octets[14:18] = first.to_bytes(4)
    return bytes(octets)


def tagged(frame: bytes, pcp: int) -> bytes:
    return frame[:12] + b"\x81\x00" + (pcp << 13 | 7).to_bytes(2) + frame[12:]


def captured(*events: tuple[int, bytes], links: int = 1) -> AnalysisFacts:
    """Frames by their link, a ms apart; a short pause of priority 3 comes first."""
    pause = [(0, packets.pause({3: 5})), (0, packets.pause({3: 0}))]
    taken = [
        Record(START + n * MS, link, len(frame), Direction.INBOUND, frame)
        for n, (link, frame) in enumerate([*pause, *events])
    ]
    interfaces = [Interface(f"leaf1:swp{n}", speed=10**9) for n in range(links)]
    return analyse(io.BytesIO(pcapng(taken, *interfaces)), "story")


def outside(facts: AnalysisFacts) -> list[CaptureFinding]:
    return [finding for finding in facts.findings if "while PFC pauses priority 3" in finding.what]


@pytest.mark.parametrize("path", [packets.THERE, packets.THERE6])
@pytest.mark.parametrize("dscp", [0, 8, 46])
def test_roce_outside_of_the_paused_priority_is_told(path: packets.Path, dscp: int) -> None:
    facts = captured(*((0, classed(packets.send(psn, path=path), dscp)) for psn in range(3)))
    (finding,) = outside(facts)
    assert not finding.note
    assert f"DSCP {dscp}, usually priority {dscp >> 3}, while PFC" in finding.what
    assert facts.flows[0].dscps == (dscp,)


@pytest.mark.parametrize("dscp", [24, 26, 31])
def test_roce_in_the_paused_priority_is_right(dscp: int) -> None:
    assert not outside(captured(*((0, classed(packets.send(psn), dscp)) for psn in range(3))))


def test_the_priority_of_a_vlan_tag_counts_too() -> None:
    plain = classed(packets.send(1), 0)
    assert not outside(captured((0, tagged(plain, 3))))
    assert outside(captured((0, tagged(plain, 0))))


def test_beside_roce_in_the_paused_class_another_may_be_lossless_too() -> None:
    right = (0, packets.send(1, qp=5))
    (note,) = outside(captured(right, (0, classed(packets.send(1), 34))))
    assert note.note
    (wrong,) = outside(captured(right, (0, classed(packets.send(1), 0))))
    assert not wrong.note


def test_a_flow_that_is_partly_in_the_paused_class_is_noted() -> None:
    frames = [classed(packets.send(psn), 26 if psn < 3 else 0) for psn in range(5)]
    (note,) = outside(captured(*((0, frame) for frame in frames)))
    assert note.note
    assert "in part DSCP 0, usually priority 0, while PFC" in note.what
    assert not outside(captured(*((0, tagged(frame, 3)) for frame in frames)))  # switches may trust the tag


def test_cnps_and_answers_may_have_a_class_of_their_own() -> None:
    story = [packets.send(1), classed(packets.congestion(), 48), classed(packets.ack(1), 0)]
    facts = captured(*((0, frame) for frame in story))
    assert not outside(facts)
    assert [flow.dscps for flow in facts.flows] == [(26,), (0,)]


def test_without_pauses_no_class_is_judged() -> None:
    record = Record(START, 0, 60, Direction.INBOUND, classed(packets.send(1), 0))
    assert not analyse(io.BytesIO(pcapng([record])), "story").findings


def test_a_dscp_that_changes_between_two_links_is_told() -> None:
    """A switch sets it to 0; and one that a tunnel does not inherit."""
    events = [(n % 2, frame if n % 2 == 0 else classed(frame, 0)) for n, frame in
              enumerate(frame for psn in range(4) for frame in (packets.send(psn),) * 2)]  # fmt: skip
    facts = captured(*events, links=2)
    changed = [finding for finding in facts.findings if "DSCP 26 at leaf1:swp0 and 0 at leaf1:swp1" in finding.what]
    assert len(changed) == 1
    inside = [(n % 2, frame if n % 2 == 0 else classed(packets.vxlan(frame), 0)) for n, frame in
              enumerate(frame for psn in range(4) for frame in (packets.send(psn),) * 2)]  # fmt: skip
    assert any("DSCP 26 at leaf1:swp0 and 0 at leaf1:swp1" in f.what for f in captured(*inside, links=2).findings)


def test_a_dscp_that_stays_is_none() -> None:
    events = [(link, packets.send(psn)) for psn in range(4) for link in (0, 1)]
    assert not any("DSCP" in finding.what for finding in captured(*events, links=2).findings)


def with_ecn(frame: bytes, ecn: int) -> bytes:
    return frame[:15] + bytes([frame[15] & 0xFC | ecn]) + frame[16:]


def ecn_lost(*hops: tuple[int, ...], wrap: Callable[[bytes], bytes] = bytes) -> list[str]:
    """What is found of ECN if each packet has these values at the first and the second link; -1 is lost."""
    events = [
        (link, with_ecn(packets.send(psn) if not link else wrap(packets.send(psn)), ecn))
        for psn, values in enumerate(hops)
        for link, ecn in enumerate(values)
        if ecn >= 0
    ]
    return lost(*events, links=2)


def lost(*events: tuple[int, bytes], links: int) -> list[str]:
    """What is found of ECN in these frames."""
    return [finding.what for finding in captured(*events, links=links).findings if ", and not at " in finding.what]


def test_ecn_that_a_switch_or_tunnel_clears_is_told() -> None:
    (what,) = ecn_lost(*[(2, 0)] * 12)
    assert what == "10.0.0.1 to 10.0.0.2 QP 0x22: ECT at leaf1:swp0, and not at leaf1:swp1"
    assert ecn_lost(*[(2, 0)] * 12, wrap=packets.vxlan) == [what]
    assert ecn_lost(*[(3, 2)] * 12) == [what.replace("ECT", "CE")]
    assert ecn_lost(*[(2, 2), (3, 2), (3, -1), (2, 2)] * 4) == [what.replace("ECT", "CE")]


@pytest.mark.parametrize(
    "hops",
    [[(2, 2)], [(2, 3)], [(0, 0)], [(1, 3)], [(2, 2), (3, -1), (2, 2)], [(2, 2), (3, 3), (2, 2)]],
    ids=["kept", "marked", "never capable", "ECT(1)", "the marked one lost", "marked before"],
)
def test_ecn_that_stays_or_is_marked_is_none(hops: list[tuple[int, ...]]) -> None:
    assert not ecn_lost(*hops * 8)


def test_a_link_that_captured_another_time_loses_no_marks() -> None:
    early = [(0, with_ecn(packets.send(psn), 3)) for psn in range(4)]
    late = [(1, packets.send(psn)) for psn in range(4, 8)]
    assert not lost(*early, *late, links=2)
    cleared = [(1, with_ecn(frame, 0)) for _, frame in late]
    assert not lost(*[(0, packets.send(psn)) for psn in range(4)], *cleared, links=2), "turned off in between"


def at(ttl: int, psn: int, ecn: int, path: packets.Path = packets.THERE) -> bytes:
    """A packet behind some routers."""
    return packets.send(psn, path=replace(path, hops=ttl, ecn=ecn))


@pytest.mark.parametrize("ecn", [0, 2])
def test_of_parallel_links_only_one_may_mark_packets(ecn: int) -> None:
    """Every second packet takes the link 1, which marks it. If the other one clears ECN, this is found."""
    events = [
        event
        for psn in range(40)
        for event in ((0, at(64, psn, 2)), (2, at(63, psn, ecn)) if psn % 2 else (1, at(63, psn, 3)))
    ]
    whole = "10.0.0.1 to 10.0.0.2 QP 0x22: ECT at leaf1:swp0, and not at leaf1:swp2"
    assert lost(*events, links=3) == ([] if ecn else [whole])


@pytest.mark.parametrize("ttl", [64, 62], ids=["bridged", "routed"])
def test_links_with_different_clocks_lose_no_marks(ttl: int) -> None:
    """A late clock: packets of both directions, or with a smaller TTL, seem to pass the first link earlier."""
    way = [event for psn in range(20) for event in ((0, at(ttl, psn, 3)), (1, at(64, psn, 2)))]
    back = [(link, packets.ack(19)) for link in (0, 1)] if ttl == 64 else []
    assert not lost(*way, *back, links=2)


def test_cnps_on_another_path_are_no_sign_that_ecn_is_cleared() -> None:
    """They need not be ECN-capable, and may have another UDP source port."""
    apart = replace(packets.BACK, ecn=0, entropy=0xC999)
    events = [event for psn in range(8) for event in ((0, packets.ack(psn)), (1, packets.congestion(apart)))]
    assert not lost(*events, links=2)
