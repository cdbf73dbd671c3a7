"""Read a capture packet by packet, as ``Record`` objects."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from lab.analysis.read.capture_file import CaptureFile
from lab.analysis.read.linktypes import link_name
from lab.errors import InvalidInput, Problem
from lab.wire.pcapng import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.analysis.read.packet_batch import PacketBatch
    from lab.wire.pcapng import Interface, Statistics

_CHUNK: Final = 2**18


class Reader:
    """The packets of ``stream`` in file order. It can be iterated once.

    ``names`` are the unique names of ``interfaces``. ``number`` is that of the last packet returned, from 1. A file
    that is no capture raises InvalidInput. A damaged file raises it after all readable packets, with the list of
    damages.
    """

    def __init__(self, stream: IO[bytes], source: str) -> None:
        self._source = source
        self._capture = CaptureFile(stream, source, _CHUNK)
        self.number = 0

    @property
    def interfaces(self) -> list[Interface]:
        """The interfaces described so far."""
        return self._capture.interfaces

    @property
    def names(self) -> list[str]:
        """The unique names of these interfaces."""
        return self._capture.names

    @property
    def not_decoded(self) -> dict[str, int]:
        """The number of packets so far that are not returned, by their unsupported link type."""
        return {link_name(linktype): count for linktype, count in self._capture.foreign.items()}

    @property
    def statistics(self) -> dict[int, Statistics]:
        """The interface statistics, by interface number."""
        return self._capture.statistics

    def __iter__(self) -> Iterator[Record]:
        for batch in self._capture:
            yield from self._records(batch)
        damages = self._capture.damages
        if damages.count:
            more = damages.count - len(damages.kept)
            problems = [Problem(damage.place, damage.what, "the rest was read") for damage in damages.kept]
            problems += [Problem("", f"and {more} more", "")] if more else []
            raise InvalidInput(self._source, problems)

    def _records(self, batch: PacketBatch) -> Iterator[Record]:
        rows = zip(*(column.tolist() for column in batch[1:]), strict=True)
        for start, captured, length, time, interface, direction, number in rows:
            self.number = number
            yield Record(time, interface, length, direction, batch.data[start : start + captured].tobytes())
