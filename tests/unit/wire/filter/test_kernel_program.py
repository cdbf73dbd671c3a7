"""The kernel's program against the predicate, on packets of every kind, on damaged ones, and on noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.errors import UsageError
from lab.wire.craft.build import RoceMessage, pause, pfc, rocev2, vxlan
from lab.wire.filter.assembler import JUMP_EQUAL, RETURN, Assembler, Label
from lab.wire.filter.expression import Any, Expression, FilterField, Within
from lab.wire.filter.kernel_program import decided, kernel_program
from lab.wire.filter.match import matches
from lab.wire.filter.parse import parse
from lab.wire.frame import decode
from lab.wire.headers import PauseFrame, PfcFrame
from lab.wire.opcodes import Opcode
from tests.unit.wire.filter import machine
from tests.unit.wire.filter.filters import MAC, every, expressions, quick_expressions, right, tag
from tests.unit.wire.packets import IP4, IP6, VTEPS, crafted, messages

KEEP = 4096


def decides(packet: bytes, length: int) -> bool:
    """Of one packet, in the middle of a memory."""
    start, captured, on_the_wire = (np.array([number]) for number in (7, len(packet), length))
    return bool(decided(memoryview(bytes(7) + packet + bytes(100)), start, captured, on_the_wire)[0])


def verdicts(expression: Expression, packet: bytes) -> tuple[bool, bool]:
    """What the program says, and what the predicate says."""
    program = kernel_program(expression, KEEP)
    machine.check(program)
    kept = machine.run(program, packet)
    assert kept in {0, KEEP}
    return bool(kept), matches(expression, decode(packet), "x")


@settings(max_examples=400, deadline=None)
@given(quick_expressions, right)
def test_both_agree_on_right_packets(expression: Expression, packet: bytes) -> None:
    program, predicate = verdicts(expression, packet)
    assert program == predicate


@settings(max_examples=400, deadline=None)
@given(expressions, every, st.data())
def test_the_program_rejects_no_damaged_packet_that_the_predicate_takes(
    expression: Expression, packet: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(packet)
    for _ in range(data.draw(st.integers(0, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    program, predicate = verdicts(expression, bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
    assert program or not predicate


@settings(max_examples=200, deadline=None)
@given(expressions, st.binary(max_size=120))
def test_the_program_rejects_no_noise_that_the_predicate_takes(expression: Expression, packet: bytes) -> None:
    program, predicate = verdicts(expression, packet)
    assert program or not predicate


@settings(max_examples=400, deadline=None)
@given(quick_expressions, right, st.data())
def test_what_the_program_is_said_to_decide_it_decides(
    expression: Expression, packet: bytes, data: st.DataObject
) -> None:
    changed = bytearray(packet)
    for _ in range(data.draw(st.integers(0, 3))):
        changed[data.draw(st.integers(0, min(len(changed), 60) - 1))] = data.draw(st.integers(0, 255))
    program, predicate = verdicts(expression, bytes(changed))
    assert program == predicate or not decides(bytes(changed), len(changed))


@given(messages())
def test_it_is_said_of_plain_packets_and_of_no_others(message: RoceMessage) -> None:
    packet = rocev2(IP4, message)
    assert decides(packet, len(packet)) == (len(packet) >= 14 + 20 + 28)
    assert not decides(packet, len(packet) - 1)
    assert not decides(packet[:39], len(packet))
    for other in (tag(packet, 0x8100), vxlan(VTEPS, 10, packet), rocev2(IP6, message)):
        assert not decides(other, len(other))


WRITE = rocev2(IP4, crafted(Opcode.RC_RDMA_WRITE_ONLY))


@pytest.mark.parametrize(
    ("text", "packet", "wanted"),
    [
        ("qpn==0xabcde", WRITE, True),
        ("qpn==0xabcdf", WRITE, False),
        ("psn in 0xfedc0..0xfedcb", WRITE, True),
        ("opcode==write and not cnp", WRITE, True),
        ("ack", rocev2(IP4, crafted(Opcode.RC_ACKNOWLEDGE)), True),
        ("ack", rocev2(IP4, crafted(Opcode.RC_RDMA_READ_RESPONSE_ONLY)), False),
        ("host 10.0.0.1", WRITE, True),
        ("src 10.0.0.2", WRITE, False),
        ("vni==10 and host 10.0.0.1 and host 10.252.0.1", vxlan(VTEPS, 10, WRITE), True),
        ("vni==11", vxlan(VTEPS, 10, WRITE), False),
        ("not roce", vxlan(VTEPS, 10, WRITE), False),
        ("qpn!=5", pause(MAC, PauseFrame(1)), False),
        ("pfc", pfc(MAC, PfcFrame.of({3: 1})), True),
        ("pause", pfc(MAC, PfcFrame.of({3: 1})), False),
    ],
)
def test_known_packets(text: str, packet: bytes, wanted: bool) -> None:
    assert verdicts(parse(text), packet) == (wanted, wanted)


@pytest.mark.parametrize(
    ("text", "program", "predicate"),
    [
        ("ttl==7", True, False),
        ("ttl==7 and qpn==1", False, False),
        ("not (ttl==7 or qpn==0xabcde)", False, False),
        ("not (ttl==7 and qpn==0xabcde)", True, True),
        ("interface==x and qpn==0xabcde", True, True),
        ("not interface==x and qpn==0xabcde", True, False),
        ("src 10.0.0.0/24 and not roce", False, False),
        ("icrc==ok or qpn==1", True, True),
    ],
)
def test_what_only_the_predicate_knows_is_let_through(text: str, program: bool, predicate: bool) -> None:
    assert verdicts(parse(text), WRITE) == (program, predicate)


def test_what_the_program_cannot_follow_is_left_to_the_predicate() -> None:
    nested = vxlan(VTEPS, 10, vxlan(VTEPS, 11, WRITE))
    assert verdicts(parse("vni==11"), nested) == (True, True)
    assert verdicts(parse("vni==12"), nested) == (True, False)
    twice = tag(tag(WRITE, 0x8100), 0x88A8)
    assert verdicts(parse("cnp"), twice) == (True, False)


def test_far_jumps_and_programs_that_are_too_long() -> None:
    for count in (30, 100, 200):
        many = " or ".join(f"qpn=={number}" for number in [*range(count), 0xABCDE])
        assert verdicts(parse(many), WRITE) == (True, True)
        assert verdicts(parse(f"not ({many})"), WRITE) == (False, False)
    endless = Any(tuple(Within(FilterField.QPN, ((number, number),)) for number in range(1000)))
    with pytest.raises(UsageError, match="instructions of the kernel's 4096"):
        kernel_program(endless, KEEP)


@pytest.mark.parametrize("distance", [253, 254, 255, 256, 600])
@pytest.mark.parametrize("value", [0, 1])
def test_a_jump_of_any_length_arrives(distance: int, value: int) -> None:
    assembler, yes, no = Assembler(), Label(), Label()
    assembler.add(0, value)
    assembler.jump(JUMP_EQUAL, 1, yes, no)
    for _ in range(distance):
        assembler.add(RETURN, 99)
    assembler.place(yes)
    assembler.add(RETURN, 1)
    assembler.place(no)
    assembler.add(RETURN, 0)
    assert machine.run(assembler.finish(), b"") == value
