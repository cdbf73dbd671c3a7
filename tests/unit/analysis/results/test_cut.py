"""Captures that keep the first octets of each packet: what is there is told, and what is not there is no loss."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from lab.analysis.results.analysis_exit_code import verdict
from lab.analysis.results.fact_builder import analyse
from lab.errors import ExitCode
from lab.wire.opcodes import Opcode
from lab.wire.pcapng import Direction, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.analysis.results.analysis_facts import AnalysisFacts, FlowFacts

BTH_END, AETH_END, RETH_END = 54, 58, 70
"""Behind Ethernet, IPv4 and UDP."""


def cut(frames: Sequence[bytes], snaplen: int, *, mirror: bool = False) -> AnalysisFacts:
    """The first octets of each frame; a ``mirror`` cuts before the length on the wire is known."""
    records = [
        Record(10**18 + place * 1000, 0, min(snaplen, len(frame)) if mirror else len(frame), Direction.INBOUND,
               frame[:snaplen])
        for place, frame in enumerate(frames)
    ]  # fmt: skip
    return analyse(io.BytesIO(pcapng(records)), "cut", check_icrc=True)


def requests(facts: AnalysisFacts) -> FlowFacts:
    (flow,) = [flow for flow in facts.flows if flow.qp == packets.QP2]
    return flow


def conversation() -> list[bytes]:
    atomic = packets.rocev2(packets.THERE, Opcode.RC_FETCHADD, packets.QP2, 11, bytes(28), ackreq=True)
    return [
        *packets.write(1, 4), packets.ack(4), *packets.write(5, 1), packets.send(6), packets.ack(6),
        *packets.write(7, 4), packets.ack(10), atomic, *packets.write(12, 2), packets.ack(13),
    ]  # fmt: skip


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("snaplen", [BTH_END, AETH_END, 64, RETH_END - 1, RETH_END, 100])
def test_a_header_behind_the_bth_that_is_cut_off_is_no_lost_packet(snaplen: int, *, mirror: bool) -> None:
    whole, facts = requests(cut(conversation(), 2000)), cut(conversation(), snaplen, mirror=mirror)
    flow = requests(facts)
    assert (flow.messages, flow.payload, flow.gaps) == (whole.messages, whole.payload, 0)
    assert not facts.damages
    assert [finding for finding in facts.findings if not finding.note] == []


@pytest.mark.parametrize("snaplen", [BTH_END, AETH_END, 64])
@pytest.mark.parametrize("size", [100, 10_000])
def test_a_read_of_which_nobody_knows_how_much_it_asks_for(snaplen: int, size: int) -> None:
    """It has some size, and where it ends the next request tells: nothing is missing, and it is no whole message."""
    after = 2 + -(-size // 1024)
    frames = [packets.send(1), packets.read(2, size), packets.send(after), packets.ack(after)]
    frames.append(packets.send(after + 1))
    flow = requests(cut(frames, snaplen))
    assert (flow.gaps, flow.messages, flow.partial) == (0, {"SEND": 3}, 1)
    again = [packets.send(1), packets.send(3), packets.send(2), packets.send(3), packets.read(4, size)]
    flow = requests(cut([*again, packets.send(after + 2), packets.send(after + 3)], snaplen))
    assert (flow.gaps, flow.go_back_n, flow.messages, flow.partial) == (1, 1, {"SEND": 5}, 1)


def test_what_an_answer_says_is_not_known_where_it_is_cut_off() -> None:
    (flow,) = cut([packets.ack(1), packets.ack(2, 0x60)], BTH_END).flows
    assert (flow.packets, flow.answers) == (2, {})


@pytest.mark.parametrize(
    ("wrap", "snaplen"),
    [(packets.vxlan, 96), (packets.vxlan, 52), (bytes, BTH_END - 1), (bytes, 40), (packets.tagged, BTH_END + 3)],
)
def test_packets_without_a_bth_in_the_file_are_not_judged(wrap: Callable[[bytes], bytes], snaplen: int) -> None:
    """A tunnel alone is judged as "nothing looks wrong", although none of its RoCEv2 packets was read."""
    frames = [wrap(frame) for frame in conversation()]
    facts = cut([*frames, packets.send(900), packets.ack(900)], snaplen)
    (finding,) = [each for each in facts.findings if each.unjudged]
    assert f"{facts.cut} packets truncated by the snap length" in finding.what
    assert facts.cut >= len(frames)
    assert verdict(facts) == ExitCode.UNKNOWN


def test_packets_that_are_cut_behind_their_headers_are_judged() -> None:
    facts = cut([packets.vxlan(frame) for frame in conversation()], 192)
    assert (facts.cut, facts.findings) == (0, ())
