"""Everything that carries RoCE, field by field as tshark reads it: by the walk of a frame and by that of a batch."""

from __future__ import annotations

import io
import random
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.analysis.decode.columns import PacketClass, decode
from lab.analysis.decode.header_walk_columns import Strata, other_name
from lab.analysis.read.capture_file import CaptureFile
from lab.kernel.process.process import find_tool, run
from lab.wire import frame as plain
from lab.wire.explain.explanation import explain
from lab.wire.layers import MAX_HEADERS, Header, WalkStop
from lab.wire.walk import walk
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records
from tests.unit.analysis.encapsulations import ANY, EXTENDED, LATER_FRAGMENT, MACS, extended, ipv4, labels, rocev1

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab.wire.frame import DecodedFrame

CARRIED = [packets.send(7, 13), packets.send(8, path=packets.THERE6), packets.read(10, 5000), packets.ack(11, 0x60)]
CARRIED6 = [packets.send(8, path=packets.THERE6), packets.ack(9, path=packets.THERE6)]
EVERY = [
    *((name, wrap, CARRIED) for name, wrap in ANY.items()),
    *((name, wrap, CARRIED6) for name, wrap in EXTENDED.items()),
    ("RoCEv1", rocev1, [frame for frame in CARRIED if frame[12:14] == b"\x08\x00"]),
]
FIELDS = (
    "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.reth.dmalen",
    "infiniband.aeth.syndrome", "ieee8021ad.id", "vlan.id", "mpls.label", "vxlan.vni", "geneve.vni", "ip.src",
    "ipv6.src",
)  # fmt: skip
SETTINGS = ("ip.defragment:FALSE", "ipv6.defragment:FALSE")
TOLD = ("-d", "udp.port==8472,vxlan", "-d", "mpls.label==300,pwethcw")
"""What tshark does not find out by itself: Linux's old port, and that a pseudowire has a control word."""


def innermost(frame: DecodedFrame) -> DecodedFrame:
    return frame if frame.inner is None else innermost(frame.inner)


def layers(frame: DecodedFrame) -> list[DecodedFrame]:
    return [frame, *([] if frame.inner is None else layers(frame.inner))]


def numbers(cell: str) -> list[int]:
    return [int(word, 0) for word in cell.split(",") if word]


def read_by_tshark(file: Path, frames: list[bytes]) -> list[list[str]]:
    file.write_bytes(pcapng(records(frames)))
    options = [word for setting in SETTINGS for word in ("-o", setting)]
    wanted = [f"-e{field}" for field in FIELDS]
    done = run([find_tool("tshark", "tshark"), "-n", *options, *TOLD, "-r", file, "-Tfields", *wanted])
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def theirs_of_all(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str]]]:
    """tshark's columns of each name in ``EVERY``: it starts once for all."""
    frames = [(name, wrap(frame)) for name, wrap, carried in EVERY for frame in carried]
    rows = read_by_tshark(tmp_path_factory.mktemp("every") / "f.pcapng", [frame for _, frame in frames])
    found: dict[str, list[list[str]]] = {}
    for (name, _), row in zip(frames, rows, strict=True):
        found.setdefault(name, []).append(row)
    return found


@pytest.mark.parametrize(("name", "wrap", "carried"), EVERY, ids=[name for name, _, _ in EVERY])
def test_as_tshark_reads_it(
    name: str, wrap: Callable[[bytes], bytes], carried: list[bytes], theirs_of_all: dict[str, list[list[str]]]
) -> None:
    frames = [wrap(frame) for frame in carried]
    theirs = theirs_of_all[name]
    (ours, roce), *_ = (decode(batch) for batch in CaptureFile(io.BytesIO(pcapng(records(frames))), "f"))
    assert roce.row.tolist() == list(range(len(frames)))
    for at, (frame, row) in enumerate(zip(frames, theirs, strict=True)):
        opcode, destqp, psn, dmalen, syndrome, provider, vlan, mpls, vni, segment, src4, src6 = row
        told = plain.decode(frame)
        inner, every = innermost(told), layers(told)
        assert inner.bth is not None
        assert told.damage == ""
        bth = (inner.bth.opcode, inner.bth.destqp, inner.bth.psn)
        assert bth == (numbers(opcode)[0], numbers(destqp)[0], numbers(psn)[0]), name
        assert bth == (roce.opcode[at], roce.destqp[at], roce.psn[at])
        assert roce.dmalen[at] == (numbers(dmalen) or [-1])[0] == (inner.reth.dmalen if inner.reth else -1)
        assert roce.syndrome[at] == (numbers(syndrome) or [-1])[0]
        tags = [tag for each in every for tag in (each.svlan, each.vlan) if tag is not None]
        assert tags == [tag for tag in numbers(provider) + numbers(vlan) if name != "three tags" or tag != 101]
        assert [label for each in every for label in each.mpls] == numbers(mpls)
        vnis = [each.vni for each in every if each.vni is not None]
        assert vnis == numbers(vni) + numbers(segment)
        address = str(IPv6Address(b"".join(int(word).to_bytes(4) for word in ours.src[:, at])))
        mapped = IPv6Address(address).ipv4_mapped
        assert inner.src == str(mapped or address)
        if name != "RoCEv1":
            assert inner.src in (src4 if mapped else src6).split(",")
            assert [each.src for each in every if "." in each.src] == [word for word in src4.split(",") if word]


def test_one_in_another_shows_tshark_nothing_that_it_does_not_show_us(tmp_path: Path) -> None:
    """Every encapsulation in every other one, made as they come: what tshark finds in it is what we find.

    Some of these contradict themselves, and in some only we look far enough.
    """
    frames = [
        outer(inner(frame)) for inner in ANY.values() for outer in ANY.values() for frame in (CARRIED[0], CARRIED6[0])
    ]
    theirs = [[numbers(cell) for cell in row[:3]] for row in read_by_tshark(tmp_path / "f.pcapng", frames)]
    ours: dict[int, list[int]] = {}
    for batch in CaptureFile(io.BytesIO(pcapng(records(frames))), "f"):
        _, roce = decode(batch)
        columns = (batch.number[roce.row] - 1, roce.opcode, roce.destqp, roce.psn)
        ours |= {at: bth for at, *bth in zip(*(column.tolist() for column in columns), strict=True)}
    found = {at: [values[-1] for values in bth] for at, bth in enumerate(theirs) if bth[0]}
    assert len(found) > len(frames) * 0.8
    assert {at: ours.get(at) for at in found} == found


def test_rocev1_is_named_with_its_gids_as_tshark_reads_them(tmp_path: Path) -> None:
    told = plain.decode(rocev1(CARRIED[0]))
    file = tmp_path / "f.pcapng"
    file.write_bytes(pcapng(records([rocev1(CARRIED[0])])))
    wanted = ("-einfiniband.grh.sgid", "-einfiniband.grh.dgid")
    done = run([find_tool("tshark", "tshark"), "-n", "-r", file, "-Tfields", *wanted])
    assert done.stdout.split() == [told.src, told.dst]
    assert (told.protocol, told.payload, told.icrc) == ("RoCEv1", 13, plain.Icrc.UNKNOWN)


@pytest.mark.parametrize("name", ["QinQ 9100", "MPLS", "EoMPLS", "GENEVE", "VXLAN on 8472", "in IPv4", "GRE"])
def test_each_header_is_explained_with_its_own_frame(name: str) -> None:
    told = explain(ANY[name](packets.send(7, 13)))
    names = [header.name.split(",")[0] for header in told.headers]
    assert names[-5:] == ["IP", "UDP", "BTH", "Data", "ICRC"]
    assert told.headers[-1].fields[0].meaning == "ok"


def test_an_icrc_that_is_not_checked_is_not_called_cut() -> None:
    told = explain(EXTENDED["hop by hop"](CARRIED6[0]))
    assert told.headers[-1].fields[0].meaning == "not checked"


def test_later_fragments_are_named_and_have_no_bth() -> None:
    six = extended(packets.send(8, path=packets.THERE6), LATER_FRAGMENT)
    four = MACS + b"\x08\x00" + ipv4(17, packets.send(7)[34:], fragment=5)
    for frame, name in ((six, "IPv6 fragment"), (four, "IPv4 fragment")):
        assert (plain.decode(frame).protocol, plain.decode(frame).damage) == (name, "")
        (ours, roce), *_ = (decode(batch) for batch in CaptureFile(io.BytesIO(pcapng(records([frame]))), "f"))
        assert not len(roce.row)
        assert other_name(int(ours.other[0])) == name


def _named(number: int) -> bytes:
    return MACS + b"\x08\x00" + ipv4(number, bytes(40))


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        (_named(50), "ESP"),
        (_named(1), "ICMP"),
        (_named(200), "IP protocol 200"),
        (_named(6), "TCP"),
        (_named(17)[:36] + b"\0\x35\0\x28" + bytes(40), "UDP"),
        (MACS + b"\x88\xe5" + bytes(50), "MACsec"),
        (MACS + b"\x88\x99" + bytes(50), "ethertype 0x8899"),
        (MACS + b"\x88\x47" + labels(5) + b"\x10\0\0\7" + bytes(40), "MPLS associated channel"),
        (MACS + b"\x08\x00" + ipv4(47, b"\x30\x01\x88\x0b" + bytes(40)), "GRE"),
    ],
)
def test_what_is_not_followed_is_named_alike_by_both(frame: bytes, name: str) -> None:
    assert innermost(plain.decode(frame)).protocol == name
    (ours, _), *_ = (decode(batch) for batch in CaptureFile(io.BytesIO(pcapng(records([frame]))), "f"))
    assert (other_name(int(ours.other[0])), int(ours.fault[0])) == (name, 0)


SEEDS = [wrap(frame) for _, wrap, carried in EVERY for frame in carried] + [
    packets.pause({3: 7}), packets.congestion(), _named(6), _named(50), extended(CARRIED6[0], LATER_FRAGMENT),
]  # fmt: skip


def assert_alike(frames: list[bytes], lengths: list[int]) -> None:
    """Both walks find the same headers in the same places, and stop for the same reason."""
    taken = list(zip(frames, lengths, strict=True))
    found = [walk(frame, length) for frame, length in taken]
    capture = CaptureFile(io.BytesIO(pcapng(records(frames))), "f")
    batch = next(iter(capture))
    start = batch.start
    strata = Strata(batch.data, start, start + batch.captured, start + np.array(lengths, np.int64))
    theirs: list[list[tuple[Header, int]]] = [[] for _ in frames]
    for stratum in strata.strata:
        for row, at in zip(stratum.row.tolist(), stratum.at.tolist(), strict=True):
            theirs[row].append((stratum.header, at - int(start[row])))
    assert theirs == [[(layer.header, layer.at) for layer in each.layers] for each in found]
    assert [WalkStop(fault) for fault in strata.fault.tolist()] == [each.fault for each in found]
    assert strata.short.tolist() == [each.short for each in found]
    assert (strata.end - start).tolist() == [each.end for each in found]
    assert all(len(each.layers) <= MAX_HEADERS for each in found)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_both_walks_agree_on_damaged_and_cut_frames(seed: int) -> None:
    rng = random.Random(seed)
    frames, lengths = [], []
    for frame in rng.sample(SEEDS, 12):
        if (frame in SEEDS and b"\x88\xbe" in frame) or b"\x22\xeb" in frame or b"\x65\x58" in frame:
            continue  # mirrors are unwrapped by the reader
        changed = bytearray(frame)
        for _ in range(rng.randrange(4)):
            changed[rng.randrange(min(len(changed), 140))] = rng.choice([0, 4, 6, 17, 47, 0x45, rng.randrange(256)])
        if 47 in changed[20:32]:
            continue
        kept = bytes(changed[: rng.choice([len(frame), rng.randrange(1, len(frame) + 1)])])
        frames.append(kept)
        lengths.append(rng.choice([len(kept), len(frame)]))
    if frames:
        assert_alike(frames, lengths)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=120), min_size=1, max_size=8))
def test_both_walks_agree_on_noise(frames: list[bytes]) -> None:
    kept = [frame for frame in frames if 47 not in frame[20:32]] or [b"\0"]
    assert_alike(kept, [len(frame) for frame in kept])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_the_short_cut_finds_what_the_walk_finds(seed: int) -> None:
    """Columns of damaged packets are the frame's values, whichever way they took."""
    rng = random.Random(seed)
    frames = []
    for frame in rng.sample(CARRIED * 4 + SEEDS, 12):
        changed = bytearray(frame)
        for _ in range(rng.randrange(3)):
            changed[rng.randrange(12, min(len(changed), 60))] = rng.randrange(256)
        frames.append(bytes(changed[: rng.choice([len(frame), rng.randrange(1, len(frame) + 1)])]))
    batch = next(iter(CaptureFile(io.BytesIO(pcapng(records(frames))), "f")))
    ours, roce = decode(batch)
    rows = {int(row): index for index, row in enumerate(roce.row)}
    for number in range(len(frames)):
        begin = int(batch.start[number])
        octets = batch.data[begin : begin + int(batch.captured[number])].tobytes()
        seen = plain.decode(octets, int(batch.length[number]))
        inner = innermost(seen)
        assert (number in rows) == (inner.payload is not None) == (ours.kind[number] == PacketClass.ROCE)
        if number in rows and inner.bth is not None:
            at = rows[number]
            assert (roce.psn[at], roce.payload[at]) == (inner.bth.psn, inner.payload)
            assert bool(ours.fault[number] == WalkStop.SHORT) == seen.cut
