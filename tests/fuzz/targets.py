"""The fuzzed functions: they take any bytes, and fail only where the code under test does.

A target lets through what the code may raise for untrusted input, and asserts what must hold of every answer. The
coverage-guided fuzzer (``tests.fuzz.run``) and the unit tests call the same functions.
"""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode.filter_columns import chosen
from lab.analysis.decode.header_walk_columns import Strata, other_name
from lab.analysis.read.mirrors import unwrap
from lab.analysis.read.packet_batch import SLACK, PacketBatch
from lab.analysis.read.records import Reader
from lab.analysis.results.fact_builder import analyse
from lab.analysis.views.follow import follow
from lab.errors import InvalidInput, UsageError
from lab.telemetry.read.row_series import RowTable
from lab.telemetry.read.series import RecordingClock
from lab.telemetry.store.row_tables import columns_of, unpack
from lab.wire.explain.explanation import explain
from lab.wire.filter.kernel_program import kernel_program
from lab.wire.filter.match import matches
from lab.wire.filter.parse import parse
from lab.wire.frame import decode
from lab.wire.summary import describe
from lab.wire.walk import walk
from tests.fuzz import seeds
from tests.unit.analysis import packets
from tests.unit.wire.filter import machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.analysis.results.analysis_facts import AnalysisFacts
    from lab.wire.frame import DecodedFrame

_ETHERNET: Final = 14
_KEEP: Final = 4096
_SMALL: Final = 700
"""Bytes of a batch so small that most files need several."""
_AROUND: Final = b"\xff" * SLACK
_FILTERS: Final = tuple(parse(text) for text in seeds.FILTERS)


def pcapng(data: bytes) -> None:
    """The reader hands out what is in the file, behind an Ethernet header of its own where the link has none.

    Where it cannot go on it says so in lines that can be printed.
    """
    reader = Reader(io.BytesIO(data), "fuzz")
    octets, packets_read, complaint = 0, 0, ""
    try:
        for record in reader:
            octets += len(record.data)
            packets_read += 1
            assert record.length >= len(record.data)
            assert reader.interfaces[record.interface].name.isprintable()
    except InvalidInput as error:
        complaint = str(error)
    assert all(line.isprintable() for line in complaint.splitlines())
    assert octets <= len(data) + _ETHERNET * packets_read


def frame(data: bytes) -> None:
    """Every frame decodes to something that has a line of its own; two octets say how long it was on the wire."""
    length = len(data) - 2 + int.from_bytes(data[:2]) % 64
    found = decode(data[2:], length)
    assert describe(found, 10**9).isprintable()
    assert found.payload is None or 0 <= found.payload <= length or found.short or found.fragment


def dissect(data: bytes) -> None:
    """Every frame is explained: headers that are not longer than it, in text that cannot steer a terminal."""
    told = explain(data, rate=10**9)
    for header in told.headers:
        assert header.size >= 0
        assert all(each.value.isprintable() and each.meaning.isprintable() for each in header.fields)
        assert all(line.isprintable() for line in header.figure)


def analysis(data: bytes) -> None:
    """Facts are sane, and the same however the file is cut into batches; a small one is a single batch anyway."""
    whole = _facts(data, 2**16)
    if len(data) > _SMALL:
        _assert_same(whole, _facts(data, _SMALL))
    if whole is None:
        return
    for flow in whole.flows:
        assert 0 <= flow.marked_share <= 1
        assert flow.payload >= 0
        assert flow.payload <= flow.bytes or whole.short, "only a mirror that cuts packets writes less than they had"
        assert flow.gaps >= 0
        assert flow.missing >= flow.unseen >= 0
    assert all(port.pairs + port.expired <= port.xoff for port in whole.pauses)


def _assert_same(whole: AnalysisFacts | None, parts: AnalysisFacts | None) -> None:
    if whole is None or parts is None:
        assert whole is parts
        return
    assert (whole.packets, whole.roce, whole.damage_count) == (parts.packets, parts.roce, parts.damage_count)
    assert [flow.packets for flow in whole.flows] == [flow.packets for flow in parts.flows]


def _facts(data: bytes, chunk: int) -> AnalysisFacts | None:
    try:
        return analyse(io.BytesIO(data), "fuzz", rate=10**9, check_icrc=True, chunk=chunk)
    except InvalidInput:
        return None


def choosing(data: bytes) -> None:
    """A filter takes the same packets by columns as by frames; the last octet says which one."""
    batch, _ = unwrap(_alone(data))
    begin = int(batch.start[0])
    seen = decode(batch.data[begin : begin + int(batch.captured[0])].tobytes(), int(batch.length[0]))
    expression = _FILTERS[sum(data[-1:]) % len(_FILTERS)]
    assert chosen(expression, batch).tolist() == [matches(expression, seen)], expression


def _alone(data: bytes) -> PacketBatch:
    """The frame as the reader hands it out; what is around it in the buffer is not zero, so that it is not missed."""
    captured, one = np.array([len(data)]), np.ones(1, np.int64)
    buffer = np.frombuffer(_AROUND + data + _AROUND, np.uint8)
    return PacketBatch(buffer, one * len(_AROUND), captured, captured, one, one - 1, one - 1, one)


def walks(data: bytes) -> None:
    """The walk of a batch takes the same steps as that of a frame; two octets say how long it was on the wire."""
    octets, length = data[2:], len(data) - 2 + int.from_bytes(data[:2]) % 64
    found = walk(octets, length)
    buffer = np.frombuffer(octets + bytes(SLACK), np.uint8)
    ends = (np.array([end]) for end in (len(octets), length))
    strata = Strata(buffer, np.zeros(1, np.int64), *ends)
    steps = [(stratum.header, int(at)) for stratum in strata.strata for at in stratum.at]
    assert steps == [(layer.header, layer.at) for layer in found.layers]
    assert (int(strata.fault[0]), bool(strata.short[0]), int(strata.end[0])) == (found.fault, found.short, found.end)
    assert strata.other[0] < 0 or other_name(int(strata.other[0])).isprintable()


def following(data: bytes) -> None:
    """Each copy of a packet is in order of time, and seen once by each link."""
    try:
        tracks = follow(io.BytesIO(data), "fuzz", packets.QP2, 2, _SMALL)
    except InvalidInput:
        return
    for track in tracks:
        for copy in track.copies:
            assert len({sighting.link for sighting in copy.sightings}) == len(copy.sightings)
            assert all(delay >= 0 for delay in copy.delays)


def filters(data: bytes) -> None:
    """A text is a filter or a UsageError; the kernel's program rejects no packet that the filter takes."""
    try:
        expression = parse(data.decode(errors="surrogateescape"))
        program = kernel_program(expression, _KEEP)
    except UsageError:
        return
    machine.check(program)
    for packet, decoded in _decoded():
        assert machine.run(program, packet) or not matches(expression, decoded)


def rows(data: bytes) -> None:
    """A frame of a table that grows is rows under plain names, each of one thing; or a ValueError of one line."""
    complaint = ""
    try:
        schema, packed = unpack(memoryview(data))
    except ValueError as error:
        complaint = str(error)
    assert complaint.isprintable()
    if complaint:
        return
    assert schema.table.isidentifier()
    assert packed.nbytes <= len(data)
    table = columns_of(schema, np.zeros(len(packed), np.int64), packed)
    assert len(table.dicts()) == len(packed)
    assert sum(len(series) for _, series in RowTable(table, RecordingClock(0, {}))) == len(packed)


@cache
def _decoded() -> tuple[tuple[bytes, DecodedFrame], ...]:
    """The packets that filters are tried on."""
    return tuple((packet, decode(packet)) for packet in seeds.frames())


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "pcapng": pcapng,
    "frame": frame,
    "dissect": dissect,
    "analysis": analysis,
    "choosing": choosing,
    "walks": walks,
    "following": following,
    "filters": filters,
    "rows": rows,
}
