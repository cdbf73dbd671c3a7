"""UDP of length 0: a datagram of more than 64 KB, as Linux with BIG TCP leaves it in tunnels (RFC 2675 section 4)."""

from __future__ import annotations

import pytest

from lab.wire.frame import decode
from lab.wire.udp_ports import GENEVE_PORT
from tests.unit.analysis import packets
from tests.unit.analysis.stories import requests, told

UDP_PORT = slice(36, 38)
UDP_LENGTH = slice(38, 40)
VXLAN = slice(42, 50)
IP_LENGTH = slice(16, 18)
ETHERNET = 14


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


def geneve(frame: bytes, options: bytes, *, bridged: bool) -> bytes:
    """A frame in VXLAN as one in GENEVE (RFC 8926 section 3.4), with its Ethernet header inside or without it."""
    octets = bytearray(frame)
    octets[UDP_PORT] = GENEVE_PORT.to_bytes(2)
    inner = 0 if bridged else ETHERNET
    kind = "6558" if bridged else "0800"
    octets[VXLAN] = bytes([len(options) // 4, 0]) + bytes.fromhex(kind) + octets[VXLAN][4:7] + b"\0" + options
    start = VXLAN.stop + len(options)
    return bytes(octets[:start] + octets[start + inner :])


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("options", [b"", bytes.fromhex("0101000100000005")])
@pytest.mark.parametrize("bridged", [True, False])
def test_geneve_without_a_length_is_read(bridged: bool, options: bytes, count: int) -> None:
    frames = [geneve(packets.vxlan(packets.send(psn)), options, bridged=bridged) for psn in range(count)]
    facts = told([unbounded(frame, ip=True) for frame in frames])
    flow = requests(facts)
    assert (flow.packets, flow.payload, flow.vni, facts.damage_count) == (count, 100 * count, 10, 0)
    frame = decode(unbounded(frames[0], ip=True))
    assert not frame.damage
    assert frame.inner is not None
    assert frame.inner.bth is not None


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
