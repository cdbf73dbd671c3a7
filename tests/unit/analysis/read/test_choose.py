"""A filter on columns against the filter on frames: the same packets, whatever they are."""

from __future__ import annotations

import io
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.analysis.decode.filter_columns import chosen
from lab.analysis.read.capture_file import CaptureFile
from lab.analysis.results.fact_builder import analyse
from lab.wire.filter.expression import AddressSide, HostCondition
from lab.wire.filter.match import matches
from lab.wire.filter.parse import parse
from lab.wire.frame import decode
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records
from tests.unit.wire.filter.filters import every, expressions, tag

if TYPE_CHECKING:
    from lab.wire.filter.expression import Expression


def both(expression: Expression, taken: list[Record]) -> tuple[list[bool], list[bool]]:
    """What columns say, and what frames say."""
    capture = CaptureFile(io.BytesIO(pcapng(taken, Interface("x"))), "test")
    ours = [mark for batch in capture for mark in chosen(expression, batch, capture.names).tolist()]
    return ours, [matches(expression, decode(bytes(each.data), each.length), "x") for each in taken]


@settings(max_examples=300, deadline=None)
@given(expressions, st.lists(every, min_size=1, max_size=6))
def test_right_packets(expression: Expression, frames: list[bytes]) -> None:
    ours, theirs = both(expression, records(frames))
    assert ours == theirs


@settings(max_examples=400, deadline=None)
@given(expressions, every, st.data())
def test_damaged_and_cut_packets(expression: Expression, packet: bytes, data: st.DataObject) -> None:
    damaged = bytearray(packet)
    for _ in range(data.draw(st.integers(0, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    kept = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    length = data.draw(st.sampled_from([len(kept), len(damaged)]))
    ours, theirs = both(expression, [Record(10**18, 0, length, Direction.INBOUND, kept)])
    assert ours == theirs


def test_tunnels_in_tunnels_and_tags() -> None:
    frame = packets.vxlan(tag(packets.vxlan(packets.send(1), 20), 0x8100), 10)
    for text, wanted in (("vni==10", True), ("vni==20", True), ("qpn==0x22", True), ("vni==30", False)):
        assert both(parse(text), records([frame])) == ([wanted], [wanted]), text


def test_from_nowhere_to_nowhere_is_ipv6() -> None:
    frame = packets.send(1, path=packets.Path("::", "::"))
    anywhere = HostCondition(AddressSide.ANY, (ip_address("::"),))
    assert both(anywhere, records([frame, bytes(64)])) == ([True, False], [True, False])


def test_each_packet_is_asked_for_its_own_interface() -> None:
    frame = packets.send(1)
    taken = [Record(10**18, link, len(frame), Direction.INBOUND, frame) for link in (0, 1, 2, 1)]
    links = [Interface(name) for name in ("leaf1:swp1", "leaf1:swp2", "leaf11:swp1")]
    marked = {"interface==leaf1:swp2": "0101", "interface==leaf1": "1101", "interface!=leaf1": "0010"}
    for text, wanted in marked.items():
        capture = CaptureFile(io.BytesIO(pcapng(taken, *links)), "test")
        (marks,) = [chosen(parse(text), batch, capture.names).tolist() for batch in capture]
        assert "".join(str(int(mark)) for mark in marks) == wanted, text


def test_only_what_is_wanted_is_analysed() -> None:
    frames = [packets.send(1), packets.send(1, qp=0x33), packets.ack(1), packets.pause({3: 9})]
    facts = analyse(io.BytesIO(pcapng(records(frames))), "story", wanted=parse("qpn==0x33 or pfc"))
    assert (facts.packets, facts.left_out, facts.roce, facts.pause_frames) == (2, 2, 1, 1)
    assert [flow.qp for flow in facts.flows] == [0x33]


@pytest.mark.parametrize("chunk", [400, 2**20])
def test_nothing_is_wanted(chunk: int) -> None:
    facts = analyse(io.BytesIO(pcapng(records([packets.send(1)] * 9))), "x", wanted=parse("cnp"), chunk=chunk)
    assert (facts.packets, facts.left_out, facts.seconds, facts.flows) == (0, 9, 0, ())
