"""The transfers of a recording that ``rocelab job transfer`` made, request by request.

::

    for transfer in recorded_requests(recording):
        for request in transfer.requests:
            print(request.node, request.target, request.seconds)

Times are in ns of CLOCK_MONOTONIC.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.telemetry.store.job_requests import SCHEMA
from lab.telemetry.store.recording_folder import damage_as_invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lab.telemetry.read.recording import Recording

_NS: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """One request of a host."""

    node: str
    interface: str
    number: int
    """From 1, of this host."""
    target: str
    target_interface: str
    verb: str
    """``write`` to the target, or ``read`` from it."""
    size: int
    """Bytes."""
    begin: int
    end: int
    """When its last byte was acknowledged, or had arrived."""

    @property
    def nic(self) -> str:
        """The NIC of the host that made it, ``h1:eth1``."""
        return f"{self.node}:{self.interface}"

    @property
    def target_nic(self) -> str:
        """The NIC of the other host."""
        return f"{self.target}:{self.target_interface}"

    @property
    def seconds(self) -> float:
        """Its duration."""
        return (self.end - self.begin) / _NS


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSeconds:
    """The durations of some requests in seconds."""

    mean: float
    p50: float
    p95: float
    p99: float
    longest: float


@dataclass(frozen=True, slots=True)
class RecordedTransfer:
    """All requests of one ``rocelab job transfer``."""

    name: str
    """``write``, or ``write #2`` for the second transfer with this verb."""
    requests: tuple[RecordedRequest, ...]
    """In the order in which they were complete."""

    @property
    def begin(self) -> int:
        """The begin of the first request."""
        return min(each.begin for each in self.requests)

    @property
    def end(self) -> int:
        """The end of the last request."""
        return max(each.end for each in self.requests)

    @property
    def bytes(self) -> int:
        """The payload of all requests."""
        return sum(each.size for each in self.requests)

    @property
    def rate_bps(self) -> float:
        """The payload in bits, divided by the time from the first begin to the last end; 0 without duration."""
        return self.bytes * 8 * _NS / (self.end - self.begin) if self.end > self.begin else 0.0

    def by_nic(self) -> dict[str, tuple[RecordedRequest, ...]]:
        """Return the requests of each host, by its NIC."""
        found: dict[str, list[RecordedRequest]] = {}
        for each in self.requests:
            found.setdefault(each.nic, []).append(each)
        return {name: tuple(found[name]) for name in sorted(found)}


def request_seconds(requests: Iterable[RecordedRequest]) -> RequestSeconds:
    """Return the durations of at least one request; percentiles are by nearest rank."""
    times = [each.seconds for each in requests]
    p50, p95, p99 = np.percentile(times, (50, 95, 99), method="inverted_cdf").tolist()
    return RequestSeconds(mean=fmean(times), p50=p50, p95=p95, p99=p99, longest=max(times))


def recorded_requests(recording: Recording) -> tuple[RecordedTransfer, ...]:
    """Return the transfers of a recording in order; empty without one. InvalidInput if they are damaged."""
    if SCHEMA.table not in recording.grown:
        return ()
    rows = recording.table(SCHEMA.table).rows
    with damage_as_invalid(recording.folder.path):
        return transfers_of(zip(rows.ns.tolist(), rows.dicts(), strict=True))


def transfers_of(rows: Iterable[tuple[int, Mapping[str, Any]]]) -> tuple[RecordedTransfer, ...]:
    """Return the transfers of rows of the table ``job_requests``, each with its time, ordered by time.

    Transfers with the same verb are numbered in the order in which they began.
    """
    found: dict[tuple[int, str], list[RecordedRequest]] = {}
    for ns, row in rows:
        found.setdefault((int(row["began"]), str(row["verb"])), []).append(_request(ns, row))
    count: dict[str, int] = {}
    transfers = []
    for (_, verb), requests in sorted(found.items()):
        count[verb] = number = count.get(verb, 0) + 1
        transfers.append(RecordedTransfer(verb if number == 1 else f"{verb} #{number}", tuple(requests)))
    return tuple(transfers)


def _request(ns: int, row: Mapping[str, Any]) -> RecordedRequest:
    return RecordedRequest(
        node=str(row["node"]),
        interface=str(row["interface"]),
        number=int(row["request"]),
        target=str(row["target"]),
        target_interface=str(row["target_interface"]),
        verb=str(row["verb"]),
        size=int(row["size"]),
        begin=min(int(row["begin"]), ns),
        end=ns,
    )
