"""What an operator looks at, out of all that is counted: a line for each port and device, over the last second.

It is made of two moments, and does not care whether they are of now or of a recording.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from lab.telemetry.read import measures
from lab.telemetry.read.measures import LINK_TABLE, OWNER_TABLES, MeasureScope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from lab.telemetry.read.counter_tables import Key
    from lab.telemetry.read.measures import Measure
    from lab.telemetry.read.recording import RecordedEvent

_NS: Final = 10**9
WINDOW: Final = _NS
"""Over how long rates are taken."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table that is shown: the recorder's tables that name its lines, and its columns."""

    name: str
    keys: tuple[str, ...]
    measures: tuple[Measure, ...]


PORTS: Final = Sheet("ports", (MeasureScope.PORT.table, LINK_TABLE), (
    measures.TX_RATE, measures.RX_RATE, measures.QUEUE_BYTES, measures.PAUSED, measures.XOFF_RX_RATE,
    measures.XOFF_TX_RATE, measures.MARK_RATE, measures.DROP_RATE,
))  # fmt: skip
DEVICES: Final = Sheet("devices", (MeasureScope.DEVICE.table,), (
    measures.RDMA_TX_RATE, measures.RDMA_RX_RATE, measures.RDMA_TX_PACKET_RATE, measures.RDMA_RX_PACKET_RATE,
    measures.GAP_RATE, measures.NAK_RATE, measures.DUPLICATE_RATE, measures.RETRY_RATE,
))  # fmt: skip
SHEETS: Final = (PORTS, DEVICES)


class CounterMoment(Protocol):
    """All counters as they were at ``ns`` of CLOCK_MONOTONIC."""

    @property
    def ns(self) -> int:
        """When."""

    def values(self, table: str, column: str) -> NDArray[np.uint64]:
        """A column of all rows."""


@dataclass(frozen=True, eq=False, slots=True)
class Snapshot:
    """The figures of one sheet at one moment: a row for each of ``names``, a column for each of ``measures``.

    A figure that there is none of, as of a plain link's queue, is not a number.
    """

    ns: int
    seconds: float
    """Over how long rates were taken: less than a second where a recording has only begun."""
    names: tuple[str, ...]
    measures: tuple[Measure, ...]
    values: NDArray[np.float64]

    def of(self, name: str) -> Mapping[str, float]:
        """The figures of one line, by their names; KeyError when there is no such line."""
        if name not in self.names:
            raise KeyError(name)
        row = self.values[self.names.index(name)].tolist()
        return {measure.name: value for measure, value in zip(self.measures, row, strict=True)}


class Dashboard:
    """The sheets of one fabric: which rows of the recorder's tables make up which line, found once."""

    def __init__(self, rows: Callable[[str], Sequence[Key]], columns: Mapping[str, Collection[str]]) -> None:
        """``rows`` tells the keys of a table's rows, ``columns`` the counters of each table that there is."""
        self._rows, self._columns = rows, columns
        self._names = {
            sheet.name: tuple(f"{key[0]}:{key[1]}" for table in sheet.keys if table in columns for key in rows(table))
            for sheet in SHEETS
        }
        self._lines: dict[tuple[str, str], NDArray[np.int64]] = {}

    def look(self, sheet: Sheet, now: CounterMoment, before: CounterMoment) -> Snapshot:
        """The figures of a sheet; rates are those since ``before``, and 0 where that is no other moment."""
        names = self._names[sheet.name]
        seconds = (now.ns - before.ns) / _NS
        columns = [self._column(sheet, measure, now, before) for measure in sheet.measures]
        values = np.stack(columns, axis=1) if names else np.zeros((0, len(columns)))
        return Snapshot(now.ns, seconds, names, sheet.measures, values)

    def _column(
        self, sheet: Sheet, measure: Measure, now: CounterMoment, before: CounterMoment
    ) -> NDArray[np.float64]:
        """A measure of each line: its rows' values added up, or the highest of them; not a number without rows."""
        found = np.full(len(self._names[sheet.name]), np.nan)
        counters = [(table, column) for table, column in measure.columns if column in self._columns.get(table, ())]
        for table, _ in counters:
            found[self._lines_of(sheet, OWNER_TABLES.get(table, table))] = 0
        gather = np.maximum.at if measure.highest else np.add.at
        ns = np.array([before.ns, now.ns])
        for table, column in counters:
            samples = np.stack([before.values(table, column), now.values(table, column)])
            gather(found, self._lines_of(sheet, table), measure.reduce(samples, ns))
        return found

    def _lines_of(self, sheet: Sheet, table: str) -> NDArray[np.int64]:
        """To which line of a sheet each row of a table belongs."""
        if (sheet.name, table) not in self._lines:
            places = {name: number for number, name in enumerate(self._names[sheet.name])}
            lines = [places[f"{key[0]}:{key[1]}"] for key in self._rows(table)]
            self._lines[sheet.name, table] = np.array(lines, np.int64)
        return self._lines[sheet.name, table]


@dataclass(frozen=True, slots=True)
class SessionStanding:
    """How a session is: of which router, over which interface, and since when (ns), as far as anybody saw."""

    node: str
    interface: str
    protocol: str
    state: str
    since: int
    changes: int
    """How often it has changed since somebody first looked."""
    exact: bool = True
    """Whether ``since`` is when it came to be so; False where that was before anybody looked, at an unknown time."""


def standings(events: Iterable[RecordedEvent], at: int) -> list[SessionStanding]:
    """All sessions as routers had told of them by then."""
    found: dict[tuple[str, str, str], SessionStanding] = {}
    for event in events:
        if event.ns <= at and event.source == "routing" and "state" in event.data:
            key = (event.node, event.interface, event.kind)
            changes = found[key].changes + 1 if key in found else 0
            age, before = event.data.get("age"), event.data.get("before")
            since = event.ns - round(float(age or 0) * _NS)
            found[key] = SessionStanding(
                *key, str(event.data["state"]), since, changes, exact=bool(before) or age is not None
            )
    return sorted(found.values(), key=lambda each: (each.node, each.interface, each.protocol))


@dataclass(frozen=True, slots=True)
class QueuePairState:
    """How a queue pair is: of which device, to which at the far end, whose, and since when (ns), as was seen."""

    node: str
    interface: str
    qpn: int
    kind: str
    remote: int | None
    state: str
    program: str
    since: int


def queue_pairs(events: Iterable[RecordedEvent], at: int) -> list[QueuePairState]:
    """All queue pairs that there were then, as the kernel had told of them."""
    found: dict[tuple[str, str, int], QueuePairState] = {}
    for event in events:
        if event.ns > at or (event.source, event.kind) != ("rdma", "qp"):
            continue
        key, told = (event.node, event.interface, int(event.data["qpn"])), event.data
        if told["state"] == "gone":
            found.pop(key, None)
        else:
            found[key] = QueuePairState(*key, told["type"], told["remote"], told["state"], told["program"], event.ns)
    return sorted(found.values(), key=lambda each: (each.node, each.interface, each.qpn))
