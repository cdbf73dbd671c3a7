"""What a capture has and nothing is told of: named, and counted."""

from __future__ import annotations

import io

from lab.analysis.report import analyse
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records
from tests.unit.analysis.encapsulations import IPV4, MACS, geneve, ipv4, rocev1

ESP = MACS + IPV4 + ipv4(50, bytes(40))
ARP = bytes.fromhex("ffffffffffff0200000000010806") + bytes(46)


def test_everything_is_told_of_or_counted_once() -> None:
    frames = [*packets.write(1, 3), packets.pause({3: 9}), *[ESP] * 5, geneve(ESP), ARP, packets.send(2)[:30]]
    facts = analyse(io.BytesIO(pcapng(records(frames))), "f")
    assert facts.not_decoded == {"ESP": 6, "ARP": 1}
    assert facts.roce + facts.pause_frames + sum(facts.not_decoded.values()) + facts.damage_count == len(frames)


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
