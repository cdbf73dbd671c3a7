"""The tables of ``top`` and ``replay``: a line for each port and RDMA device, with rates over the last second.

A table is computed from two sets of counters, live ones or those of a recording.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from lab.telemetry.read import measures
from lab.telemetry.read.followed_sessions import SessionStates
from lab.telemetry.read.window_measure import LINK_TABLE, OWNER_TABLES, MeasureScope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from lab.telemetry.read.counter_tables import Key
    from lab.telemetry.read.followed_sessions import SessionKey
    from lab.telemetry.read.recorded_events import RecordedEvent
    from lab.telemetry.read.recorded_jobs import RecordedJob, RecordedRankStep, RecordedStep
    from lab.telemetry.read.recorded_requests import RecordedTransfer
    from lab.telemetry.read.window_measure import Measure

_NS: Final = 10**9
WINDOW: Final = _NS
"""The interval over which rates are computed, in ns."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table on the screen: the recorder's tables that name its lines, and its columns."""

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
    """All counters at the time ``ns`` of CLOCK_MONOTONIC."""

    @property
    def ns(self) -> int:
        """The time, in ns of CLOCK_MONOTONIC."""

    def values(self, table: str, column: str) -> NDArray[np.uint64]:
        """Return a column: a value for each row."""


@dataclass(frozen=True, eq=False, slots=True)
class Snapshot:
    """The values of one sheet at one time: a row for each of ``names``, a column for each of ``measures``.

    A value that does not exist, like the queue of a plain link, is NaN.
    """

    ns: int
    seconds: float
    """The interval of the rates; less than a second at the beginning of a recording."""
    names: tuple[str, ...]
    measures: tuple[Measure, ...]
    values: NDArray[np.float64]

    def of(self, name: str) -> Mapping[str, float]:
        """Return the values of one line by their names; raise KeyError if there is no such line."""
        if name not in self.names:
            raise KeyError(name)
        row = self.values[self.names.index(name)].tolist()
        return {measure.name: value for measure, value in zip(self.measures, row, strict=True)}


class Dashboard:
    """The sheets of one fabric; the mapping of recorder rows to lines is computed once."""

    def __init__(self, rows: Callable[[str], Sequence[Key]], columns: Mapping[str, Collection[str]]) -> None:
        """``rows`` returns the keys of a table's rows, ``columns`` has the counters of each table that exists."""
        self._rows, self._columns = rows, columns
        self._names = {
            sheet.name: tuple(f"{key[0]}:{key[1]}" for table in sheet.keys if table in columns for key in rows(table))
            for sheet in SHEETS
        }
        self._lines: dict[tuple[str, str], NDArray[np.int64]] = {}

    def look(self, sheet: Sheet, now: CounterMoment, before: CounterMoment) -> Snapshot:
        """Return the values of a sheet; rates are those since ``before``, and 0 if both are the same time."""
        names = self._names[sheet.name]
        seconds = (now.ns - before.ns) / _NS
        columns = [self._column(sheet, measure, now, before) for measure in sheet.measures]
        values = np.stack(columns, axis=1) if names else np.zeros((0, len(columns)))
        return Snapshot(ns=now.ns, seconds=seconds, names=names, measures=sheet.measures, values=values)

    def _column(
        self, sheet: Sheet, measure: Measure, now: CounterMoment, before: CounterMoment
    ) -> NDArray[np.float64]:
        """Return a measure of each line: the sum or the maximum of its rows, NaN without rows."""
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
        """Return, for each row of a table, the index of its line in a sheet."""
        if (sheet.name, table) not in self._lines:
            places = {name: number for number, name in enumerate(self._names[sheet.name])}
            lines = [places[f"{key[0]}:{key[1]}"] for key in self._rows(table)]
            self._lines[sheet.name, table] = np.array(lines, np.int64)
        return self._lines[sheet.name, table]


@dataclass(frozen=True, slots=True)
class SessionStanding:
    """The state of a routing or BFD session: its router, interface, protocol, and since when (ns)."""

    node: str
    interface: str
    protocol: str
    state: str
    since: int
    changes: int
    """Number of changes since the first observation."""
    exact: bool = True
    """Whether ``since`` is the time of the change. False if the session was already in this state when first
    observed.
    """


def standings(events: Iterable[RecordedEvent], at: int) -> list[SessionStanding]:
    """Return the state of all sessions at time ``at`` (ns), from the events of the routers."""
    found: dict[SessionKey, SessionStanding] = {}
    states = SessionStates()
    for event in events:
        if event.ns > at or event.source != "routing":
            continue
        age, before = event.data.get("age"), event.data.get("before")
        for key, state in states.take(event.kind, event.node, event.interface, event.data).items():
            node, interface, protocol = key
            found[key] = SessionStanding(
                node=node,
                interface=interface,
                protocol=protocol,
                state=state,
                since=event.ns - round(float(age or 0) * _NS),
                changes=found[key].changes + 1 if key in found else 0,
                exact=bool(before) or age is not None or "state" not in event.data,
            )
    return sorted(found.values(), key=lambda each: (each.node, each.interface, each.protocol))


@dataclass(frozen=True, slots=True)
class RankState:
    """A rank of a training job at its last step: times are in seconds."""

    job: str
    rank: int
    node: str
    interface: str
    step: int
    step_time: float
    share: float
    """Communication divided by the step, 0 to 1."""
    waiting: float
    late: float
    """The begin of its communication after that of the median rank; negative if it was earlier."""
    straggler: bool
    """Whether it was the last rank to begin the communication of that step."""
    ended: int
    """The end of the step, in ns."""


def job_ranks(jobs: Iterable[RecordedJob], at: int) -> list[RankState]:
    """Return the ranks of all jobs at the last step that every rank had ended at time ``at`` (ns)."""
    ended = [(job.name, [step for step in job.steps if step.end <= at]) for job in jobs]
    return [rank for name, steps in ended if steps for rank in step_ranks(name, steps[-1])]


def step_ranks(job: str, step: RecordedStep) -> list[RankState]:
    """Return the ranks of a job at one step."""
    return [_rank_state(job, step, each) for each in step.ranks]


def _rank_state(job: str, step: RecordedStep, of: RecordedRankStep) -> RankState:
    return RankState(
        job=job,
        rank=of.rank,
        node=of.node,
        interface=of.interface,
        step=of.step,
        step_time=of.seconds,
        share=of.share,
        waiting=of.waiting / _NS,
        late=of.late / _NS,
        straggler=of is step.straggler,
        ended=of.end,
    )


@dataclass(frozen=True, slots=True)
class RequesterState:
    """A host that makes the requests of a transfer: times are in seconds."""

    transfer: str
    node: str
    interface: str
    complete: int
    """Its complete requests."""
    under_way: int
    """Its requests that had begun, and were not complete."""
    last: float
    """The duration of its last complete request; 0 without one."""
    mean: float
    """The mean duration of its complete requests; 0 without one."""
    target: str
    """The NIC of the other host in the request that began last."""


def requesters(transfers: Iterable[RecordedTransfer], at: int) -> list[RequesterState]:
    """Return the hosts whose requests had begun at time ``at`` (ns), of all transfers."""
    found = []
    for transfer in transfers:
        for requests in transfer.by_nic().values():
            begun = [each for each in requests if each.begin <= at]
            ended = [each for each in begun if each.end <= at]
            if begun:
                found.append(
                    RequesterState(
                        transfer=transfer.name,
                        node=begun[0].node,
                        interface=begun[0].interface,
                        complete=len(ended),
                        under_way=len(begun) - len(ended),
                        last=ended[-1].seconds if ended else 0.0,
                        mean=fmean(each.seconds for each in ended) if ended else 0.0,
                        target=max(begun, key=lambda each: each.begin).target_nic,
                    )
                )
    return found


@dataclass(frozen=True, slots=True)
class QueuePairState:
    """The state of a queue pair: its device, remote QPN, owning program, and since when (ns).

    ``rate`` in bit/s if congestion control limits it.
    """

    node: str
    interface: str
    qpn: int
    kind: str
    remote: int | None
    state: str
    program: str
    since: int
    rate: int | None = None


def queue_pairs(
    events: Iterable[RecordedEvent], at: int, rates: Iterable[tuple[int, Mapping[str, Any]]] = ()
) -> list[QueuePairState]:
    """Return all queue pairs that existed at time ``at`` (ns), from the kernel's events.

    ``rates`` are times and rows of ``qp_rates``, in the order of time.
    """
    found: dict[tuple[str, str, int], QueuePairState] = {}
    for event in events:
        if event.ns > at or (event.source, event.kind) != ("rdma", "qp"):
            continue
        key, told = (event.node, event.interface, int(event.data["qpn"])), event.data
        if told["state"] == "gone":
            found.pop(key, None)
        else:
            found[key] = QueuePairState(
                node=event.node,
                interface=event.interface,
                qpn=int(told["qpn"]),
                kind=told["type"],
                remote=told["remote"],
                state=told["state"],
                program=told["program"],
                since=event.ns,
            )
    for ns, row in rates:
        key = (row["node"], row["interface"], row["qpn"])
        if ns <= at and key in found:
            found[key] = replace(found[key], rate=row["rate"] if row["limited"] else None)
    return sorted(found.values(), key=lambda each: (each.node, each.interface, each.qpn))
