"""Figures of headers: as the specifications draw them, and true to the bits for every header that is known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.l2 import Dot1Q, Ether

from lab.wire.craft.build import cnp, pause, pfc, rocev2, vxlan
from lab.wire.explain.explanation import explain
from lab.wire.explain.header_figure import draw
from lab.wire.headers import PauseFrame, PfcFrame
from lab.wire.opcodes import Opcode
from tests.unit.wire.packets import IP4, IP6, VTEPS, crafted

MAC = "02:00:00:00:00:01"
TAGGED = bytes(Ether() / Dot1Q(vlan=7) / Ether(rocev2(IP4, crafted(Opcode.UD_SEND_ONLY))).payload)
FRAMES = [
    *(rocev2(IP4, crafted(opcode)) for opcode in Opcode if opcode is not Opcode.CNP),
    rocev2(IP6, crafted(Opcode.RC_ACKNOWLEDGE)),
    cnp(IP4, 3),
    pfc(MAC, PfcFrame.of({3: 1})),
    pause(MAC, PauseFrame(1)),
    vxlan(VTEPS, 10, rocev2(IP4, crafted(Opcode.RC_CMPSWAP))),
    TAGGED,
]


def test_the_bth_is_drawn_as_the_specification_does() -> None:
    """IBA vol. 1 section 9.2, with FECN and BECN of annex A10."""
    (bth,) = [header for header in explain(FRAMES[0]).headers if header.name.startswith("BTH")]
    assert bth.figure == [
        " 0                   1                   2                   3",
        " 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1",
        "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+",
        "|     OpCode    |S|M|Pad|  TVer |             P_KEY             |",
        "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+",
        "|F|B| Reserved6 |                     DestQP                    |",
        "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+",
        "|A|  Reserved7  |                      PSN                      |",
        "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+",
    ]


def test_a_field_over_several_rows_is_one_box_with_one_name() -> None:
    assert draw((("VA", 64), ("Key", 16)))[2:] == (
        "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+",
        "|                               VA                              |",
        "+                                                               +",
        "|                                                               |",
        "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+",
        "|              Key              |",
        "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+",
    )


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame[42:44].hex())
def test_every_header_has_a_reason_and_a_figure_of_its_size(frame: bytes) -> None:
    for header in explain(frame).headers:
        if header.name in {"Data", "Padding"}:
            continue
        assert header.why, header.name
        fixed = len([field for field in header.fields if field.bits])
        assert bool(header.figure) == (fixed > 1), header.name
        bits = sum(len(row) // 2 for row in header.figure if row.startswith("|"))
        assert bits == (header.size * 8 if fixed > 1 else 0)


@given(st.lists(st.tuples(st.text("abc", min_size=1, max_size=9), st.integers(1, 130)), min_size=1, max_size=12))
def test_every_bit_is_in_one_box(fields: list[tuple[str, int]]) -> None:
    lines = draw(tuple(fields))[2:]
    assert sum(len(row) // 2 for row in lines[1::2]) == sum(bits for _, bits in fields)
    assert all(len(line) <= 65 for line in lines)
