"""A ring of pcapng files in bounded space: a full file is followed by a new one, and the oldest is removed."""

from __future__ import annotations

from io import FileIO
from typing import TYPE_CHECKING, Final, Self

from lab.errors import OperationFailed, writing
from lab.wire.pcapng import MAX_SNAPLEN, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import TracebackType

    from lab.wire.pcapng import Interface, Record, Statistics

SMALLEST: Final = 4 * MAX_SNAPLEN
"""Bytes of one file: room for the interface descriptions, and for any packet."""
_PER_PACKET: Final = 48  # bytes of a packet's block besides its data, at most
_PER_STATISTICS: Final = 128


class RingWriter:
    """Writes like ``Writer``, into ``capture_00001.pcapng``, ``capture_00002.pcapng`` ... beside ``path``.

    There are at most ``files`` of them, each of at most ``size`` bytes (at least ``SMALLEST``). Each is a complete
    capture, and the last one has the statistics. Use it as a context manager, as it opens files.
    """

    def __init__(self, path: Path, files: int, size: int, select: str = "") -> None:
        self._path = path
        self._files = files
        self._size = size
        self._filter = select
        self._number = 0
        self._interfaces: list[Interface] = []
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def paths(self) -> list[Path]:
        """The existing files, the oldest first."""
        return [self._named(number) for number in range(max(1, self._number - self._files + 1), self._number + 1)]

    def _named(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.stem}_{number:05}{self._path.suffix}")

    def _open(self) -> None:
        """Begin the next file. The oldest is removed first, to make room for it."""
        self._number += 1
        path = self._named(self._number)
        if self._number == 1:
            with writing(path):
                self._file = FileIO(path, "w")
        else:
            self._replace_oldest(path)
        self._writer = Writer(self._file, select=self._filter)
        for interface in self._interfaces:
            self._writer.add_interface(interface)

    def add_interface(self, interface: Interface) -> int:
        """Describe an interface, in this file and all later ones."""
        self._interfaces.append(interface)
        return self._writer.add_interface(interface)

    def write(self, records: Iterable[Record]) -> None:
        """Write packets, in the order given, into as many files as needed."""
        batch: list[Record] = []
        used = self._used()
        for record in records:
            cost = len(record.data) + _PER_PACKET
            if used + cost > self._size:
                self._writer.write(batch)
                batch.clear()
                self._file.close()
                self._open()
                used = self._used()
            used += cost
            batch.append(record)
        self._writer.write(batch)
        batch.clear()

    def _used(self) -> int:
        return self._writer.written + _PER_STATISTICS * len(self._interfaces)

    def write_statistics(self, interface: int, statistics: Statistics) -> None:
        """Write the total counters of an interface; once for each interface, at the end."""
        self._writer.write_statistics(interface, statistics)

    def _replace_oldest(self, path: Path) -> None:
        try:
            if self._number > self._files:
                self._named(self._number - self._files).unlink(missing_ok=True)
            self._file = FileIO(path, "w")
        except OSError as error:
            raise OperationFailed(
                f"cannot write {path}: {error.strerror}", "everything before that is valid"
            ) from error
