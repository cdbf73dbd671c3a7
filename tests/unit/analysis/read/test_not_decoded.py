"""What a capture has and nothing is told of: named, and counted."""

from __future__ import annotations

import io

import pytest

from lab.analysis.read.records import Reader
from lab.analysis.results.fact_builder import analyse
from lab.wire.filter.parse import parse
from lab.wire.pcapng import Interface
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcap, pcapng, records
from tests.unit.analysis.encapsulations import IPV4, MACS, geneve, ipv4, rocev1

ESP = MACS + IPV4 + ipv4(50, bytes(40))
ARP = bytes.fromhex("ffffffffffff0200000000010806") + bytes(46)


def test_everything_is_told_of_or_counted_once() -> None:
    frames = [*packets.write(1, 3), packets.pause({3: 9}), *[ESP] * 5, geneve(ESP), ARP, packets.send(2)[:30]]
    facts = analyse(io.BytesIO(pcapng(records(frames))), "f")
    assert facts.not_decoded == {"ESP": 6, "ARP": 1}
    assert facts.roce + facts.pause_frames + sum(facts.not_decoded.values()) + facts.damage_count == len(frames)


def test_links_that_are_not_read_are_counted_by_their_type() -> None:
    """USB (220) beside Ethernet, as Wireshark captures both; and an ERF that carries InfiniBand (its type 21)."""
    frames = [
        packets.send(1),
        bytes(64),
        packets.send(2),
        bytes(64),
        bytes(8) + bytes([21]) + bytes(55),
        packets.ack(2),
    ]
    links = [0, 1, 0, 1, 2, 0]
    taken = [record._replace(interface=link) for record, link in zip(records(frames), links, strict=True)]
    kinds = Interface("eth0"), Interface("usbmon1", linktype=220), Interface("dag0", linktype=197)
    data = pcapng(taken, *kinds)
    facts = analyse(io.BytesIO(data), "f")
    assert facts.not_decoded == {"link type 220": 2, "link type 197": 1}
    assert (facts.packets, facts.left_out, facts.damage_count, facts.findings) == (3, 3, 0, ())
    reader = Reader(io.BytesIO(data), "f")
    assert [reader.number for _ in reader] == [1, 3, 6]
    assert reader.not_decoded == facts.not_decoded


@pytest.mark.parametrize("chunk", [400, 2**20])
def test_a_classic_file_of_such_links_has_nothing_to_judge(chunk: int) -> None:
    data = pcap([bytes(64)] * 20, linktype=127)
    facts = analyse(io.BytesIO(data), "f", chunk=chunk)
    assert (facts.packets, facts.not_decoded, facts.damage_count) == (0, {"link type 127": 20}, 0)
    assert analyse(io.BytesIO(data), "f", wanted=parse("roce")).not_decoded == {}


def test_nothing_is_listed_where_all_is_told_of() -> None:
    facts = analyse(io.BytesIO(pcapng(records([*packets.write(1, 3), packets.ack(3)]))), "f")
    assert not facts.not_decoded


def test_rocev1_is_analysed_and_its_cause_hinted_at() -> None:
    story = [rocev1(frame) for frame in (*packets.write(1, 4), packets.ack(4))]
    facts = analyse(io.BytesIO(pcapng(records(story))), "f", check_icrc=True)
    flow = next(flow for flow in facts.flows if flow.messages)
    assert (facts.rocev1, flow.messages, flow.payload) == (5, {"WRITE": 1}, 4096)
    assert facts.icrc is not None
    assert (facts.icrc.wrong, facts.icrc.unknown) == (0, 5)
    (finding,) = facts.findings
    assert finding.note
    assert "5 packets of RoCEv1" in finding.what
    assert "GID index" in finding.meaning
