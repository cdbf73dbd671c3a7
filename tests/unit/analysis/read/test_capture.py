"""The columnar reader against the plain one, on files whole, cut, swapped and damaged."""

from __future__ import annotations

import io
import itertools
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.analysis.read.capture_file import CaptureFile
from lab.analysis.read.records import Reader
from lab.errors import InvalidInput
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis.captures import big_endian, pcap, pcapng, records

if TYPE_CHECKING:
    from lab.analysis.read.packet_batch import PacketBatch

FRAMES = [bytes([size % 251]) * size for size in [1100] * 40 + [60, 1100, 1101, 64, 1100, 9000] + [70] * 100]


def rows(batch: PacketBatch) -> list[Record]:
    return [
        Record(time, interface, length, direction, batch.data[start : start + captured].tobytes())
        for start, captured, length, time, interface, direction in zip(
            *(column.tolist() for column in batch[1:7]), strict=True
        )
    ]


def read(data: bytes, chunk: int = 4096) -> tuple[list[Record], CaptureFile]:
    capture = CaptureFile(io.BytesIO(data), "test", chunk)
    return [record for batch in capture for record in rows(batch)], capture


@pytest.mark.parametrize("chunk", [256, 1000, 4096, 10**6])
def test_equals_plain_reader(chunk: int) -> None:
    links = [Interface("h1:eth1"), Interface("leaf1:swp1", speed=10**8)]
    sent = [Record(10**18 + i, i % 2, len(frame) + i % 3, Direction(i % 3), frame) for i, frame in enumerate(FRAMES)]
    data = pcapng(sent, *links, dropped=7)
    got, capture = read(data, chunk)
    assert got == sent == [r._replace(data=bytes(r.data)) for r in Reader(io.BytesIO(data), "test")]
    assert capture.interfaces == links
    assert capture.statistics[0].dropped == 7
    assert not capture.damages.count


@pytest.mark.parametrize("order", ["<", ">"])
def test_classic_pcap(order: str) -> None:
    got, capture = read(pcap(FRAMES, order))
    assert [record.data for record in got] == FRAMES
    assert got[3].timestamp == 10**18 + 3000
    assert not capture.damages.count


def test_sections_of_both_byte_orders() -> None:
    """An interface that is described alike is the same one; timestamps follow each one's own resolution."""
    first, second = pcapng(records(FRAMES)), big_endian(FRAMES)
    got, capture = read(first + second + first)
    assert [record.data for record in got] == FRAMES * 3
    assert {record.interface for record in got} == {0, 1}
    assert got[len(FRAMES) + 5].timestamp == 5000
    assert not capture.damages.count


@pytest.mark.parametrize("whole", [pcapng(records(FRAMES[38:50])), pcap(FRAMES[38:50]), big_endian(FRAMES[38:50])])
def test_cut_anywhere_keeps_what_is_whole(whole: bytes) -> None:
    everything, _ = read(whole)
    for cut in range(28, len(whole), 37):
        got, capture = read(whole[:cut], 2048)
        assert got == everything[: len(got)]
        at_a_border = got == everything[: len(got)] and not capture.damages.count
        assert at_a_border or "ends inside it" in capture.damages.kept[-1].what


def test_names_a_broken_block_and_what_can_be_skipped() -> None:
    good = pcapng(records(FRAMES[:30]))
    header = good.index(FRAMES[0]) - 28
    broken = bytearray(good)
    tenth = header + 10 * (28 + len(FRAMES[0]) + 16)
    broken[tenth + 4 : tenth + 8] = (10**6).to_bytes(4, "little")  # its length, at the start
    got, capture = read(bytes(broken))
    assert len(got) == 10
    assert capture.damages.kept[0].place == f"block 13 at byte {tenth}"

    captured = bytearray(good)
    captured[header + 20 : header + 24] = (10**6).to_bytes(4, "little")
    got, capture = read(bytes(captured))
    assert len(got) == 29
    assert capture.damages.kept[0].place == "packet 1"


@pytest.mark.parametrize("data", [b"", b"GIF89a" * 10, b"\xd4\xc3\xb2\xa1"])
def test_refuses_what_is_no_capture(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        read(data)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_damage_is_survived(data: st.DataObject) -> None:
    """Bytes changed anywhere: an answer or InvalidInput; packets stay inside the buffer."""
    whole = data.draw(st.sampled_from([pcapng(records(FRAMES[38:60]), dropped=1), pcap(FRAMES[38:60])]))
    changed = bytearray(whole)
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    for _ in range(data.draw(st.integers(1, 8))):
        at = rng.choice([rng.randrange(len(whole)), rng.randrange(min(200, len(whole)))])
        changed[at] = rng.choice([0, 0xFF, rng.randrange(256)])
    capture = CaptureFile(io.BytesIO(bytes(changed)), "test", 2048)
    try:
        for batch in capture:
            assert (batch.start >= 0).all()
            assert (batch.captured >= 0).all()
            assert (batch.start + batch.captured <= len(batch.data)).all()
            assert (batch.interface < len(capture.interfaces)).all()
    except InvalidInput:
        pass


@pytest.mark.parametrize(("size", "at_a_time"), [(100, 2**20), (1000, 3 * 2**20)], ids=["small", "large"])
def test_of_small_packets_no_more_is_read_than_makes_batches(size: int, at_a_time: int) -> None:
    stream = io.BytesIO(pcap([bytes(size)] * (8 * 2**20 // size)))
    places = sorted({stream.tell() for _ in CaptureFile(stream, "f")})
    assert all(place - before <= at_a_time + size + 16 for before, place in itertools.pairwise([0, *places]))
    assert max(place - before for before, place in itertools.pairwise(places)) > at_a_time - size - 16
