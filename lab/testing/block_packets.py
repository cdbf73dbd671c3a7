"""Packets captured during a block, counted by filters."""

from __future__ import annotations

import contextlib
from functools import partial
from io import FileIO
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode.filter_columns import chosen
from lab.analysis.read.capture_file import CaptureFile as Reader
from lab.backends.capture_points import points_of
from lab.errors import UsageError
from lab.kernel.packets.live_capture import LiveCapture
from lab.model.hosts import addresses_of
from lab.testing.count import MOST, Count
from lab.wire import frame
from lab.wire.filter.parse import parse
from lab.wire.pcapng import Writer
from lab.wire.summary import describe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.analysis.read.packet_batch import PacketBatch
    from lab.backends.backend import Fabric

_NS: Final = 10**9


class Packets:
    """A capture, whose file can be opened in Wireshark."""

    def __init__(self, fabric: Fabric, file: Path, links: tuple[str, ...]) -> None:
        self.file = file
        self.ended = False
        self._fabric = fabric
        self._links = links

    def count(self, wanted: str = "") -> Count:
        """Return the number of packets that match a filter, or of all packets.

        Filters are those of ``rocelab capture --filter``, for example ``nak and host h1``. Raises UsageError while
        the capture runs, and for an invalid filter.
        """
        if not self.ended:
            raise UsageError("packets are counted when the capture has ended", "ask behind the with block")
        expression = parse(wanted, partial(addresses_of, self._fabric.plan)) if wanted else None
        found, lines = 0, list[str]()
        first: int | None = None
        with self.file.open("rb") as stream:
            reader = Reader(stream, str(self.file))
            for batch in reader:
                first = int(batch.time[0]) if first is None else first
                names = reader.names
                let_through = (
                    np.ones(len(batch.time), np.bool_) if expression is None else chosen(expression, batch, names)
                )
                rows = np.flatnonzero(let_through).tolist()
                found += len(rows)
                lines += [_line(batch, row, names, first) for row in rows[: MOST - len(lines)]]
        what = f"packets like {wanted}" if wanted else "packets"
        if found > MOST:
            lines[MOST - 1 :] = [f"... and {found - MOST + 1} more in {self.file}"]
        return Count(found, f"{what} at {', '.join(self._links)}", lines)


def _line(batch: PacketBatch, row: int, names: list[str], first: int) -> str:
    begin = int(batch.start[row])
    octets = batch.data[begin : begin + int(batch.captured[row])].tobytes()
    seconds = (int(batch.time[row]) - first) / _NS
    told = describe(frame.decode(octets, int(batch.length[row])))
    return f"{int(batch.number[row])}  {seconds:.6f} s  {names[int(batch.interface[row])]}  {told}"


@contextlib.contextmanager
def capturing(fabric: Fabric, file: Path, links: tuple[str, ...], wanted: str) -> Iterator[Packets]:
    """Capture packets of links for the length of the block; ``wanted`` is a capture filter."""
    expression = parse(wanted, partial(addresses_of, fabric.plan)) if wanted else None
    packets = Packets(fabric, file, links)
    with (
        FileIO(file, "xb") as sink,
        LiveCapture(points_of(fabric, links), Writer(sink), wanted=expression) as capture,
    ):
        capture.start()
        try:
            yield packets
        finally:
            capture.stop()
            packets.ended = True
