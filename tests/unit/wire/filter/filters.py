"""Filters and packets of every kind, for comparing what is decided in one way with what is decided in another."""

import struct
from ipaddress import ip_address, ip_network

from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.layers.l2 import ARP, Ether

from lab.wire.craft.build import cnp, pause, pfc, rocev2, vxlan
from lab.wire.filter.expression import (
    Address,
    AddressSide,
    All,
    Any,
    Expression,
    FilterField,
    HostCondition,
    LinkCondition,
    Not,
    Within,
)
from lab.wire.filter.parse import parse
from lab.wire.headers import PauseFrame, PfcFrame
from lab.wire.opcodes import Opcode
from tests.unit.analysis.encapsulations import EXTENDED, TUNNELS
from tests.unit.wire.packets import IP4, IP6, VTEPS, VTEPS6, crafted, messages, paths

MAC = "02:00:00:00:00:01"


def plain() -> list[bytes]:
    """What is not RoCEv2, or has unusual headers, and is right all the same."""
    over_ip = Ether() / IP(src="10.0.0.1", dst="10.0.0.2", tos=3)
    return [
        pfc(MAC, PfcFrame.of({3: 65535})),
        pause(MAC, PauseFrame(100)),
        cnp(IP4, 0x11),
        bytes(Ether() / ARP()).ljust(60, b"\0"),
        bytes(over_ip / TCP() / b"data"),
        bytes(over_ip / UDP(dport=53) / b"x"),
        bytes(over_ip / ICMP()),
        bytes(Ether() / IP(dst="10.0.0.2", frag=9) / UDP(dport=4791) / bytes(40)),
        bytes(Ether() / IP(dst="10.0.0.2", options=[IPOption_NOP()] * 4) / UDP(dport=4791) / bytes(40)),
    ]


def tag(frame: bytes, kind: int) -> bytes:
    return frame[:12] + struct.pack("!HH", kind, 0x6064) + frame[12:]


roce = st.builds(rocev2, paths, messages()) | st.sampled_from([rocev2(IP4, crafted(opcode)) for opcode in Opcode])
bare = roce | st.sampled_from(plain())
tunnelled = st.builds(vxlan, st.sampled_from([VTEPS, VTEPS6]), st.integers(0, 2**24 - 1) | st.just(10), bare)
right = bare | tunnelled | st.builds(tag, bare | tunnelled, st.sampled_from([0x8100, 0x88A8]))
"""What the kernel's program decides about exactly."""
carried = st.builds(lambda wrap, frame: wrap(frame), st.sampled_from(list(TUNNELS.values())), roce) | st.builds(
    lambda wrap, message: wrap(rocev2(IP6, message)), st.sampled_from(list(EXTENDED.values())), messages()
)
first_fragment = bytes(Ether() / IP(dst="10.0.0.2", flags="MF") / UDP(dport=4791) / bytes(40))
every = right | carried | st.just(first_fragment)

addresses: list[Address] = [
    ip_address(text) for path in (IP4, IP6, VTEPS, VTEPS6) for text in (path.src, path.dst)
] + [ip_address("10.0.0.3")]


networks = [ip_network(text) for text in ("10.0.0.0/24", "10.252.0.0/14", "0.0.0.0/0", "fd00::/16", "10.0.0.2/32")]


@st.composite
def conditions(draw: st.DrawFn, *, quick: bool) -> Expression:
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
        near = () if quick else tuple(draw(st.lists(st.sampled_from(networks), max_size=2)))
        return HostCondition(
            draw(st.sampled_from(AddressSide)), tuple(draw(st.lists(st.sampled_from(addresses), max_size=3))), near
        )
    if not quick and draw(st.booleans()):
        return LinkCondition(draw(st.sampled_from(["x", "leaf1"])))
    field = draw(st.sampled_from([field for field in FilterField if field.quick or not quick]))
    value = st.integers(0, field.greatest)
    spans = st.tuples(value, value).map(lambda pair: (min(pair), max(pair)))
    return Within(field, tuple(draw(st.lists(spans, max_size=3))))


def _trees(leaves: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.recursive(
        leaves,
        lambda below: (
            st.builds(Not, below)
            | st.lists(below, min_size=1, max_size=4).map(lambda terms: All(tuple(terms)))
            | st.lists(below, min_size=1, max_size=4).map(lambda terms: Any(tuple(terms)))
        ),
        max_leaves=8,
    )


expressions = _trees(conditions(quick=False))
quick_expressions = _trees(conditions(quick=True))
"""Those that the kernel's programs know all about."""
