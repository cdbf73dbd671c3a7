"""Columns against tshark on good packets, and against the plain decoder on damaged ones."""

from __future__ import annotations

import io
import random
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.analysis.decode.columns import Columns, PacketClass, Roce, decode
from lab.analysis.read.capture_file import CaptureFile
from lab.kernel.process.process import find_tool, run
from lab.wire import frame as plain
from lab.wire.layers import WalkStop
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records

if TYPE_CHECKING:
    from pathlib import Path

FRAMES = [
    *packets.write(0xFFFFFE, 3),
    packets.send(7, 13),
    packets.send(8, path=packets.THERE6),
    packets.send(9, path=packets.MARKED),
    packets.read(10, 5000),
    *packets.responses(10, 5),
    packets.ack(10),
    packets.ack(11, 0x60),
    packets.congestion(),
    packets.tagged(packets.send(12)),
    packets.tagged(packets.tagged(packets.send(13))),
    packets.vxlan(packets.send(14), 4711),
    packets.vxlan(packets.tagged(packets.send(15, path=packets.THERE6)), ecn=3),
    packets.pause({3: 0xFFFF}),
    bytes.fromhex("ffffffffffff0200000000010806") + bytes(46),
]
PLACEMENT = [packets.flush(16, 5000), packets.atomic_write(17)]
"""Not known to tshark 4.0."""


def columns(frames: list[bytes]) -> tuple[Columns, Roce]:
    return next(decode(batch) for batch in CaptureFile(io.BytesIO(pcapng(records(frames))), "test"))


def test_fields_equal_tsharks(tmp_path: Path) -> None:
    """Field by field; of two headers of one kind tshark lists both, and the inner one comes last."""
    file = tmp_path / "asked.pcapng"
    file.write_bytes(pcapng(records(FRAMES)))
    names = ("opcode", "destqp", "psn", "a")
    wanted = [f"-einfiniband.bth.{name}" for name in names] + ["-einfiniband.reth.dmalen", "-evxlan.vni", "-eip.src"]
    wanted += ["-einfiniband.aeth.syndrome", "-eipv6.src"]
    done = run([find_tool("tshark", "tshark"), "-n", "-r", file, "-Tfields", *wanted])
    theirs = [line.split("\t") for line in done.stdout.splitlines()]
    ours, roce = columns(FRAMES)
    rows = {int(row): index for index, row in enumerate(roce.row)}
    assert len(theirs) == len(FRAMES)
    for number, (opcode, destqp, psn, a, dmalen, vni, src, syndrome, src6) in enumerate(theirs):
        assert (ours.vni[number] == int(vni)) if vni else ours.vni[number] == -1
        assert (number in rows) == bool(opcode), number
        if not opcode:
            continue
        index = rows[number]
        assert roce.opcode[index] == int(opcode)
        assert roce.destqp[index] == int(destqp, 16)
        assert roce.psn[index] == int(psn)
        assert roce.ackreq[index] == (a in {"1", "True"})
        assert roce.dmalen[index] == (int(dmalen) if dmalen else -1)
        assert roce.syndrome[index] == (int(syndrome) if syndrome else -1)
        words = b"".join(int(word).to_bytes(4) for word in ours.src[:, number])
        address = IPv6Address(words)
        mapped = address.ipv4_mapped
        assert str(mapped or address) == (src.split(",")[-1] if mapped else src6)


def test_kinds_and_ecn() -> None:
    ours, roce = columns(FRAMES)
    assert not ours.fault.any()
    assert [kind for kind in ours.kind if kind != PacketClass.ROCE] == [PacketClass.CONTROL, PacketClass.OTHER]
    assert ours.ecn[5] == 3
    assert ours.ecn[-3] == 3, "CE on the outer header of a tunnel counts"
    assert ours.ttl[-3] == 63
    assert roce.payload[:5].tolist() == [1024, 1024, 1024, 13, 100]


def test_a_flush_has_its_length_one_word_further_on() -> None:
    _, roce = columns([packets.read(1, 4000), *PLACEMENT, packets.placed(16)])
    assert roce.dmalen.tolist() == [4000, 5000, 8, -1]
    assert roce.payload.tolist() == [0, 0, 8, 0]
    assert roce.syndrome.tolist() == [-1, -1, -1, 31]


def test_names_every_fault() -> None:
    good = packets.send(1)
    wrong = {
        WalkStop.CUT: good[:20],
        WalkStop.DEEP: good[:12] + bytes.fromhex("81000001") * 40 + good[12:],
        WalkStop.IPV4: good[:14] + b"\x35" + good[15:],
        WalkStop.IPV6: packets.send(1, path=packets.THERE6)[:14] + b"\x40" + bytes(100),
        WalkStop.SHORT: good[:16] + b"\xff\xff" + good[18:],
        WalkStop.UDP_LENGTH: good[:38] + b"\xff\xff" + good[40:],
        WalkStop.ROOM: good[:38] + b"\x00\x10" + good[40:],
        WalkStop.TUNNEL: packets.vxlan(good)[:42] + bytes(1) + packets.vxlan(good)[43:],
        WalkStop.BTH: good[:38] + b"\x00\x17" + good[40:],
        WalkStop.EXTENSION: packets.ack(1)[:38] + b"\x00\x18" + packets.ack(1)[40:],
        WalkStop.PADDING: packets.send(1, 0)[:43] + b"\x30" + packets.send(1, 0)[44:],
    }
    ours, _ = columns(list(wrong.values()))
    assert [WalkStop(fault) for fault in ours.fault] == list(wrong)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_packets_as_the_plain_decoder_sees_them(data: st.DataObject) -> None:
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    frames = []
    for frame in FRAMES[:16] + PLACEMENT:
        changed = bytearray(frame)
        for _ in range(rng.randrange(4)):
            changed[rng.randrange(min(len(changed), 80))] = rng.randrange(256)
        frames.append(bytes(changed[: rng.choice([len(frame), rng.randrange(len(frame) + 1)])]))
    ours, roce = columns(frames)
    rows = {int(row): index for index, row in enumerate(roce.row)}
    for number, frame in enumerate(frames):
        seen = plain.decode(frame)
        if seen.dport == 4789 or frame.count(b"\x81\x00") > 6:
            continue
        assert (number in rows) == (seen.payload is not None), (seen, WalkStop(ours.fault[number]))
        if number in rows:
            assert seen.bth is not None
            assert roce.psn[rows[number]] == seen.bth.psn
            assert roce.payload[rows[number]] == seen.payload
            assert max(roce.dmalen[rows[number]], -1) == (seen.reth.dmalen if seen.reth else -1)
