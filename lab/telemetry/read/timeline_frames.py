"""The content of ``top`` and ``replay`` at any time: of a running fabric, or of a recording."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from lab.errors import OperationFailed
from lab.telemetry.read.dashboard import SHEETS, WINDOW, Dashboard, job_ranks, queue_pairs, requesters, standings
from lab.telemetry.read.recorded_events import RecordedEvent
from lab.telemetry.read.recorded_jobs import jobs_of, recorded_jobs
from lab.telemetry.read.recorded_requests import recorded_requests
from lab.telemetry.sample import qp_rates
from lab.telemetry.sample.queue_pairs import SCHEMA, event_of
from lab.telemetry.store import job_steps
from lab.telemetry.store.rawlog import FrameStream, LogFrameKind, sample_of
from lab.telemetry.store.recording_folder import damage_as_invalid, invalid
from lab.telemetry.store.row_tables import columns_of, unpack
from lab.telemetry.store.sample_layout import CounterTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lab.telemetry.read.counter_tables import CounterTables
    from lab.telemetry.read.dashboard import (
        QueuePairState,
        RankState,
        RequesterState,
        SessionStanding,
        Sheet,
        Snapshot,
    )
    from lab.telemetry.read.recording import Recording
    from lab.telemetry.store.rawlog import LogFrame

_NS: Final = 10**9
_PATIENCE: Final = 10 * _NS
"""How long to wait for the sessions of routers that do not answer, in ns."""
_RATES: Final = 100_000
"""Rows about limited QPs that a live view keeps."""
_STEPS: Final = 10_000
"""Steps of ranks that a live view keeps."""
_KEPT: Final = 600
"""Number of views kept of a running fabric for a port's history: five minutes at two a second."""


class Film(Protocol):
    """A source of views; times are in ns of CLOCK_MONOTONIC."""

    @property
    def name(self) -> str:
        """The name of the fabric or the recording."""

    @property
    def time(self) -> str:
        """The time in which seconds count: "host", or "virtual" in the VM; "" if not known."""

    @property
    def start(self) -> int:
        """The time of the first sample."""

    @property
    def end(self) -> int:
        """The time of the last sample so far."""

    def look(self, sheet: Sheet, at: int) -> Snapshot:
        """Return a sheet's values at the last sample at or before ``at``, with rates over the second before."""

    def history(self, sheet: Sheet, at: int, most: int) -> list[Snapshot]:
        """Return at most ``most`` views until ``at``, the latest first."""

    def standings(self, at: int) -> list[SessionStanding]:
        """Return the routers' sessions at ``at``."""

    def queue_pairs(self, at: int) -> list[QueuePairState]:
        """Return the RDMA devices' queue pairs at ``at``; empty for older recordings, which do not have them."""

    def job_ranks(self, at: int) -> list[RankState]:
        """Return the ranks of training jobs at the last step that had ended at ``at``; empty without a job."""

    def requesters(self, at: int) -> list[RequesterState]:
        """Return the hosts that make requests of a transfer, at ``at``; empty in a live view."""


@dataclass(frozen=True, slots=True)
class _Words:
    """Counters at the time of a live sample, as its words."""

    ns: int
    words: NDArray[np.uint64]
    sections: dict[str, CounterTable]

    def values(self, table: str, column: str) -> NDArray[np.uint64]:
        """Return a column of all rows of a table."""
        section = self.sections[table]
        (wanted,) = (each for each in section.columns if each.name == column)
        rows = np.arange(len(section.rows))
        found: NDArray[np.uint64] = section.values(
            wanted, rows, lambda places: self.words[places][np.newaxis], np.array([self.ns])
        )
        return found.reshape(-1)


@dataclass(frozen=True, slots=True)
class _Sample:
    """Counters at the time of a recorded sample."""

    ns: int
    counted: CounterTables
    number: int

    def values(self, table: str, column: str) -> NDArray[np.uint64]:
        """Return a column of all rows of a table."""
        return self.counted.at(table, column, self.number)


class LiveFilm:
    """A running fabric, from the log that its sampler writes; ``feed`` takes the log in pieces.

    It only has the present, and the past views that were computed.
    """

    def __init__(self) -> None:
        self._stream = FrameStream()
        self._sections: dict[str, CounterTable] = {}
        self._board: Dashboard | None = None
        self._words = np.zeros(0, np.uint64)
        self._moments: deque[_Words] = deque()
        self._looks: dict[str, deque[Snapshot]] = {}
        self._events: list[RecordedEvent] = []
        self._rates: deque[tuple[int, dict[str, Any]]] = deque(maxlen=_RATES)
        self._steps: deque[tuple[int, dict[str, Any]]] = deque(maxlen=_STEPS)
        self._known_from: int | None = None
        self.name = ""
        self.time = ""
        self.start = 0

    def feed(self, data: bytes) -> None:
        """Process the next output of the sampler; OperationFailed if it is not a sampler's log."""
        try:
            for frame in self._stream.feed(data):
                self._take(frame)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise OperationFailed(
                "the sampler's output cannot be read", "run rocelab --no-vm top where the fabric runs"
            ) from error

    @property
    def begun(self) -> bool:
        """Whether a sample has arrived."""
        return bool(self._moments)

    @property
    def whole(self) -> bool:
        """Whether samples of a whole window exist, and all routers have answered or timed out."""
        passed = self.end - self.start
        answered = self._known_from is not None and self.end >= self._known_from
        return self.begun and passed >= WINDOW and (answered or passed >= _PATIENCE)

    @property
    def end(self) -> int:
        """The time of the last sample."""
        return self._moments[-1].ns if self._moments else self.start

    def look(self, sheet: Sheet, at: int) -> Snapshot:
        """Return the current values, and keep them for the history; for an earlier ``at``, the view kept then."""
        kept = self._looks.setdefault(sheet.name, deque(maxlen=_KEPT))
        if past := self.history(sheet, at, 1) if at < self.end else []:
            return past[0]
        if not kept or kept[-1].ns != self.end:
            now = self._moments[-1]
            assert self._board is not None  # noqa: S101 - the header came before the sample
            kept.append(self._board.look(sheet, now, self._moments[0]))
        return kept[-1]

    def history(self, sheet: Sheet, at: int, most: int) -> list[Snapshot]:
        """Return the kept views until ``at``."""
        past = [look for look in self._looks.get(sheet.name, ()) if look.ns <= at]
        return past[::-1][:most]

    def standings(self, at: int) -> list[SessionStanding]:
        """Return the routers' sessions at ``at``."""
        return standings(self._events, at)

    def queue_pairs(self, at: int) -> list[QueuePairState]:
        """Return the RDMA devices' queue pairs at ``at``."""
        return queue_pairs(self._events, at, self._rates)

    def job_ranks(self, at: int) -> list[RankState]:
        """Return the ranks of training jobs at the last step that had ended at ``at``."""
        return job_ranks(jobs_of(self._steps), at)

    def requesters(self, at: int) -> list[RequesterState]:  # noqa: ARG002 - as in a recording
        """Return nothing: a transfer reports its requests at its end."""
        return []

    def _take(self, frame: LogFrame) -> None:
        if frame.kind == LogFrameKind.HEADER:
            self._begin(json.loads(bytes(frame.data)))
        elif frame.kind == LogFrameKind.SAMPLE:
            self._take_sample(frame)
        elif frame.kind == LogFrameKind.EVENT:
            self._take_event(frame.ns, json.loads(bytes(frame.data)))
        elif frame.kind == LogFrameKind.ROWS:
            schema, rows = unpack(frame.data)
            told = columns_of(schema, np.full(len(rows), frame.ns), rows).dicts()
            if schema.table == SCHEMA.table:
                for row in told:
                    self._take_event(frame.ns, event_of(row))
            elif schema.table == qp_rates.SCHEMA.table:
                self._rates.extend((frame.ns, row) for row in told)
            elif schema.table == job_steps.SCHEMA.table:
                self._steps.extend((row["begin"] + row["compute"] + row["communication"], row) for row in told)

    def _take_event(self, ns: int, told: dict[str, Any]) -> None:
        known = {name: str(told.pop(name, "")) for name in ("source", "kind", "node", "interface")}
        if known["kind"] == "sessions_known":
            self._known_from = ns
        self._events.append(RecordedEvent(ns, (ns - self.start) / _NS, **known, data=told))

    def _begin(self, header: dict[str, Any]) -> None:
        self.name, self.time = header["fabric"], header.get("time", "")
        self._sections = {data["table"]: CounterTable.from_data(data) for data in header["sections"]}
        columns = {name: [column.name for column in each.columns] for name, each in self._sections.items()}
        self._board = Dashboard(lambda table: self._sections[table].rows, columns)
        highest = max((int(each.words.max()) for each in self._sections.values() if each.words.size), default=-1)
        self._words = np.zeros(highest + 1, np.uint64)

    def _take_sample(self, frame: LogFrame) -> None:
        sample = sample_of(frame)
        used = sample.places < len(self._words)
        self._words = self._words.copy()
        self._words[sample.places[used]] = sample.words[used]
        self.start = self.start or sample.ns
        self._moments.append(_Words(sample.ns, self._words, self._sections))
        while len(self._moments) > 1 and self._moments[1].ns <= sample.ns - WINDOW:
            self._moments.popleft()


def _rates_of(recording: Recording) -> list[tuple[int, dict[str, Any]]]:
    """Return times and rows of limited QPs; nothing for recordings without congestion control."""
    if qp_rates.SCHEMA.table not in recording.grown:
        return []
    rows = recording.table(qp_rates.SCHEMA.table).rows
    return list(zip(rows.ns.tolist(), rows.dicts(), strict=True))


class RecordedFilm:
    """A recording, with random access to any time."""

    def __init__(self, recording: Recording) -> None:
        """InvalidInput if the recording has no samples, or is damaged."""
        self.recording = recording
        self._counted = recording.counted
        self.times: NDArray[np.int64] = recording.samples["ns"]
        if not len(self.times):
            raise invalid(recording.folder.path, "has no samples")
        with damage_as_invalid(recording.folder.path):
            columns = {name: self._counted.columns(name) for name in self._counted.tables}
            self._board = Dashboard(self._counted.keys, columns)
            self._told = [*recording.events(source="routing"), *recording.events(source="rdma")]
            self._rates = _rates_of(recording)
            self._jobs = recorded_jobs(recording)
            self._transfers = recorded_requests(recording)
            for sheet in SHEETS:  # report damage now, not during playback
                self.look(sheet, self.end)
            self.queue_pairs(self.end)
            self.standings(self.end)

    @property
    def name(self) -> str:
        """The name of the recording."""
        return self.recording.name

    @property
    def time(self) -> str:
        """The time in which seconds count: "host", "virtual", or "" if not known."""
        return self.recording.time

    @property
    def start(self) -> int:
        """The time of the first sample."""
        return int(self.times[0])

    @property
    def end(self) -> int:
        """The time of the last sample."""
        return int(self.times[-1])

    def number(self, at: int) -> int:
        """Return the index of the last sample at or before ``at``; 0 if all are later."""
        return max(0, int(np.searchsorted(self.times, at, "right")) - 1)

    def look(self, sheet: Sheet, at: int) -> Snapshot:
        """Return a sheet's values at the last sample at or before ``at``."""
        now = self._sample(at)
        return self._board.look(sheet, now, self._sample(now.ns - WINDOW))

    def history(self, sheet: Sheet, at: int, most: int) -> list[Snapshot]:
        """Return a view for each sample until ``at``, the latest first."""
        last = self.number(at)
        return [self.look(sheet, int(self.times[number])) for number in range(last, max(-1, last - most), -1)]

    def standings(self, at: int) -> list[SessionStanding]:
        """Return the routers' sessions at ``at``."""
        return standings(self._told, at)

    def queue_pairs(self, at: int) -> list[QueuePairState]:
        """Return the RDMA devices' queue pairs at ``at``."""
        return queue_pairs(self._told, at, self._rates)

    def job_ranks(self, at: int) -> list[RankState]:
        """Return the ranks of training jobs at the last step that had ended at ``at``."""
        return job_ranks(self._jobs, at)

    def requesters(self, at: int) -> list[RequesterState]:
        """Return the hosts that make requests of a transfer, at ``at``."""
        return requesters(self._transfers, at)

    def _sample(self, at: int) -> _Sample:
        number = self.number(at)
        return _Sample(int(self.times[number]), self._counted, number)
