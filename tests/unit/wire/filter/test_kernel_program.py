"""The kernel's program against the predicate, on packets of every kind, on damaged ones, and on noise."""

import struct
from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.layers.l2 import ARP, Ether

from lab.errors import UsageError
from lab.wire.build import cnp, pause, pfc, rocev2, vxlan
from lab.wire.filter.assembler import JUMP_EQUAL, RETURN, Assembler, Label
from lab.wire.filter.expression import Address, All, Any, Expression, Field, Host, Not, Side, Within
from lab.wire.filter.kernel_program import kernel_program
from lab.wire.filter.match import matches
from lab.wire.filter.parse import parse
from lab.wire.frame import decode
from lab.wire.headers import Pause, Pfc
from lab.wire.opcodes import Opcode
from tests.unit.wire.filter import machine
from tests.unit.wire.packets import IP4, IP6, VTEPS, VTEPS6, crafted, messages, paths

KEEP = 4096
MAC = "02:00:00:00:00:01"


def plain() -> list[bytes]:
    """What is not RoCEv2, or has unusual headers, and is right all the same."""
    over_ip = Ether() / IP(src="10.0.0.1", dst="10.0.0.2", tos=3)
    return [
        pfc(MAC, Pfc.of({3: 65535})),
        pause(MAC, Pause(100)),
        cnp(IP4, 0x11),
        bytes(Ether() / ARP()).ljust(60, b"\0"),
        bytes(over_ip / TCP() / b"data"),
        bytes(over_ip / UDP(dport=53) / b"x"),
        bytes(over_ip / ICMP()),
        bytes(Ether() / IP(dst="10.0.0.2", flags="MF") / UDP(dport=4791) / bytes(40)),
        bytes(Ether() / IP(dst="10.0.0.2", options=[IPOption_NOP()] * 4) / UDP(dport=4791) / bytes(40)),
    ]


def tag(frame: bytes, kind: int) -> bytes:
    return frame[:12] + struct.pack("!HH", kind, 0x6064) + frame[12:]


roce = st.builds(rocev2, paths, messages()) | st.sampled_from([rocev2(IP4, crafted(opcode)) for opcode in Opcode])
bare = roce | st.sampled_from(plain())
tunnelled = st.builds(vxlan, st.sampled_from([VTEPS, VTEPS6]), st.integers(0, 2**24 - 1) | st.just(10), bare)
right = bare | tunnelled | st.builds(tag, bare | tunnelled, st.sampled_from([0x8100, 0x88A8]))

addresses: list[Address] = [
    ip_address(text) for path in (IP4, IP6, VTEPS, VTEPS6) for text in (path.src, path.dst)
] + [ip_address("10.0.0.3")]


@st.composite
def conditions(draw: st.DrawFn) -> Expression:
    if draw(st.booleans()):
        words = [
            "cnp",
            "ack",
            "nak",
            "rnr",
            "ce",
            "ect",
            "pfc",
            "pause",
            "roce",
            "opcode==write",
            "vni==10",
            "dscp==26",
        ]
        return parse(draw(st.sampled_from(words)))
    if draw(st.booleans()):
        return Host(draw(st.sampled_from(Side)), tuple(draw(st.lists(st.sampled_from(addresses), max_size=3))))
    field = draw(st.sampled_from(Field))
    value = st.integers(0, field.greatest)
    spans = st.tuples(value, value).map(lambda pair: (min(pair), max(pair)))
    return Within(field, tuple(draw(st.lists(spans, max_size=3))))


expressions = st.recursive(
    conditions(),
    lambda below: (
        st.builds(Not, below)
        | st.lists(below, min_size=1, max_size=4).map(lambda terms: All(tuple(terms)))
        | st.lists(below, min_size=1, max_size=4).map(lambda terms: Any(tuple(terms)))
    ),
    max_leaves=8,
)


def verdicts(expression: Expression, packet: bytes) -> tuple[bool, bool]:
    """What the program says, and what the predicate says."""
    program = kernel_program(expression, KEEP)
    machine.check(program)
    kept = machine.run(program, packet)
    assert kept in {0, KEEP}
    return bool(kept), matches(expression, decode(packet))


@settings(max_examples=400, deadline=None)
@given(expressions, right)
def test_both_agree_on_right_packets(expression: Expression, packet: bytes) -> None:
    program, predicate = verdicts(expression, packet)
    assert program == predicate


@settings(max_examples=400, deadline=None)
@given(expressions, right, st.data())
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
        ("qpn!=5", pause(MAC, Pause(1)), False),
        ("pfc", pfc(MAC, Pfc.of({3: 1})), True),
        ("pause", pfc(MAC, Pfc.of({3: 1})), False),
    ],
)
def test_known_packets(text: str, packet: bytes, wanted: bool) -> None:
    assert verdicts(parse(text), packet) == (wanted, wanted)


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
    endless = Any(tuple(Within(Field.QPN, ((number, number),)) for number in range(1000)))
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
