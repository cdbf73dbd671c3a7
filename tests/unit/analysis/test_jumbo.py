"""UDP of length 0: a datagram of more than 64 KB, as Linux with BIG TCP leaves it in tunnels (RFC 2675 section 4)."""

from __future__ import annotations

import pytest

from lab.wire.frame import decode
from tests.unit.analysis import packets
from tests.unit.analysis.stories import requests, told

UDP_LENGTH = slice(38, 40)
IP_LENGTH = slice(16, 18)


def unbounded(frame: bytes, *, ip: bool) -> bytes:
    """The outer UDP header without a length, and if wanted IP's, too."""
    octets = bytearray(frame)
    octets[UDP_LENGTH] = bytes(2)
    if ip:
        octets[IP_LENGTH] = bytes(2)
    return bytes(octets)


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("ip", [True, False])
def test_a_tunnel_without_a_length_is_read(ip: bool, count: int) -> None:
    """Both engines: few packets are walked one after the other, of many alike one."""
    facts = told([unbounded(packets.vxlan(packets.send(psn)), ip=ip) for psn in range(count)])
    flow = requests(facts)
    assert (flow.packets, flow.payload, facts.damage_count) == (count, 100 * count, 0)
    assert flow.vni == 10


def test_a_large_datagram_in_a_tunnel_is_no_damage() -> None:
    """TCP of 70,000 bytes; what is not RDMA is counted and named."""
    head = bytes([0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0])
    inner = bytes(12) + b"\x08\x00" + head + bytes([10, 0, 0, 1, 10, 0, 0, 2])
    big = packets.vxlan(inner + bytes(1000))
    facts = told([unbounded(big, ip=True)])
    assert (facts.damage_count, facts.not_decoded) == (0, {"TCP": 1})


def test_a_frame_is_decoded_the_same() -> None:
    frame = decode(unbounded(packets.vxlan(packets.send(7)), ip=True))
    assert not frame.damage
    assert frame.inner is not None
    assert frame.inner.bth is not None
    assert frame.inner.bth.psn == 7


@pytest.mark.parametrize("length", [1, 7])
def test_a_length_that_is_too_small_is_still_damage(length: int) -> None:
    frame = bytearray(packets.send(1))
    frame[UDP_LENGTH] = length.to_bytes(2)
    assert told([bytes(frame)]).damage_count == 1
    assert decode(bytes(frame)).damage
