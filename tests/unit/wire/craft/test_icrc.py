"""The ICRC against packets that others sealed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.l2 import Ether

from lab.wire import icrc
from lab.wire.craft.build import Path, RoceMessage, rocev2, vxlan
from lab.wire.frame import Icrc, decode
from lab.wire.opcodes import Opcode
from lab.wire.rocev2 import BTH
from tests.unit.wire.packets import IP4, IP6, VTEPS, VTEPS6, messages

# Sent by a ConnectX-4 Lx, captured by the author of scapy's contrib.roce (its test/contrib/roce.uts).
CONNECTX4_CNP = bytes.fromhex(
    "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a00"
    "1201000012b7002800008100ffff400001180000000000000000000000000000"
    "00000000000082fd002a"
)
# The UC packet of the same file, its payload 20 bytes with two of padding.
UC_SEND_ONLY = bytes.fromhex(
    "248a07a8fa22248a07a8fa22080045010040047840004011b4d5c0a80007c0a80007"
    "c00012b7002caca22460ffff000000d300cf1710"
    + b"F0\x81\x8b\xe2\x895\xd9\x0e\x9a\x95PT\x01\xbe\x88^P\x00\x00".hex()
    + "78f353f3"
)
# Sent by rdma_rxe of Linux 7.2.12, driven by perftest 25.01, captured on the veth between two namespaces.
RXE = {
    "rxe ipv4 acknowledge": bytes.fromhex(
        "32391d13738276a71bc386a80800456a0030cc0d400040115a310a0900020a090001c12112b7001c00001100ffff0000"
        "0011000bae761f00000133b32a89"
    ),
    "rxe ipv4 read request": bytes.fromhex(
        "76a71bc386a832391d1373820800456a003c647b40004011c1b70a0900010a090002c14412b7002800000c00ffff0000"
        "001280c955a300005562207c40000000031600000bb9463636e9"
    ),
    "rxe ipv4 fetch and add": bytes.fromhex(
        "a22933f81356ca398511c5110800456a004843a840004011e27e0a0900010a090002c12112b7003400001400ffff0000"
        "001180005c57000055591182300000000241000000000000000100000000000000003fb874b3"
    ),
    "rxe ipv6 acknowledge": bytes.fromhex(
        "ca398511c511a22933f8135686dd66a00000001c1140fd090000000000000000000000000002fd090000000000000000"
        "000000000001c14412b7001c00001100ffff00000012000543351f0000017038a7f0"
    ),
    "rxe ipv6 read request": bytes.fromhex(
        "a22933f81356ca398511c51186dd66a0000000281140fd090000000000000000000000000001fd090000000000000000"
        "000000000002c16912b7002800000c00ffff0000001380caec720000561046e4b000000004b800000bb92d00ffa4"
    ),
}
SEALED = {"ConnectX-4 CNP": CONNECTX4_CNP, "UC SEND Only": UC_SEND_ONLY} | RXE


@pytest.mark.parametrize("frame", SEALED.values(), ids=SEALED)
def test_accepts_what_others_sealed(frame: bytes) -> None:
    assert decode(frame).icrc is Icrc.OK
    assert decode(frame).fault == ""


@pytest.mark.parametrize("frame", SEALED.values(), ids=SEALED)
def test_seals_as_others_do(frame: bytes) -> None:
    packet = Ether(frame)
    packet[BTH].ICRC = None
    assert bytes(packet) == frame


def variant_bytes(frame: bytes) -> set[int]:
    """Offsets of the bytes that a router may change, from the specification: A17.3.3."""
    if frame[12:14] == b"\x08\x00":
        return {15, 22, 24, 25, 40, 41, 46}
    return {14, 15, 16, 17, 21, 60, 61, 66}


@pytest.mark.parametrize("path", [IP4, IP6], ids=["ipv4", "ipv6"])
def test_covers_each_byte_but_the_variant_ones(path: Path) -> None:
    frame = rocev2(path, RoceMessage(Opcode.RC_SEND_ONLY, 17, payload=b"invariant"))
    transport = 34 if path is IP4 else 54
    noticed = set()
    for offset in range(14, len(frame) - 4):
        changed = bytearray(frame)
        changed[offset] ^= 0x01
        if icrc.compute(bytes(changed[14:-4]), transport - 14) != frame[-4:]:
            noticed.add(offset)
    assert noticed == set(range(14, len(frame) - 4)) - variant_bytes(frame)


def test_traffic_class_is_free_and_version_is_not() -> None:
    frame = bytearray(rocev2(IP6, RoceMessage(Opcode.RC_SEND_ONLY, 17)))
    frame[14] ^= 0x0F
    assert decode(bytes(frame)).icrc is Icrc.OK
    frame[14] ^= 0xF0
    assert icrc.compute(bytes(frame[14:-4]), 40) != frame[-4:]


@given(st.binary(max_size=300), st.integers(0, 80))
def test_computes_or_says_that_the_packet_is_too_short(packet: bytes, transport: int) -> None:
    if len(packet) < transport + 13:
        with pytest.raises(ValueError, match="hold no RoCEv2 packet"):
            icrc.compute(packet, transport)
    else:
        assert len(icrc.compute(packet, transport)) == 4


# Offsets of the octets that a router or switch may rewrite, and the bits of each that are free: annex A17.3.3 has
# the fields, RFC 791, RFC 8200 and RFC 768 the places. All other bits of the IP packet are covered.
VARIANT4 = {15: 0xFF, 22: 0xFF, 24: 0xFF, 25: 0xFF, 40: 0xFF, 41: 0xFF, 46: 0xFF}
"""TOS (DSCP and ECN), TTL, header checksum, UDP checksum, the BTH's octet of FECN, BECN and Reserved6."""
VARIANT6 = {14: 0x0F, 15: 0xFF, 16: 0xFF, 17: 0xFF, 21: 0xFF, 60: 0xFF, 61: 0xFF, 66: 0xFF}
"""Traffic class (DSCP and ECN), flow label, hop limit, UDP checksum, the same octet of the BTH."""


def rewrite(frame: bytes, values: bytes) -> bytes:
    """``frame`` with ``values`` in all its variant bits, as far as they go."""
    changed = bytearray(frame)
    variant = VARIANT4 if frame[12:14] == b"\x08\x00" else VARIANT6
    for (offset, mask), value in zip(variant.items(), values, strict=False):
        changed[offset] = changed[offset] & ~mask & 0xFF | value & mask
    return bytes(changed)


@given(st.sampled_from([IP4, IP6]), messages(), st.binary(min_size=8, max_size=8))
def test_holds_whatever_routers_and_switches_rewrite(path: Path, message: RoceMessage, values: bytes) -> None:
    changed = rewrite(rocev2(path, message), values)
    assert decode(changed).icrc is Icrc.OK
    assert decode(vxlan(VTEPS, 10, changed)).inner == replace(decode(changed), tunnels=1)


@given(st.sampled_from([IP4, IP6]), messages(), st.integers(min_value=0), st.integers(0, 7))
def test_any_other_bit_breaks_it(path: Path, message: RoceMessage, place: int, bit: int) -> None:
    frame = rocev2(path, message)
    variant = VARIANT4 if path is IP4 else VARIANT6
    covered = [at for at in range(14, len(frame) - 4) if not variant.get(at, 0) >> bit & 1]
    offset = covered[place % len(covered)]
    changed = bytearray(frame)
    changed[offset] ^= 1 << bit
    transport = 20 if path is IP4 else 40
    assert icrc.compute(bytes(changed[14:-4]), transport) != frame[-4:]


@given(st.sampled_from([VTEPS, VTEPS6]), messages(), st.binary(min_size=8, max_size=8))
def test_a_tunnel_neither_covers_nor_disturbs_it(outer: Path, message: RoceMessage, values: bytes) -> None:
    sealed = rocev2(IP4, message)
    tunnelled = vxlan(outer, 10, sealed)
    assert tunnelled.endswith(sealed)
    # The outer packet has no BTH whose octet would be free: what is there is the tunnel's own.
    whole = decode(rewrite(tunnelled, values[:6])).inner
    damaged = decode(tunnelled[:-1] + bytes([tunnelled[-1] ^ 1])).inner
    assert [frame.icrc for frame in (whole, damaged) if frame] == [Icrc.OK, Icrc.BAD]


@pytest.mark.parametrize("frame", SEALED.values(), ids=SEALED)
def test_what_others_sealed_is_good_inside_vxlan_too(frame: bytes) -> None:
    inner = decode(vxlan(VTEPS, 10, frame)).inner
    assert inner is not None
    assert (inner.icrc, inner.fault) == (Icrc.OK, "")
