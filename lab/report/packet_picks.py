"""Packets of interest in a run's captures: the first of each relevant kind, dissected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode.filter_columns import chosen
from lab.analysis.read.capture_file import CaptureFile
from lab.analysis.results.fact_builder import analyse
from lab.errors import InvalidInput
from lab.wire.filter.expression import All, FilterField, LinkCondition, Within
from lab.wire.filter.parse import parse
from lab.wire.frame import decode
from lab.wire.summary import describe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.analysis.read.packet_batch import Flags, PacketBatch
    from lab.telemetry.read.recording import Recording
    from lab.wire.explain.explanation import ExplainedHeader
    from lab.wire.filter.expression import Expression
    from lab.wire.pcapng import Interface

_NS: Final = 10**9
_SORTS: Final = {
    "the first pause (PFC)": "pfc",
    "the first packet that is marked (CE)": "ce",
    "the first CNP": "cnp",
    "the first NAK": "nak",
}
"""The titles of packets, each with a filter; the first match is picked."""
_BLUR: Final = 1000
"""Tolerance in ns: times of an analysis are seconds as floats."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet of interest: its title, time in seconds of the recording, link, file and number in that file.

    ``line`` is a summary, ``headers`` have all fields.
    """

    what: str
    at: float
    link: str
    file: str
    number: int
    line: str
    headers: tuple[ExplainedHeader, ...]


@dataclass
class _Wanted:
    """A packet to be found: the first match of a filter, at a time (ns since 1970) if it is known."""

    what: str
    expression: Expression
    time: int | None = None

    def first_in(self, batch: PacketBatch, names: list[str]) -> int | None:
        """Return its row in a batch; None if it is not there."""
        near: Flags = np.ones(len(batch.time), bool) if self.time is None else np.abs(batch.time - self.time) <= _BLUR
        rows = np.flatnonzero(near)
        found = rows[chosen(self.expression, batch.select(near), names)] if len(rows) else rows
        return int(found[0]) if len(found) else None


def packets_of(recording: Recording) -> tuple[list[Packet], list[str]]:
    """Return the packets of all captures by time, and a line for each capture that cannot be read."""
    found, unread = [], []
    for file in recording.captures:
        try:
            found += list(_of_file(recording, file))
        except (InvalidInput, OSError) as error:
            unread.append(f"captures/{file.name} cannot be read: {str(error).partition(chr(10))[0]}.")
    return sorted(found, key=lambda each: each.at), unread


def _of_file(recording: Recording, file: Path) -> Iterator[Packet]:
    wanted = [_Wanted(what, parse(text)) for what, text in _SORTS.items()]
    began = recording.clock.start + recording.realtime_offset
    with file.open("rb") as stream:
        wanted += _lost(file)
        capture = CaptureFile(stream, str(file))
        for batch in capture:
            for each in list(wanted):
                row = each.first_in(batch, capture.names)
                if row is not None:
                    wanted.remove(each)
                    seen = batch.select(np.arange(len(batch.time)) == row)
                    yield _packet(each.what, file, seen, capture.interfaces[int(seen.interface[0])], began)
            if not wanted:
                return


def _lost(file: Path) -> list[_Wanted]:
    """Return the packet that arrived in place of the first lost one."""
    with file.open("rb") as stream:
        facts = analyse(stream, str(file))
    with file.open("rb") as stream:
        start = next((int(batch.time[0]) for batch in CaptureFile(stream, str(file)) if len(batch.time)), 0)
    for gap in facts.gaps[:1]:
        many = f"PSN {gap.psn}" if gap.count == 1 else f"PSN {gap.psn} and {gap.count - 1} more"
        expression = All((Within(FilterField.QPN, ((gap.qp, gap.qp),)), LinkCondition(gap.link)))
        return [_Wanted(f"{many} was lost: the packet in its place", expression, start + round(gap.time * _NS))]
    return []


def _packet(what: str, file: Path, seen: PacketBatch, interface: Interface, began: int) -> Packet:
    """Convert the single packet of ``seen``; ``began`` is the start of the recording, ns since 1970."""
    from lab.wire.explain.explanation import explain  # noqa: PLC0415 - scapy takes long to import

    start, length = int(seen.start[0]), int(seen.length[0])
    data = seen.data[start : start + int(seen.captured[0])].tobytes()
    rate = interface.speed or None
    return Packet(
        what=what,
        at=(int(seen.time[0]) - began) / _NS,
        link=interface.name,
        file=f"captures/{file.name}",
        number=int(seen.number[0]),
        line=describe(decode(data, length), rate),
        headers=explain(data, length, rate).headers,
    )
