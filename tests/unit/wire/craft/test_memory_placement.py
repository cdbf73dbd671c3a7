"""FLUSH and ATOMIC WRITE (IBA vol. 1 annex A19), octet by octet as the annex and Linux's rxe_hdr.h lay them out.

tshark 4.0 does not know the two and reads nothing after their BTH. 4.4 does, and agrees, but for the bits of the
FETH: it has three of PLT, and SEL right above. That rxe understands what is built here is for
tests/vm/rdma/test_craft_placement.py to show, and that we understand what it sends, for test_vectors.py.
"""

from __future__ import annotations

import pytest
from scapy.layers.l2 import Ether

from lab.wire.craft.build import RoceMessage, rocev2
from lab.wire.explain.explanation import ExplainedHeader, explain
from lab.wire.frame import decode
from lab.wire.headers import Feth, Placement, Reth, Selectivity
from lab.wire.opcodes import Opcode
from lab.wire.rocev2 import FETH, RETH
from lab.wire.summary import describe
from tests.unit.wire.packets import IP4

BTH = "{opcode:02x}40ffff 00000011 80000007"
ADDRESS = "1111222233334444 55556666"
BEFORE, AFTER = 42, 4
"""Octets below the BTH, and those of the ICRC."""
WHERE = Reth(0x1111_2222_3333_4444, 0x5555_6666, 4096)


def flush(feth: Feth, reth: Reth = WHERE) -> bytes:
    return rocev2(IP4, RoceMessage(Opcode.RC_FLUSH, 0x11, 7, ackreq=True, feth=feth, reth=reth))


def transport(frame: bytes) -> bytes:
    return frame[BEFORE:-AFTER]


@pytest.mark.parametrize(
    ("sel", "plt", "word"),
    [
        (Selectivity.RANGE, Placement.GLOBAL_VISIBILITY, "00000001"),
        (Selectivity.RANGE, Placement.PERSISTENCE, "00000002"),
        (Selectivity.REGION, Placement.GLOBAL_VISIBILITY, "00000011"),
        (3, 15, "0000003f"),
    ],
)
def test_a_flush_has_the_feth_before_the_reth(sel: int, plt: int, word: str) -> None:
    """Placement type in bits 0 to 3, selectivity level in 4 and 5; no payload (oA19-2, oA19-5)."""
    frame = flush(Feth(sel, plt))
    assert transport(frame) == bytes.fromhex(f"{BTH.format(opcode=0x1C)} {word} {ADDRESS} 00001000")
    assert (decode(frame).feth, decode(frame).reth, decode(frame).payload) == (Feth(sel, plt), WHERE, 0)


def test_an_atomic_write_is_a_reth_and_eight_octets() -> None:
    where, data = Reth(0x1111_2222_3333_4444, 0x5555_6666, 8), bytes(range(8))
    frame = rocev2(IP4, RoceMessage(Opcode.RC_ATOMIC_WRITE, 0x11, 7, ackreq=True, reth=where, payload=data))
    assert transport(frame) == bytes.fromhex(f"{BTH.format(opcode=0x1D)} {ADDRESS} 00000008 0001020304050607")
    assert (decode(frame).feth, decode(frame).reth, decode(frame).payload) == (None, where, 8)


def test_reserved_bits_are_not_taken_for_others() -> None:
    octets = bytearray(flush(Feth(1, 2)))
    octets[BEFORE + 12 : BEFORE + 16] = bytes.fromhex("ffffffd2")
    assert decode(bytes(octets)).feth == Feth(1, 2)
    feth = Ether(bytes(octets))[FETH]
    assert (feth.Reserved26, feth.SEL, feth.PLT) == (2**26 - 1, 1, 2)
    assert isinstance(feth.payload, RETH)


def meanings(header: ExplainedHeader) -> dict[str, str]:
    return {field.name: field.meaning for field in header.fields}


@pytest.mark.parametrize(
    ("feth", "sel", "plt", "va", "dmalen"),
    [
        (Feth(0, 1), "range: the bytes that the RETH names", "visible to all readers of this memory",
         "address in the receiver's memory", "the range: 4.096 KB"),
        (Feth(1, 3), "region: all memory of the R_Key",
         "visible to all readers of this memory, and preserved in a power failure",
         "not used to flush a region", "not used to flush a region"),
        (Feth(2, 0), "reserved", "requests nothing", "address in the receiver's memory", "the range: 4.096 KB"),
        (Feth(0, 4), "range: the bytes that the RETH names", "reserved bits",
         "address in the receiver's memory", "the range: 4.096 KB"),
    ],
)  # fmt: skip
def test_a_flush_is_explained(feth: Feth, sel: str, plt: str, va: str, dmalen: str) -> None:
    told = {header.name.split(",")[0]: header for header in explain(flush(feth)).headers}
    assert meanings(told["FETH"]) == {"Reserved26": "", "SEL": sel, "PLT": plt}
    assert (meanings(told["RETH"])["VA"], meanings(told["RETH"])["DMALen"]) == (va, dmalen)
    assert meanings(told["BTH"])["OpCode"] == "0x1c: FETH and RETH must follow"


def test_an_atomic_write_is_explained() -> None:
    frame = rocev2(IP4, RoceMessage(Opcode.RC_ATOMIC_WRITE, 1, reth=Reth(0, 0, 8), payload=bytes(8)))
    reth, data, _ = explain(frame).headers[-3:]
    assert meanings(reth)["VA"] == "address in the receiver's memory, a multiple of 8"
    assert meanings(data)["bytes"] == "written in one step, never visible in part"


def test_one_line_says_what_a_flush_carries() -> None:
    line = "RC FLUSH  QP 0x000011  PSN 7  AckReq  SEL 1 PLT 0x2  VA 0x1111222233334444 R_Key 0x55556666 DMALen 4096  "
    assert line in describe(decode(flush(Feth(1, 2))))
