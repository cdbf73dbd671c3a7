"""Packets as columns, against the same packets one by one: the same records, the same bytes of a file."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.wire import frame_batch
from lab.wire.frame_batch import FrameBatch, directions, joined
from lab.wire.pcapng import Direction, Record, Writer

MACS = 12


@st.composite
def packets(draw: st.DrawFn) -> tuple[int, int, bytes, int, Direction, int]:
    """Time, interface, what was kept, bytes on the wire, direction and tag of one."""
    data = draw(st.binary(min_size=0, max_size=80))
    tag = draw(st.sampled_from((0, 0, 0x81000064, 0x88A86FFF))) if len(data) >= MACS else 0
    return (
        draw(st.integers(0, 2**62)), draw(st.integers(0, 2)), data, len(data) + draw(st.integers(0, 9000)),
        draw(st.sampled_from((Direction.INBOUND, Direction.OUTBOUND))), tag,
    )  # fmt: skip


def batch_of(drawn: list[tuple[int, int, bytes, int, Direction, int]]) -> tuple[FrameBatch, dict[int, memoryview]]:
    """The packets in the memories of three interfaces, each behind what is none of it."""
    memories = {number: bytearray(b"\xaa" * 5) for number in range(3)}
    starts = []
    for _, interface, data, _, _, _ in drawn:
        starts.append(len(memories[interface]))
        memories[interface] += data + b"\xbb" * 7
    columns = zip(
        *((time, at, start, len(data), length, direction, tag)
          for start, (time, at, data, length, direction, tag) in zip(starts, drawn, strict=True)), strict=True,
    )  # fmt: skip
    numbers = [np.array(column, np.int64) for column in columns] or [np.zeros(0, np.int64)] * 7
    return FrameBatch(*numbers), {number: memoryview(bytes(each)) for number, each in memories.items()}


def records_of(drawn: list[tuple[int, int, bytes, int, Direction, int]]) -> list[Record]:
    found = []
    for time, interface, data, length, direction, tag in drawn:
        tagged = data[:MACS] + tag.to_bytes(4, "big") + data[MACS:] if tag else data
        found.append(Record(time, interface, length + len(tagged) - len(data), direction, tagged))
    return found


@pytest.mark.parametrize("chunk", [1, 300, 1 << 20])
@settings(deadline=None)
@given(drawn=st.lists(packets(), max_size=20))
def test_the_blocks_are_those_of_the_records(
    chunk: int, drawn: list[tuple[int, int, bytes, int, Direction, int]]
) -> None:
    batch, memories = batch_of(drawn)
    wanted, output = io.BytesIO(), io.BytesIO()
    Writer(wanted).write(records_of(drawn))
    writer = Writer(output)
    with pytest.MonkeyPatch.context() as small:
        small.setattr(frame_batch, "_CHUNK", chunk)
        for blocks in batch.blocks(memories):
            writer.write_blocks(blocks)
    assert output.getvalue() == wanted.getvalue()
    assert writer.written == len(wanted.getvalue())


@settings(deadline=None)
@given(drawn=st.lists(packets(), max_size=20), data=st.data())
def test_what_is_selected_and_joined_is_as_it_was(
    drawn: list[tuple[int, int, bytes, int, Direction, int]], data: st.DataObject
) -> None:
    batch, memories = batch_of(drawn)
    records = records_of(drawn)
    assert list(batch.records(memories)) == records
    order = data.draw(st.permutations(range(len(drawn))))
    half = len(order) // 2
    parts = [batch.take(np.array(rows, int)) for rows in (order[:half], order[half:])]
    assert list(joined(parts).records(memories)) == [records[row] for row in order]
    mask = np.array([row % 2 == 0 for row in range(len(drawn))], bool)
    assert list(batch.take(mask).records(memories)) == records[::2]


def test_a_direction_is_by_who_has_sent_it() -> None:
    assert directions(np.array([True, False])).tolist() == [Direction.OUTBOUND, Direction.INBOUND]
