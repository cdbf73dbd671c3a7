"""Every opcode's chain of headers: built, decoded in two ways, and read by tshark, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether

from lab.wire.craft.build import Path, RoceMessage, rocev2, vxlan
from lab.wire.explain.explanation import explain
from lab.wire.frame import DecodedFrame, Icrc, decode
from lab.wire.headers import Aeth, AtomicEth, Deth
from lab.wire.opcodes import Opcode, extensions, opcode_name
from lab.wire.rocev2 import BTH
from lab.wire.summary import describe
from lab.wire.syndrome import AckKind, Syndrome
from tests.unit.wire.opinions import FIELDS, ours, theirs
from tests.unit.wire.packets import HEADERS, IP4, IP6, VTEPS, VTEPS6, WITHOUT_DATA, crafted, messages, opcodes, paths

if TYPE_CHECKING:
    from collections.abc import Callable

    Tshark = Callable[..., list[list[str]]]


def assert_carries(frame: DecodedFrame, message: RoceMessage) -> None:
    """Every field of ``message`` arrived, and nothing else."""
    bth = frame.bth
    assert bth is not None
    assert (bth.opcode, bth.destqp, bth.psn, bth.pkey) == (
        message.opcode,
        message.destqp,
        message.psn,
        message.pkey,
    )
    assert (bth.ackreq, bth.solicited, bth.migreq) == (message.ackreq, message.solicited, message.migreq)
    assert (bth.fecn, bth.becn, bth.tver) == (message.fecn, message.becn, 0)
    assert {name: getattr(frame, name) for name in HEADERS} == {name: getattr(message, name) for name in HEADERS}
    # The reserved octets of a CNP are written as payload, and read as its header.
    assert frame.payload == (0 if message.opcode is Opcode.CNP else len(message.payload))
    assert bth.pad == -len(message.payload) % 4
    assert (frame.icrc, frame.fault) == (Icrc.OK, "")


@given(paths, messages())
def test_decodes_what_was_built(path: Path, message: RoceMessage) -> None:
    frame = decode(rocev2(path, message))
    assert (frame.src, frame.dst, frame.dscp, frame.ecn) == (path.src, path.dst, path.dscp, path.ecn)
    assert_carries(frame, message)


@given(st.sampled_from([VTEPS, VTEPS6]), st.integers(0, 2**24 - 1), paths, messages())
def test_decodes_what_was_built_in_a_tunnel(outer: Path, vni: int, path: Path, message: RoceMessage) -> None:
    frame = decode(vxlan(outer, vni, rocev2(path, message)))
    assert (frame.src, frame.dst, frame.sport, frame.vni) == (outer.src, outer.dst, outer.entropy, vni)
    assert (frame.bth, frame.icrc, frame.fault) == (None, None, "")
    assert frame.inner is not None
    assert_carries(frame.inner, message)


@given(paths, messages())
def test_scapy_rebuilds_the_same_bytes(path: Path, message: RoceMessage) -> None:
    data = rocev2(path, message)
    packet = Ether(data)
    packet[BTH].ICRC = None
    packet[UDP].chksum = None
    assert bytes(packet) == data


@pytest.mark.parametrize("opcode", Opcode, ids=opcode_name)
def test_each_header_is_explained_in_wire_order(opcode: Opcode) -> None:
    data = rocev2(IP4, crafted(opcode))
    told = explain(data)
    names = [header.name.split(",")[0] for header in told.headers]
    expected = [extension.label.replace("reserved", "CNP") for extension in extensions(opcode)]
    if opcode is not Opcode.CNP and opcode not in WITHOUT_DATA:
        expected.append("Data")
    assert names == ["Ethernet", "IP", "UDP", "BTH", *expected, "ICRC"]
    assert sum(header.size for header in told.headers) == len(data)
    assert told.headers[-1].fields[0].meaning == "ok"


@given(paths, messages(), st.integers(0, 300))
@example(IP6, crafted(Opcode.RC_SEND_LAST_WITH_IMMEDIATE), 74)
def test_a_cut_chain_names_the_header_that_is_missing(path: Path, message: RoceMessage, kept: int) -> None:
    """And of a packet whose BTH is there, how much it carries is known from its length."""
    data = rocev2(path, message)
    frame, whole = decode(data[:kept], len(data)), decode(data)
    assert frame.fault == "" or frame.fault.startswith("cut by the snap length: ")
    assert frame.fault != "" or frame.bth == whole.bth is not None
    assert frame.payload == (whole.payload if frame.bth else None)
    if kept < len(data):
        assert frame.icrc in {None, Icrc.UNKNOWN}
    describe(frame)
    explain(data[:kept], len(data))


def encapsulations(path: Path, message: RoceMessage) -> list[bytes]:
    plain = rocev2(path, message)
    return [plain, vxlan(VTEPS, 10, plain), vxlan(VTEPS6, 10, plain)]


@pytest.mark.parametrize("path", [IP4, IP6], ids=["ipv4", "ipv6"])
def test_every_field_of_every_opcode_is_what_tshark_reads(path: Path, tshark: Tshark) -> None:
    frames = [frame for opcode in Opcode for frame in encapsulations(path, crafted(opcode))]
    rows = tshark(frames, *FIELDS)
    assert len(rows) == len(frames) == 3 * len(Opcode)
    for data, row in zip(frames, rows, strict=True):
        outer = decode(data)
        frame = outer.inner or outer
        assert theirs(row) == ours(frame, data), describe(outer)


def test_the_comparison_notices_a_difference(tshark: Tshark) -> None:
    data = rocev2(IP4, crafted(Opcode.RC_CMPSWAP))
    other = bytearray(data)
    other[-10] ^= 1
    (row,) = tshark([bytes(other)], *FIELDS)
    assert theirs(row) != ours(decode(data), data)


def test_every_syndrome_is_what_tshark_reads(tshark: Tshark) -> None:
    every = [Syndrome.decode(octet) for octet in range(0x80)]
    frames = [rocev2(IP4, RoceMessage(Opcode.RC_ACKNOWLEDGE, 1, aeth=Aeth(each, 7))) for each in every]
    prefix = "infiniband.aeth.syndrome."
    rows = tshark(frames, *(prefix + name for name in ("opcode", "credit_count", "timer", "error_code")))
    column = {AckKind.ACK: 1, AckKind.RNR_NAK: 2, AckKind.NAK: 3}
    for syndrome, row in zip(every, rows, strict=True):
        assert int(row[0], 0) == syndrome.kind
        if syndrome.kind in column:
            assert int(row[column[syndrome.kind]], 0) == syndrome.code


def test_one_line_says_what_atomics_and_datagrams_carry() -> None:
    swap = RoceMessage(Opcode.RC_CMPSWAP, 1, atomiceth=AtomicEth(0x1000, 0x22, 5, 4))
    found = RoceMessage(Opcode.RC_ATOMIC_ACKNOWLEDGE, 2, aeth=Aeth(Syndrome.decode(0x1F), 3), origremdt=4)
    datagram = RoceMessage(Opcode.UD_SEND_ONLY, 3, deth=Deth(0x11111111, 0x18), payload=b"1234")
    revoke = RoceMessage(Opcode.RC_SEND_ONLY_WITH_INVALIDATE, 4, ieth=0xBEEF)
    lines = [describe(decode(rocev2(IP4, message))) for message in (swap, found, datagram, revoke)]
    assert "RC CmpSwap  QP 0x000001  PSN 0  VA 0x1000 R_Key 0x22 SwapDt 0x5 CmpDt 0x4" in lines[0]
    assert "MSN 3 ACK  OrigRemDt 0x4" in lines[1]
    assert "UD SEND Only  QP 0x000003  PSN 0  from QP 0x000018 Q_Key 0x11111111  payload 4" in lines[2]
    assert "invalidates R_Key 0xbeef" in lines[3]


@given(opcodes)
def test_a_chain_that_does_not_fit_says_so(opcode: Opcode) -> None:
    """The opcode promises headers for which the packet has no room."""
    frame = decode(rocev2(IP4, RoceMessage(opcode, 1)))
    if extensions(opcode) and opcode is not Opcode.CNP:
        assert frame.fault == f"no room for {extensions(opcode)[0].label} between BTH and ICRC"


def test_a_cut_packet_shows_no_false_icrc_and_its_true_length() -> None:
    """Of 1024 bytes of data the capture has the first 20; the last four of these are no ICRC."""
    whole = rocev2(IP4, RoceMessage(Opcode.RC_SEND_ONLY, 17, 3, payload=bytes(range(256)) * 4))
    told = explain(whole[:74], len(whole))
    data, seal = told.headers[-2:]
    assert (data.name, data.size, data.fields[0].value) == ("Data", 1024, "1024")
    assert data.fields[0].meaning == "captured are 20"
    assert data.fields[1].value == "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f ..."
    assert (seal.fields[0].name, seal.fields[0].value) == ("ICRC", "not captured")
