"""PFC and Pause: the class vector, the quanta, and how long they last, against tshark and the standard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.l2 import Ether

from lab.units import seconds_to_quanta
from lab.wire.craft import build
from lab.wire.ethernet import PFC, MACControl
from lab.wire.explain.explanation import explain
from lab.wire.frame import decode
from lab.wire.headers import CLASSES, PauseFrame, PfcFrame
from lab.wire.summary import describe
from tests.unit.wire.packets import bits16

if TYPE_CHECKING:
    from collections.abc import Callable

MAC: Final = "02:00:00:00:00:01"
operands = st.builds(PfcFrame, bits16, st.tuples(*[bits16] * CLASSES))


@given(operands)
def test_pfc_decodes_to_what_was_built(wanted: PfcFrame) -> None:
    data = build.pfc(MAC, wanted)
    frame = decode(data)
    assert (frame.protocol, frame.src, frame.dst) == ("PFC", MAC, "01:80:c2:00:00:01")
    assert (frame.pfc, frame.fault, len(data)) == (wanted, "", 60)
    assert bytes(Ether(data)) == data


@given(bits16)
def test_pause_decodes_to_what_was_built(quanta: int) -> None:
    data = build.pause(MAC, PauseFrame(quanta))
    frame = decode(data)
    assert (frame.protocol, frame.pause, frame.fault, len(data)) == ("Pause", PauseFrame(quanta), "", 60)
    assert bytes(Ether(data)) == data


def test_the_octets_are_those_of_annex_31d() -> None:
    # 802.3 annex 31D: opcode 01-01, the vector's low octet has bit n for class n, then time(0) to time(7).
    data = build.pfc(MAC, PfcFrame.of({3: 0xFFFF, 4: 0}))
    assert data[:14].hex() == "0180c20000010200000000018808"
    assert data[14:34].hex() == "01010018000000000000ffff0000000000000000"
    assert data[34:] == bytes(26)


@given(operands)
def test_the_classes_are_those_that_the_vector_enables(wanted: PfcFrame) -> None:
    bits = f"{wanted.vector:016b}"
    assert set(wanted.classes) == {priority for priority in range(8) if bits[15 - priority] == "1"}
    assert PfcFrame.of(wanted.classes).classes == wanted.classes


def test_every_field_is_what_tshark_reads(tshark: Callable[..., list[list[str]]]) -> None:
    vectors = [PfcFrame(1 << bit, tuple(1000 * bit + priority for priority in range(8))) for bit in range(8)]
    vectors += [PfcFrame(0, (0,) * 8), PfcFrame(0xFF, (0xFFFF,) * 8), PfcFrame.of({3: 65535, 4: 0})]
    names = ["macc.opcode", "macc.cbfc.enbv", *(f"macc.cbfc.enbv.c{n}" for n in range(8))]
    names += [f"macc.cbfc.pause_time.c{n}" for n in range(8)]
    rows = tshark([build.pfc(MAC, each) for each in vectors], *names)
    for each, row in zip(vectors, rows, strict=True):
        opcode, vector, *rest = (int(cell, 0) for cell in row)
        assert (opcode, vector) == (0x0101, each.vector)
        assert [priority for priority in range(8) if rest[priority]] == list(each.classes)
        assert tuple(rest[8:]) == each.quanta
    rows = tshark(
        [build.pause(MAC, PauseFrame(quanta)) for quanta in (0, 1, 65535)], "macc.opcode", "macc.pause_time"
    )
    assert [[int(cell, 0) for cell in row] for row in rows] == [[1, 0], [1, 1], [1, 65535]]


# A quantum is 512 bit times (802.3 clause 31B.2): 512 ns at 1 Gb/s, and 65535 of them 33.55 ms.
@pytest.mark.parametrize(
    ("quanta", "rate", "seconds"),
    [(1, 10**9, 512e-9), (65535, 10**9, 33.55392e-3), (65535, 100 * 10**9, 335.5392e-6), (65535, 10**8, 0.3355392)],
)
def test_quanta_are_times_at_the_rate_of_the_link(quanta: int, rate: int, seconds: float) -> None:
    assert PauseFrame(quanta).seconds(rate) == pytest.approx(seconds, rel=1e-12)
    assert PfcFrame.of({5: quanta}).seconds(rate) == {5: pytest.approx(seconds, rel=1e-12)}
    assert seconds_to_quanta(seconds, rate) in {quanta, quanta + 1}  # rounded up, and a float may lie just above


def test_one_line_and_the_fields_say_who_stops_for_how_long() -> None:
    data = build.pfc(MAC, PfcFrame(0x18, (7, 0, 0, 65535, 0, 0, 0, 0)))
    assert describe(decode(data), 10**8).endswith("PFC  class 3 XOFF 65535 quanta = 335.5 ms  class 4 XON  60 bytes")
    assert describe(decode(build.pause(MAC, PauseFrame(9)))).endswith("Pause  XOFF 9 quanta  60 bytes")
    told = explain(data, rate=10**8)
    assert [header.name for header in told.headers[1:]] == ["MAC control", "PFC, priority flow control", "Padding"]
    meanings = {field.name: field.meaning for field in told.headers[2].fields}
    assert meanings["priority_enable_vector"] == "classes 3, 4"
    assert meanings["time_0"] == "not enabled, so not heeded"
    assert meanings["time_3"] == "class 3: stop for 335.5 ms at the link's rate"
    assert meanings["time_4"] == "class 4: go on (XON)"


@pytest.mark.parametrize(
    ("kept", "fault"),
    [
        (15, "the MAC control header would end at byte 16, captured are 15"),
        (33, "the time vector would end at byte 34, captured are 33"),
    ],
)
def test_a_cut_pfc_frame_says_so(kept: int, fault: str) -> None:
    data = build.pfc(MAC, PfcFrame.of({3: 1}))
    assert decode(data[:kept], len(data)).fault == f"cut by the snap length: {fault}"


def test_other_opcodes_are_named_by_number() -> None:
    data = bytes(Ether(src=MAC, dst="01:80:c2:00:00:01") / MACControl(opcode=2) / bytes(44))
    assert decode(data).protocol == "MAC control opcode 0x0002"
    assert PFC not in Ether(data)
