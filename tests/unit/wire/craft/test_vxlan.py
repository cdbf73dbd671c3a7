"""VXLAN as RFC 7348 and Linux have it, frames inside frames, and tunnels that nobody built in good faith."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import UDP

from lab.wire.craft.build import Path, RoceMessage, pfc, rocev2, vxlan
from lab.wire.ethernet import VXLAN
from lab.wire.explain.explanation import explain
from lab.wire.frame import DecodedFrame, decode
from lab.wire.headers import PfcFrame
from lab.wire.layers import MAX_HEADERS, MAX_TUNNELS
from lab.wire.opcodes import Opcode
from lab.wire.summary import describe
from tests.unit.wire.packets import IP4, VTEPS, VTEPS6, bits24

if TYPE_CHECKING:
    from collections.abc import Callable

SEND = rocev2(IP4, RoceMessage(Opcode.RC_SEND_ONLY, 0x11, 7, payload=b"data"))
FLAGS = 42
"""Offset of the VXLAN header over IPv4."""

outers = pytest.mark.parametrize("outer", [VTEPS, VTEPS6], ids=["ipv4", "ipv6"])


@given(st.sampled_from([VTEPS, VTEPS6]), bits24)
def test_the_header_is_that_of_rfc_7348(outer: Path, vni: int) -> None:
    data = vxlan(outer, vni, SEND)
    header = data[-len(SEND) - 8 : -len(SEND)]
    assert header == b"\x08\0\0\0" + vni.to_bytes(3) + b"\0"
    assert decode(data).vni == vni


@outers
def test_every_field_is_what_tshark_reads(outer: Path, tshark: Callable[..., list[list[str]]]) -> None:
    vnis = (0, 1, 10, 0x123456, 2**24 - 1)
    rows = tshark(
        [vxlan(outer, vni, SEND) for vni in vnis],
        *("vxlan.flags", "vxlan.flag_i", "vxlan.flags_reserved", "vxlan.vni", "udp.dstport", "infiniband.bth.psn"),
        "_ws.malformed",
    )
    expected = [[0x0800, 1, 0, vni] for vni in vnis]
    assert [[int(cell, 0) for cell in row[:4]] for row in rows] == expected
    assert [row[4:] for row in rows] == [["4789,4791", "7", ""]] * len(vnis)


def test_the_outer_checksum_is_zero_over_ipv4_only() -> None:
    assert vxlan(VTEPS, 10, SEND)[40:42] == b"\0\0"
    assert vxlan(VTEPS6, 10, SEND)[60:62] != b"\0\0"  # RFC 8200 section 8.1 forbids it


def test_the_layer_is_bound_once() -> None:
    assert [layer for fields, layer in UDP.payload_guess if fields.get("dport") == 4789] == [VXLAN]


def test_one_line_shows_both_frames() -> None:
    assert describe(decode(vxlan(VTEPS, 10, SEND))) == (
        f"10.252.0.1 > 10.252.0.2  VXLAN 53261 > 4789  VNI 10  {len(SEND) + 50} bytes  DSCP 26 ECT(0)  "
        f"| {describe(decode(SEND))}"
    )


def test_each_header_is_explained_with_its_own_frame() -> None:
    told = explain(vxlan(VTEPS, 10, SEND))
    names = [header.name.split(",")[0] for header in told.headers]
    assert names == ["Ethernet", "IP", "UDP", "VXLAN", "Ethernet", "IP", "UDP", "BTH", "Data", "ICRC"]
    sports = [field.meaning for header in told.headers for field in header.fields if field.name == "sport"]
    assert sports == [
        "a hash of the inner frame, for ECMP to separate its flows",
        "one value per QP, the only one that ECMP sees",
    ]
    assert told.headers[-1].fields[0].meaning == "ok"


def test_any_frame_may_be_inside() -> None:
    inner = decode(vxlan(VTEPS, 10, pfc("02:00:00:00:00:01", PfcFrame.of({3: 1})))).inner
    assert inner is not None
    assert inner.protocol == "PFC"


@pytest.mark.parametrize("flags", [0x00, 0x04, 0xF7])
def test_without_the_i_flag_there_is_no_vni(flags: int) -> None:
    data = bytearray(vxlan(VTEPS, 10, SEND))
    data[FLAGS] = flags
    frame = decode(bytes(data))
    assert (frame.vni, frame.inner) == (None, None)
    assert frame.fault == f"VXLAN flags are {flags:#04x}: without I (0x08) there is no VNI"
    assert explain(bytes(data)).headers[-1].name == "Data"


def test_the_flag_that_linux_drops_is_pointed_out() -> None:
    data = bytearray(vxlan(VTEPS, 10, SEND))
    data[FLAGS] = 0x0C
    assert decode(bytes(data)).vni == 10  # reserved bits are ignored on receipt
    meanings = [field.meaning for header in explain(bytes(data)).headers for field in header.fields]
    assert "I: the VNI is valid; reserved bits are set, and Linux drops that" in meanings


@given(st.integers(0, 49 + len(SEND)))
def test_a_cut_tunnel_says_where(kept: int) -> None:
    data = vxlan(VTEPS, 10, SEND)
    frame = decode(data[:kept], len(data))
    assert frame.damage.startswith("cut by the snap length: ") or kept > len(data) - 9
    assert frame.inner is None or frame.inner.length == len(SEND)


def test_no_room_for_the_header() -> None:
    data = bytearray(vxlan(VTEPS, 10, SEND))
    data[38:40] = (15).to_bytes(2)
    assert decode(bytes(data)).fault == "UDP has 7 bytes, VXLAN needs 8"


def depth(frame: DecodedFrame) -> int:
    return frame.tunnels if frame.inner is None else depth(frame.inner)


def nested(times: int) -> bytes:
    data = SEND
    for _ in range(times):
        data = vxlan(VTEPS, 10, data)
    return data


def test_nesting_is_bounded() -> None:
    deepest = decode(nested(MAX_TUNNELS))
    assert (depth(deepest), deepest.damage) == (MAX_TUNNELS, "")
    hostile = nested(1000)
    assert decode(hostile).damage == f"more than {MAX_TUNNELS} tunnels in each other, or {MAX_HEADERS} headers"
    told = explain(hostile)
    assert told.fault == decode(hostile).damage
    assert [header.name for header in told.headers].count("VXLAN, a frame in a tunnel") == MAX_TUNNELS + 1
    assert describe(decode(hostile)).isascii()


def test_a_wall_of_vlan_tags_is_survived() -> None:
    """Ethernet, tags, IPv4, UDP and BTH: as many as there may be, then one more, then ten thousand."""
    most = MAX_HEADERS - 4
    walls = [SEND[:12] + bytes.fromhex("81000064") * tags + SEND[12:] for tags in (most, most + 1, 10000)]
    assert decode(walls[0]).protocol == "RoCEv2"
    for wall in walls[1:]:
        assert decode(wall).damage.endswith(f"or {MAX_HEADERS} headers")
        assert explain(wall).headers
