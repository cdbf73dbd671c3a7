"""The rates to which congestion control limited QPs in a run, from the recording's table ``qp_rates``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.report.run_figures import phases_of
from lab.report.timeline_entry import TimelineEntry
from lab.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.row_series import RowKey, RowSeries

_TABLE: Final = "qp_rates"
SOURCE: Final = f"rows/{_TABLE}.parquet"


@dataclass(frozen=True, slots=True)
class ReportedQp:
    """A QP that congestion control limited in the run. Rates are in bit/s on the wire."""

    qp: str
    """The NIC's port and the QPN, for example h1:eth1 QP 0x11."""
    peer: str
    line_rate: int
    cnps: int
    """CNPs that this QP obeyed in the run."""
    lowest: int
    """The lowest rate that was recorded."""
    means: dict[str, float]
    """The mean of its rate by phase; the line rate counts for the time in which it is not limited."""


class QpLimit:
    """The rate limit of one QP at one NIC as a function of time; the line rate while it is not limited."""

    def __init__(self, key: RowKey, rows: RowSeries, line_rate: int) -> None:
        node, interface, qpn = key
        self.port = f"{node}:{interface}"
        self.qpn = int(qpn)
        self.qp = f"{self.port} QP {qpn:#x}"
        self.line_rate = line_rate
        self.peer = str(rows.columns["peer"][-1])
        self.ns = rows.ns
        self.cnps = _cnps(rows.columns)
        self._rates = np.where(rows.columns["limited"] > 0, rows.columns["rate"].astype(np.int64), line_rate)

    @property
    def first(self) -> int:
        """The first recorded rate."""
        return int(self._rates[0])

    @property
    def lowest(self) -> int:
        """The lowest recorded rate."""
        return int(self._rates.min())

    def at(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the limit at each time, in ns of the recording's clock."""
        known = np.concatenate([np.array([self.line_rate], np.int64), self._rates])
        found: NDArray[np.int64] = known[np.searchsorted(self.ns, times, "right")]
        return found

    def mean(self, start: int, end: int) -> float:
        """Return the mean of the limit between two times, in ns."""
        inside = self.ns[(self.ns > start) & (self.ns < end)]
        steps = np.concatenate([np.array([start], np.int64), inside, np.array([end], np.int64)])
        return float((self.at(steps[:-1]) * np.diff(steps).astype(np.float64)).sum() / max(end - start, 1))


def limits_of(recording: Recording) -> list[QpLimit]:
    """Return the limit of each QP that was limited in the run; empty without congestion control."""
    if _TABLE not in recording.grown:
        return []
    rates = {str(end): link.rate for link in recording.topology.links for end in link.ends}
    found = []
    for key, rows in recording.table(_TABLE):
        line_rate = rates.get(f"{key[0]}:{key[1]}", int(rows.columns["target"].max()))
        found.append(QpLimit(key, rows, line_rate))
    return found


def reported_qps(recording: Recording) -> list[ReportedQp]:
    """Return the limited QPs with their means by phase, the one that was limited most first."""
    phases = phases_of(recording)
    found = [
        ReportedQp(
            qp=limit.qp,
            peer=limit.peer,
            line_rate=limit.line_rate,
            cnps=limit.cnps,
            lowest=limit.lowest,
            means={phase.name: limit.mean(phase.start, phase.end) for phase in phases},
        )
        for limit in limits_of(recording)
    ]
    return sorted(found, key=lambda qp: min(qp.means.values()))


def limit_moments(recording: Recording) -> Iterator[TimelineEntry]:
    """Yield a line for each NIC, at the time when congestion control limits its first QP."""
    first: dict[str, QpLimit] = {}
    for limit in limits_of(recording):
        known = first.setdefault(limit.port, limit)
        if limit.ns[0] < known.ns[0]:
            first[limit.port] = limit
    for limit in first.values():
        at = (int(limit.ns[0]) - recording.clock.start) / 1e9
        text = f"{limit.qp} to {limit.peer}: congestion control limits it to {format_rate(limit.first)}"
        yield TimelineEntry(at, text, SOURCE)


def _cnps(columns: Any) -> int:
    """Return the number of CNPs. A limiter counts from 0 each time that it limits its QP again."""
    counts, limited = columns["cnps"].astype(np.int64), columns["limited"] > 0
    before = np.concatenate([np.zeros(1, np.int64), np.where(limited, counts, 0)[:-1]])
    grown = np.where(counts >= before, counts - before, counts)
    return int(grown[limited].sum())
