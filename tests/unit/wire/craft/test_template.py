"""Stamped copies are, byte for byte, what the builder would have made with that PSN."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.wire.craft.build import Path, RoceMessage, pfc, rocev2, vxlan
from lab.wire.craft.craft_file import packet_from_options
from lab.wire.craft.packet_craft import craft, frames
from lab.wire.craft.psn_stamper import Template
from lab.wire.frame import Icrc, decode
from lab.wire.headers import PfcFrame, Tag
from lab.wire.opcodes import Opcode
from tests.unit.wire.packets import IP4, IP6, VTEPS, VTEPS6, bits24, messages, paths

if TYPE_CHECKING:
    from collections.abc import Callable

SEND = RoceMessage(Opcode.RC_SEND_ONLY, 0x11, 7, payload=b"template")
UNSUMMED = rocev2(IP4, SEND)[:40] + bytes(2) + rocev2(IP4, SEND)[42:]
"""Without a UDP checksum, as network cards send it."""


tags = st.sampled_from([None, Tag(7, 3)])


@given(paths, messages(), st.sampled_from([None, VTEPS, VTEPS6]), st.lists(bits24, min_size=1, max_size=4), tags)
def test_copies_are_what_the_builder_makes(
    path: Path, message: RoceMessage, outer: Path | None, psns: list[int], tag: Tag | None
) -> None:
    def built(psn: int) -> bytes:
        frame = rocev2(replace(path, tag=tag), replace(message, psn=psn))
        return frame if outer is None else vxlan(replace(outer, tag=tag), 10, frame)

    template = Template(built(message.psn))
    assert [template.stamp(psn) for psn in psns] == [built(psn) for psn in psns]


@pytest.mark.parametrize("path", [IP4, IP6], ids=["ipv4", "ipv6"])
def test_checksums_are_right_to_tshark(path: Path, tshark: Callable[..., list[list[str]]]) -> None:
    template = Template(vxlan(VTEPS6, 10, rocev2(path, SEND)))
    rows = tshark(
        [template.stamp(psn) for psn in range(0, 2**24, 2**19)],
        "udp.checksum.status",
        options=("-o", "udp.check_checksum:TRUE"),
    )
    assert rows == [["1,1"]] * 32


def test_an_absent_checksum_stays_absent() -> None:
    copy = Template(UNSUMMED).stamp(9)
    assert copy[40:42] == b"\0\0"
    assert decode(copy).icrc is Icrc.OK
    assert Template(vxlan(VTEPS, 10, UNSUMMED)).stamp(9)[50:] == copy


def test_a_wrong_icrc_stays_wrong_in_the_same_way() -> None:
    spoilt = [craft(packet_from_options({"kind": "send", "bad-icrc": True, "psn": psn})).frame for psn in range(3)]
    template = Template(spoilt[0])
    assert [template.stamp(psn) for psn in range(3)] == spoilt


@pytest.mark.parametrize(
    "frame",
    [
        pfc("02:00:00:00:00:01", PfcFrame.of({3: 1})),
        rocev2(IP4, SEND)[:-1],
        b"",
        vxlan(VTEPS6, 10, UNSUMMED),
    ],
    ids=["pfc", "cut", "empty", "checksum outside only"],
)
def test_other_frames_are_refused(frame: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Template(frame)


def test_a_count_of_packets_goes_on_from_their_psn() -> None:
    spec = packet_from_options({"kind": "write", "psn": 0xFFFFFE, "wrong-psn": 1, "count": 3, "payload": "x"})
    decoded = [decode(frame) for frame in frames(spec)]
    assert [frame.bth.psn for frame in decoded if frame.bth] == [0xFFFFFF, 0, 1]
    assert next(frames(spec)) == craft(spec).frame
    assert {frame.icrc for frame in decoded} == {Icrc.OK}


@pytest.mark.parametrize("kind", ["cnp", "pfc", "pause"])
def test_without_a_psn_all_are_the_same(kind: str) -> None:
    spec = packet_from_options({"kind": kind, "count": 3})
    assert list(frames(spec)) == [craft(spec).frame] * 3


def test_stamping_is_fast() -> None:
    """50,000 packets a second are asked for; the best of some short runs, so that a busy machine does not matter."""
    template = Template(rocev2(IP4, replace(SEND, payload=bytes(1024))))
    moments = []
    for _ in range(20):
        moments.append(perf_counter())
        for psn in range(500):
            template.stamp(psn)
    moments.append(perf_counter())
    assert min(after - before for before, after in pairwise(moments)) < 500 / 50_000
