"""The fast decoder: against tshark on good packets, and against damage on bad ones."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import UDP

from lab.wire.craft.build import RoceMessage, cnp, pfc, rocev2, vxlan
from lab.wire.explain.explanation import explain
from lab.wire.frame import Icrc, decode
from lab.wire.headers import Aeth, PfcFrame, Reth, Tag
from lab.wire.opcodes import Opcode
from lab.wire.rocev2 import BTH
from lab.wire.summary import describe
from lab.wire.syndrome import AckKind, NakCode, Syndrome
from tests.unit.wire.packets import IP4, IP6, VTEPS, crafted

RETH = Reth(va=0x7F00_1234_5678, rkey=0x1EE7, dmalen=65536)
NAK = Aeth(Syndrome(AckKind.NAK, NakCode.PSN_SEQUENCE_ERROR), 77)


def test_vlan_tag_is_read_and_does_not_disturb_the_icrc() -> None:
    data = rocev2(replace(IP4, tag=Tag(100, 3)), RoceMessage(Opcode.RC_SEND_ONLY, 17, 3))
    frame = decode(data)
    assert (frame.vlan, frame.pcp, frame.icrc) == (100, 3, Icrc.OK)
    assert "VLAN 100 PCP 3" in describe(frame)


@pytest.mark.parametrize(("tpid", "name"), [("8100", "802.1Q"), ("88a8", "802.1ad")])
def test_a_tag_is_explained(tpid: str, name: str) -> None:
    plain = rocev2(IP4, RoceMessage(Opcode.RC_SEND_ONLY, 17, 3))
    told = explain(plain[:12] + bytes.fromhex(tpid + "7064") + plain[12:])
    ethernet, tag, *_ = told.headers
    assert ethernet.fields[-1].meaning == "an 802.1Q tag follows"
    assert tag.name.startswith(name)
    meanings = {field.name: field.meaning for field in tag.fields}
    assert meanings["prio"] == "PCP: priority 3"
    assert meanings["dei"].startswith("drop eligible")
    assert meanings["vlan"] == "the VLAN that the frame belongs to"
    assert tag.why


def test_hops_ecn_and_dscp_may_change_on_the_way() -> None:
    sent = rocev2(IP4, RoceMessage(Opcode.RC_SEND_ONLY, 17))
    marked = bytearray(sent)
    marked[15] |= 3
    marked[22] -= 2
    assert decode(bytes(marked)).ecn == 3
    assert decode(bytes(marked)).icrc is Icrc.OK


def test_a_flipped_payload_bit_is_a_bad_icrc() -> None:
    damaged = bytearray(rocev2(IP4, RoceMessage(Opcode.RC_SEND_ONLY, 17, payload=b"data")))
    damaged[-5] ^= 1
    assert decode(bytes(damaged)).icrc is Icrc.BAD
    assert describe(decode(bytes(damaged))).endswith("ICRC BAD")


@pytest.mark.parametrize(
    ("kept", "fault"),
    [
        (13, "the Ethernet header would end at byte 14, captured are 13"),
        (33, "the IPv4 header would end at byte 34, captured are 33"),
        (37, "the UDP header would end at byte 42, captured are 37"),
        (41, "the UDP header would end at byte 42, captured are 41"),
        (53, "the BTH would end at byte 54, captured are 53"),
        (60, "RETH would end at byte 70, captured are 60"),
    ],
)
def test_a_packet_cut_by_the_snap_length_says_so(kept: int, fault: str) -> None:
    whole = rocev2(IP4, RoceMessage(Opcode.RC_RDMA_WRITE_FIRST, 17, reth=RETH, payload=bytes(16)))
    frame = decode(whole[:kept], len(whole))
    assert frame.fault == f"cut by the snap length: {fault}"
    assert frame.icrc in {None, Icrc.UNKNOWN}


def _with(frame: bytes, offset: int, value: bytes) -> bytes:
    return frame[:offset] + value + frame[offset + len(value) :]


WRITE = rocev2(IP4, RoceMessage(Opcode.RC_RDMA_WRITE_ONLY, 17, reth=RETH))


@pytest.mark.parametrize(
    ("frame", "fault"),
    [
        (_with(WRITE, 14, b"\x65"), "IPv4 header is damaged: version 6, 20 bytes of 60"),
        (_with(WRITE, 14, b"\x43"), "IPv4 header is damaged: version 4, 12 bytes of 60"),
        (_with(WRITE, 38, b"\x00\xff"), "UDP says 255 bytes, IP has 40"),
        (_with(WRITE, 38, b"\x00\x17"), "UDP has 15 bytes, BTH and ICRC need 16"),
        (_with(WRITE, 38, b"\x00\x18"), "no room for RETH between BTH and ICRC"),
        (_with(WRITE, 43, b"\x70"), "PadCnt 3 exceeds the payload of 0 bytes"),
        (_with(rocev2(IP6, RoceMessage(Opcode.RC_SEND_ONLY, 1)), 14, b"\x40"), "IPv6 header is damaged: version 4"),
    ],
    ids=["version", "ihl", "udp too long", "udp too short", "no extension", "padding", "version 6"],
)
def test_a_packet_that_contradicts_itself_says_where(frame: bytes, fault: str) -> None:
    assert decode(frame).fault == fault
    assert f"[{fault}]" in describe(decode(frame))


def test_of_fragments_only_the_first_one_has_a_bth() -> None:
    """RFC 791 section 3.2: the others begin in the middle of the datagram. Half of one has no ICRC."""
    whole = rocev2(IP4, RoceMessage(Opcode.RC_SEND_ONLY, 17, 3, payload=bytes(64)))
    first = decode(_with(_with(whole[:74], 16, (60).to_bytes(2)), 20, b"\x20\x00"))
    assert first.bth is not None
    assert (first.bth.psn, first.payload, first.icrc, first.fragment, first.damage) == (3, 64, Icrc.UNKNOWN, True, "")
    assert "[first fragment]" in describe(first)
    for flags in (b"\x20\x05", b"\x00\x05"):
        later = decode(_with(WRITE, 20, flags))
        assert (later.protocol, later.bth, later.damage) == ("IPv4 fragment", None, "")


def test_the_layer_is_bound_once() -> None:
    bound = [layer for fields, layer in UDP.payload_guess if fields.get("dport") == 4791]
    assert bound == [BTH]


@settings(max_examples=300)
@given(st.binary(max_size=200), st.one_of(st.none(), st.integers(0, 300)))
def test_noise_never_raises(data: bytes, length: int | None) -> None:
    describe(decode(data, length))
    explain(data, length)


@settings(max_examples=300)
@given(
    st.sampled_from(
        [
            WRITE,
            rocev2(IP6, RoceMessage(Opcode.RC_ACKNOWLEDGE, 1, aeth=NAK)),
            cnp(IP4, 3),
            rocev2(IP4, crafted(Opcode.RC_CMPSWAP)),
            rocev2(IP6, crafted(Opcode.UD_SEND_ONLY_WITH_IMMEDIATE)),
            vxlan(VTEPS, 10, rocev2(IP4, crafted(Opcode.RC_SEND_ONLY_WITH_INVALIDATE))),
            pfc("02:00:00:00:00:01", PfcFrame.of({3: 65535})),
        ]
    ),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=6),
    st.integers(0, 200),
)
def test_damage_never_raises(frame: bytes, flips: list[tuple[int, int]], kept: int) -> None:
    damaged = bytearray(frame)
    for offset, value in flips:
        damaged[offset % len(damaged)] = value
    data = bytes(damaged[:kept])
    line = describe(decode(data, len(frame)))
    assert line.isascii()
    assert line.isprintable()
    explain(data, len(frame))


def test_one_line_says_what_an_engineer_asks() -> None:
    frame = rocev2(replace(IP4, ecn=3), RoceMessage(Opcode.RC_ACKNOWLEDGE, 0x11, 1234, aeth=NAK))
    assert describe(decode(frame)) == (
        "10.0.0.1 > 10.0.0.2  RC Acknowledge  QP 0x000011  PSN 1234  MSN 77 NAK, PSN Sequence Error  "
        "62 bytes  DSCP 26 CE  ICRC ok"
    )


def test_explains_each_header() -> None:
    told = explain(
        rocev2(IP4, RoceMessage(Opcode.RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE, 17, reth=RETH, immdt=1, payload=b"abc"))
    )
    assert [header.name.split(",")[0] for header in told.headers] == [
        "Ethernet",
        "IP",
        "UDP",
        "BTH",
        "RETH",
        "ImmDt",
        "Data",
        "ICRC",
    ]
    meanings = {field.name: field.meaning for header in told.headers for field in header.fields}
    assert meanings["DMALen"] == "the whole message: 65.54 KB"
    assert meanings["ICRC"] == "ok"
    assert meanings["bytes"] == "the last 1 are padding"


def test_a_packet_cut_before_its_length_was_written_is_decoded_as_far_as_it_goes() -> None:
    """A mirror that truncates: 20 bytes of 1024 are there, and the frame says that this is all of it."""
    whole = rocev2(IP4, RoceMessage(Opcode.RC_SEND_ONLY, 17, 3, payload=bytes(1024)))
    frame = decode(whole[:74])
    assert frame.bth is not None
    assert (frame.bth.psn, frame.payload, frame.short, frame.damage) == (3, 1024, True, "")
    assert not decode(whole).short


def test_an_ipv4_packet_without_a_length_ends_with_its_frame() -> None:
    """BIG TCP and segmentation offload leave 0 there."""
    frame = decode(_with(WRITE, 16, b"\0\0"))
    assert frame.bth is not None
    assert (frame.payload, frame.fault) == (decode(WRITE).payload, "")
