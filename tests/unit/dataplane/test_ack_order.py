"""Acknowledgements that newer ones have overtaken: the port's own sources count them as a rule without PSNs does."""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.wire.craft import build
from lab.wire.headers import Aeth, Tag
from lab.wire.opcodes import Opcode
from lab.wire.syndrome import Syndrome
from tests.models.port_model import compile_on_sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_A, _B = "02:00:00:00:00:22", "02:00:00:00:00:11"
_FOUR = build.Path(_A, _B, "10.9.0.1", "10.9.0.2")
_OTHER = build.Path(_A, _B, "10.9.0.3", "10.9.0.2")
_SIX = build.Path(_A, _B, "fdc9::1", "fdc9::2")
_APART: Final = 250_000_000
"""Nanoseconds after which a QP may be another one."""
_OPCODE, _PSN, _SYNDROME = slice(-20, -19), slice(-11, -8), slice(-8, -7)
"""Octets of a frame that ends with BTH, AETH and ICRC."""
_NAK: Final = 0x60


def _ack(path: build.Path, qpn: int) -> bytes:
    aeth = Aeth(Syndrome.decode(0x1F), 0)
    return build.rocev2(path, build.RoceMessage(Opcode.RC_ACKNOWLEDGE, qpn, aeth=aeth))


@cache
def flows() -> tuple[bytes, ...]:
    """An acknowledgement of each flow: of IPv4, of IPv6, with a tag, and in tunnels of either and of two VNIs."""
    inner = _ack(_FOUR, 17)
    return (
        inner,
        _ack(_FOUR, 18),
        _ack(_OTHER, 17),
        _ack(_SIX, 17),
        _ack(replace(_FOUR, tag=Tag(7, 6)), 19),
        build.vxlan(_OTHER, 100, inner),
        build.vxlan(_OTHER, 101, inner),
        build.vxlan(_OTHER, 100, _ack(_SIX, 17)),
        build.vxlan(_SIX, 100, _ack(_OTHER, 17)),
        build.vxlan(_SIX, 100, _ack(_SIX, 18)),
    )


@dataclass(frozen=True)
class Passing:
    """A frame of a flow at a port. ``number`` is that of the request, which has its last 24 bits as PSN."""

    flow: int
    number: int
    sent: bool = False
    port: int = 1
    ns: int = 10**12
    opcode: int = Opcode.RC_ACKNOWLEDGE
    nak: bool = False

    def frame(self) -> bytes:
        """The frame; nothing looks at its ICRC."""
        made = bytearray(flows()[self.flow])
        made[_OPCODE] = bytes([self.opcode])
        made[_PSN] = (self.number % (1 << 24)).to_bytes(3)
        made[_SYNDROME] = bytes([_NAK if self.nak else 0x1F])
        return bytes(made)


def counted(program: Path, frames: Iterable[Passing]) -> list[tuple[int, int]]:
    """The counters of the ports: in and out."""
    lines = (f"{each.port} {each.sent:d} {each.ns} {each.frame().hex()}\n" for each in frames)
    ran = subprocess.run([program], input="".join(lines), capture_output=True, text=True, timeout=60, check=True)
    return [(int(rx), int(tx)) for rx, tx in (line.split() for line in ran.stdout.splitlines())]


def overtaken(frames: Sequence[Passing]) -> list[tuple[int, int]]:
    """The same by the numbers of requests, which never begin again: late is what comes behind a larger one."""
    found = [[0, 0] for _ in range(4)]
    newest: dict[tuple[int, bool, int], Passing] = {}
    for each in frames:
        if each.nak or each.opcode != Opcode.RC_ACKNOWLEDGE:
            continue
        before = newest.get((each.port, each.sent, each.flow))
        if before and each.number < before.number and each.ns - before.ns < _APART:
            found[each.port][each.sent] += 1
        else:
            newest[each.port, each.sent, each.flow] = each
    return [(rx, tx) for rx, tx in found]


PASSING = st.builds(
    Passing,
    flow=st.integers(0, 9),
    number=st.integers(0, 40) | st.integers(0, (1 << 23) - 1),
    sent=st.booleans(),
    port=st.integers(1, 2),
    opcode=st.sampled_from([Opcode.RC_ACKNOWLEDGE] * 9 + [Opcode.RC_RDMA_READ_RESPONSE_ONLY]),
    nak=st.sampled_from([False] * 9 + [True]),
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_on_sources("acks", tmp_path_factory.mktemp("acks"))


@settings(max_examples=60, deadline=None)
@given(
    passing=st.lists(PASSING, max_size=60),
    first=st.integers(0, 1 << 24),
    pauses=st.lists(st.sampled_from([1000, _APART - 1, _APART]), min_size=60, max_size=60),
)
def test_each_that_a_newer_one_overtook_is_counted(
    program: Path, passing: list[Passing], first: int, pauses: list[int]
) -> None:
    """At whatever PSN the flows begin, so that they pass the highest one."""
    now = 10**12
    frames = []
    for each, pause in zip(passing, pauses, strict=False):
        now += pause
        frames.append(replace(each, number=first + each.number, ns=now))
    assert counted(program, frames) == overtaken(frames)


def _stream(seed: int = 1) -> list[Passing]:
    """Acknowledgements of all flows, each tenth of which is late, with NAKs and other packets among them."""
    drawn = random.Random(seed)
    frames = []
    for number in range(2000):
        late = drawn.randrange(1, 400) if drawn.random() < 0.1 else 0
        frames.append(
            Passing(
                flow=drawn.randrange(10),
                number=(1 << 24) - 500 + number - late,
                sent=drawn.random() < 0.5,
                port=drawn.randrange(1, 3),
                ns=10**12 + number * 10**6,
                opcode=drawn.choice([Opcode.RC_ACKNOWLEDGE] * 9 + [Opcode.RC_RDMA_READ_RESPONSE_ONLY]),
                nak=drawn.random() < 0.1,
            )
        )
    return frames


def test_a_stream_with_late_ones_is_counted_exactly(program: Path) -> None:
    frames = _stream()
    truth = overtaken(frames)
    assert all(min(each) > 10 for each in truth[1:3])
    assert counted(program, frames) == truth


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("& RL_PSN) >= RL_PSN_PAST", "& RL_PSN) >= 0xffffff"),
        ("((ack->psn - flow->newest_psn) & RL_PSN) >= RL_PSN_PAST", "ack->psn < flow->newest_psn"),
        (" && !(transport.syndrome & RL_NAK)", ""),
        ("return transport.bth.opcode == RL_ACKNOWLEDGE", "return true"),
        ("flow->qpn == ack->qpn && flow->vni", "true || flow->vni"),
        ("id * 2 + (sent & 1)", "id * 2"),
        ("(id * 2 + (sent & 1))", "(sent & 1)"),
        ("		return true;\n	rl_copy", "		;\n	rl_copy"),
        ("ack->port == bpf_htons(RL_VXLAN_PORT)", "false"),
        ("== bpf_htons(ETH_P_8021Q) ? 4 : 0", "== 0 ? 4 : 0"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_sources_is_seen(tmp_path: Path, before: str, after: str) -> None:
    program = compile_on_sources("acks", tmp_path, [("acks.h", before, after)])
    assert counted(program, _stream()) != overtaken(_stream())


def test_flows_that_share_a_place_are_never_counted_for_each_other(program: Path) -> None:
    """A thousand flows in ascending order, in a table of 256: none is late, whatever the others' PSNs are."""
    drawn = random.Random(1)
    template = bytearray(flows()[0])
    lines = []
    for number in range(20_000):
        qpn = drawn.randrange(1000)
        template[-15:-12] = qpn.to_bytes(3)
        template[_PSN] = (qpn * 9973 + number).to_bytes(3)
        lines.append(f"1 0 {10**12 + number} {template.hex()}\n")
    ran = subprocess.run([program], input="".join(lines), capture_output=True, text=True, timeout=60, check=True)
    assert set(ran.stdout.split()) == {"0"}
