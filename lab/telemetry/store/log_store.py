"""A recording's log as tables and events: the source of its Parquet files, and of reads before those exist."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.errors import InvalidInput, Problem
from lab.telemetry.sample.kernel_events import KernelNews
from lab.telemetry.store.port_event_frames import PortEventFrames
from lab.telemetry.store.rawlog import LogFrameKind, Sample, frames, sample_of
from lab.telemetry.store.recording_folder import damage_as_invalid
from lab.telemetry.store.row_tables import RowFrames
from lab.telemetry.store.sample_layout import CounterTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from lab.telemetry.store.rawlog import LogFrame
    from lab.telemetry.store.row_tables import RowColumns

_ALL: Final = 1 << 62


class SampleWindow:
    """Consecutive samples: the value of any word at each of them."""

    def __init__(self, ns: NDArray[np.int64], touched: NDArray[np.int64], values: NDArray[np.uint64]) -> None:
        self.ns = ns
        self._touched, self._values = touched, values

    def words(self, places: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return a row for each sample, with the words at ``places``; words that never changed are 0."""
        at = np.searchsorted(self._touched, places)
        at[at == len(self._touched)] = 0
        if not len(self._touched):
            return np.zeros((len(self.ns), len(places)), np.uint64)
        found: NDArray[np.uint64] = self._values[:, at]
        found[:, self._touched[at] != places] = 0
        return found


class LogStore:
    """The content of a log, ordered by time."""

    def __init__(self, path: Path) -> None:
        """InvalidInput if it is no log, or has frames that no recorder writes; OSError if it cannot be read."""
        self._samples: list[Sample] = []
        self._events: list[dict[str, Any]] = []
        self._port_events: list[memoryview] = []
        self._news: list[tuple[int, memoryview]] = []
        self._rows = RowFrames()
        whole = frames(path)
        with damage_as_invalid(path):
            self.header = self._header(path, next(whole, None))
            self.sections = {data["table"]: CounterTable.from_data(data) for data in self.header["sections"]}
            for frame in whole:
                self._take(frame)
        places = [sample.places for sample in self._samples]
        self._touched = np.unique(np.concatenate(places)).astype(np.int64) if places else np.zeros(0, np.int64)

    def _take(self, frame: LogFrame) -> None:
        if frame.kind == LogFrameKind.SAMPLE:
            self._samples.append(sample_of(frame))
        elif frame.kind == LogFrameKind.PORT_EVENTS:
            self._port_events.append(frame.data)
        elif frame.kind == LogFrameKind.KERNEL_NEWS:
            self._news.append((frame.ns, frame.data))
        elif frame.kind == LogFrameKind.EVENT:
            self._events.append({"ns": frame.ns, **json.loads(bytes(frame.data))})
        elif frame.kind == LogFrameKind.ROWS:
            self._rows.add(frame.ns, frame.data)

    @staticmethod
    def _header(path: Path, frame: Any) -> dict[str, Any]:
        if frame is None or frame.kind != LogFrameKind.HEADER:
            raise InvalidInput(str(path), [Problem("", "has no samples: it is empty or damaged", "record again")])
        header: dict[str, Any] = json.loads(bytes(frame.data))
        return header

    @property
    def samples(self) -> dict[str, NDArray[np.int64]]:
        """The times of each sample in ns: when it was taken, when it was due, and its duration."""
        return {
            name: np.array([getattr(sample, name) for sample in self._samples], np.int64)
            for name in ("ns", "due", "took")
        }

    def rows(self, table: str) -> NDArray[np.int64]:
        """Return the row indices of a table. Tables with numbered rows only have those that ever counted."""
        section = self.sections[table]
        if not section.numbers:
            return np.arange(len(section.rows))
        return np.flatnonzero(np.isin(section.words, self._touched).any(axis=1))

    def windows(self, most: int = _ALL) -> Iterator[SampleWindow]:
        """Yield the samples in pieces of about ``most`` bytes."""
        width = max(1, len(self._touched))
        step = max(1, most // (width * 8))
        state = np.zeros(len(self._touched), np.uint64)
        for start in range(0, len(self._samples), step):
            piece = self._samples[start : start + step]
            values = np.empty((len(piece), len(self._touched)), np.uint64)
            for number, sample in enumerate(piece):
                state[np.searchsorted(self._touched, sample.places)] = sample.words
                values[number] = state
            yield SampleWindow(np.array([sample.ns for sample in piece], np.int64), self._touched, values)

    def column(self, table: str, name: str) -> NDArray[np.uint64]:
        """Return all values of a column: for each sample, those of the table's ``rows``."""
        section = self.sections[table]
        (column,) = (column for column in section.columns if column.name == name)
        rows = self.rows(table)
        found = [section.values(column, rows, window.words, window.ns) for window in self.windows()]
        return found[0] if found else np.zeros((0, len(rows)), np.uint64)

    @cached_property
    def row_tables(self) -> dict[str, RowColumns]:
        """The row tables, by name."""
        return self._rows.tables()

    def events(self) -> list[dict[str, Any]]:
        """Return the events of ports, kernel and routers, ordered by time."""
        told = [*self._events, *self._told_by_ports(), *self._told_by_kernel()]
        return sorted(told, key=lambda event: int(event["ns"]))

    def _told_by_ports(self) -> Iterator[dict[str, Any]]:
        described = self.header["port_events"]
        if described is None:
            return
        frames_of_ports = PortEventFrames(described)
        for data in self._port_events:
            yield from frames_of_ports.events(data)

    def _told_by_kernel(self) -> Iterator[dict[str, Any]]:
        heard = KernelNews(self.header["nodes"])
        for ns, data in self._news:
            yield from heard.events(ns, int.from_bytes(data[:2], "little"), bytes(data[2:]))


def described(log: LogStore) -> dict[str, Any]:
    """Return the keys of a log's tables, and their columns with whether they are gauges."""
    return {
        name: {"keys": section.keys, "columns": {column.name: column.gauge for column in section.columns}}
        for name, section in log.sections.items()
    }
