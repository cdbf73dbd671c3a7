"""Wrong ICRCs: who or what is to blame, and between which links."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.analysis.results.analysis_exit_code import verdict
from lab.analysis.results.fact_builder import analyse
from lab.analysis.results.path_findings import WRONG_ICRC
from lab.errors import ExitCode
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcap, pcapng
from tests.unit.analysis.journeys import LINKS
from tests.unit.analysis.stories import START

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.analysis.results.analysis_facts import AnalysisFacts, CaptureFinding


def changed(frame: bytes) -> bytes:
    """With one bit of its payload changed."""
    octets = bytearray(frame)
    octets[70] ^= 0x10
    return bytes(octets)


def journey(wrong: Callable[[int, int], bool], count: int = 20, *, every: bool = True) -> AnalysisFacts:
    """Packets over four links; ``wrong`` says by PSN and link which are changed."""
    taken = []
    for psn in range(count):
        for link in range(len(LINKS)):
            frame = packets.send(psn)
            frame = changed(frame) if wrong(psn, link) else frame
            taken.append(Record(START + psn * 10_000 + link * 1000, link, len(frame), Direction.INBOUND, frame))
    capture = pcapng(taken, *(Interface(name) for name in LINKS))
    return analyse(io.BytesIO(capture), "story", check_icrc=every)


@pytest.mark.parametrize("hop", [1, 2, 3])
def test_the_hop_that_changes_packets_is_named(hop: int) -> None:
    facts = journey(lambda psn, link: psn in {4, 9} and link >= hop)
    (finding,) = facts.findings
    assert "packet " in finding.what
    assert f"between {LINKS[hop - 1]} and {LINKS[hop]}: they were correct before" in finding.meaning
    first = facts.icrc_errors[0]
    assert (first.link, first.wrong, first.checked, first.after) == (LINKS[hop], 2, 20, LINKS[hop - 1])


def test_a_few_at_the_first_link_may_be_the_network_or_the_sender() -> None:
    (finding,) = journey(lambda psn, _: psn == 4).findings
    assert "by the sender, or in the file" in finding.meaning
    assert "silently" in finding.meaning


def test_all_of_them_are_the_senders() -> None:
    (finding,) = journey(lambda _psn, _link: True).findings
    assert "the sender miscalculates the ICRC" in finding.meaning


def test_right_ones_are_no_finding() -> None:
    facts = journey(lambda _psn, _link: False)
    assert not facts.findings
    assert not facts.icrc_errors


def test_wrong_icrcs_are_found_in_a_sample_too() -> None:
    facts = journey(lambda _psn, _link: True, 200, every=False)
    (finding,) = facts.findings
    assert "has a wrong ICRC" in finding.what
    assert f"({facts.icrc.wrong} packets checked)" in finding.what
    assert verdict(facts) is ExitCode.FAIL
    assert 4 * 16 <= facts.icrc.wrong < 4 * 16 + 800 / 32


def test_a_sample_finds_packets_that_are_changed_later_and_names_no_link() -> None:
    """The first packets are right, and the samples of two links are of different packets."""
    facts = journey(lambda psn, link: psn >= 100 and link >= 2, 200, every=False)
    assert facts.icrc.wrong
    (finding,) = facts.findings
    assert "between" not in finding.meaning
    assert "--icrc" in finding.meaning


def test_a_sample_names_the_link_that_changes_every_packet() -> None:
    (finding,) = journey(lambda _psn, link: link >= 2, every=False).findings
    assert f"between {LINKS[1]} and {LINKS[2]}" in finding.meaning


def test_a_sample_of_right_packets_is_no_finding() -> None:
    facts = journey(lambda _psn, _link: False, 200, every=False)
    assert not facts.findings
    assert not facts.icrc.every
    assert facts.icrc.right >= 4 * 16


def wrong_icrcs(facts: AnalysisFacts) -> CaptureFinding:
    """The finding about ICRCs: few packets that all have copies may be called copies in another."""
    (finding,) = (each for each in facts.findings if WRONG_ICRC in each.what)
    return finding


def mirrored(
    wrong: Callable[[int, int], bool],
    count: int = 20,
    *,
    every: bool = True,
    path: packets.Path = packets.THERE,
    linktype: int = 1,
) -> AnalysisFacts:
    """A classic file of packets at hops with TTLs 64, 63 and 62; ``wrong`` says by PSN and TTL which are changed."""
    taken = []
    for psn in range(count):
        for ttl in (64, 63, 62):
            frame = packets.send(psn, path=replace(path, hops=ttl))
            frame = bytes.fromhex("02000000000002000000") + bytes([ttl, ttl]) + frame[12:]
            frame = changed(frame) if wrong(psn, ttl) else frame
            taken.append(frame if linktype == 1 else frame[14:])
    return analyse(io.BytesIO(pcap(taken, linktype=linktype)), "story", check_icrc=every)


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize("path", [packets.THERE, packets.Path("2001:db8::1", "2001:db8::2")])
@pytest.mark.parametrize("hop", [63, 62])
def test_the_hop_is_named_in_a_file_with_one_link(hop: int, path: packets.Path, *, every: bool) -> None:
    facts = mirrored(lambda psn, ttl: psn in {0, 1} and ttl <= hop, path=path, every=every)
    finding = wrong_icrcs(facts)
    sender = f"02:00:00:00:{hop:02x}:{hop:02x}"
    assert f"changed the packets between TTL {hop + 1} and TTL {hop}, sent by {sender}: they were" in finding.meaning


def test_raw_ip_has_no_sender() -> None:
    finding = wrong_icrcs(mirrored(lambda psn, ttl: psn == 3 and ttl < 64, linktype=101))
    assert "between TTL 64 and TTL 63: they were" in finding.meaning


@pytest.mark.parametrize(
    "wrong",
    [lambda _psn, _ttl: True, lambda psn, _ttl: psn == 4, lambda psn, ttl: psn == 4 and ttl in {64, 62}],
    ids=["all", "from the sender on", "already before"],
)
def test_no_hop_is_named_that_received_wrong_packets(wrong: Callable[[int, int], bool]) -> None:
    facts = mirrored(wrong)
    assert facts.icrc.wrong
    assert not any(error.hops for error in facts.icrc_errors)


def test_a_right_packet_that_was_sent_again_is_no_earlier_copy() -> None:
    """The sender computes one wrong ICRC for what it sends again: TTL 64 is wrong then, and so no hop is to blame."""
    frames = [packets.send(5, path=replace(packets.THERE, hops=ttl)) for ttl in (64, 63, 62)]
    facts = analyse(io.BytesIO(pcap([*frames, *map(changed, frames)])), "story", check_icrc=True)
    assert facts.icrc.wrong == 3
    assert not facts.icrc_errors[0].hops


@pytest.mark.parametrize("ident", [0, 7], ids=["of another size", "numbered anew"])
def test_another_packet_with_the_same_psn_is_no_earlier_copy(ident: int) -> None:
    """What is sent again may take another path, and get its wrong ICRC from the sender. CNPs all have PSN 0."""
    right = packets.send(5)
    other = bytearray(packets.send(5, 100 if ident else 200, path=replace(packets.THERE, hops=63)))
    other[19] = ident
    marks = [packets.congestion(replace(packets.BACK, hops=ttl)) for ttl in (64, 62)]
    marks[1] = marks[1][:-1] + bytes([marks[1][-1] ^ 1])
    facts = analyse(io.BytesIO(pcap([right, changed(bytes(other)), *marks])), "story", check_icrc=True)
    assert [(error.wrong, error.hops) for error in facts.icrc_errors] == [(1, ()), (1, ())]


def test_many_flows_with_wrong_icrcs_are_bounded() -> None:
    """Each of 2,000 flows is changed at one hop: the first 1,000 have theirs."""
    frames = []
    for qp in range(2000):
        copies = [packets.send(1, path=replace(packets.THERE, hops=ttl), qp=qp + 2) for ttl in (64, 63)]
        frames += [copies[0], changed(copies[1])]
    facts = analyse(io.BytesIO(pcap(frames)), "story", check_icrc=True)
    assert sum(bool(error.hops) for error in facts.icrc_errors) == 1000
