"""The requests of transfers in a report: each with its time, as facts and in Markdown, and for the player."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.report.markdown_text import code, plain, table
from lab.telemetry.read.recorded_requests import RequestSeconds, recorded_requests, request_seconds
from lab.units import counted, format_rate, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lab.telemetry.read.recorded_requests import RecordedTransfer
    from lab.telemetry.read.recording import Recording

_NS: Final = 10**9
_US: Final = 1_000_000
_PLAYED: Final = 4000
"""Requests of a transfer on the page, the slowest ones."""


@dataclass(frozen=True, slots=True)
class ReportedRequest:
    """A request of a transfer."""

    nic: str
    """The NIC of the host that made it."""
    target: str
    """The NIC of the other host."""
    request: int
    """From 1, of this host."""
    size: int
    """Bytes."""
    begin: float
    """Seconds of the recording."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRequester(RequestSeconds):
    """The requests of a host, with their durations."""

    nic: str
    requests: int


@dataclass(frozen=True, slots=True)
class RequestTransfer:
    """A transfer that ``rocelab job transfer`` made."""

    name: str
    """The direction, and the number of a further transfer: write, write #2."""
    size: int
    """Bytes of a request, the largest one."""
    rate_bps: float
    """Payload per second, from the first begin to the last end."""
    hosts: tuple[ReportedRequester, ...]
    requests: tuple[ReportedRequest, ...]
    """In the order in which they were complete."""


def request_transfers(recording: Recording) -> tuple[RequestTransfer, ...]:
    """Return the transfers of a recording that have requests; InvalidInput if they are damaged."""
    return tuple(_reported(recording.clock.start, each) for each in recorded_requests(recording))


def _reported(start: int, transfer: RecordedTransfer) -> RequestTransfer:
    return RequestTransfer(
        name=transfer.name,
        size=max(each.size for each in transfer.requests),
        rate_bps=transfer.rate_bps,
        hosts=tuple(
            ReportedRequester(nic=nic, requests=len(mine), **asdict(request_seconds(mine)))
            for nic, mine in transfer.by_nic().items()
        ),
        requests=tuple(
            ReportedRequest(
                nic=each.nic,
                target=each.target_nic,
                request=each.number,
                size=each.size,
                begin=(each.begin - start) / _NS,
                seconds=each.seconds,
            )
            for each in transfer.requests
        ),
    )


def requests_of_transfers(transfers: Iterable[RequestTransfer]) -> Iterator[str]:
    """Yield a chapter as lines of Markdown: a table of hosts for each transfer; nothing without one."""
    for each in transfers:
        yield f"### Requests of transfer {plain(each.name)}"
        yield ""
        yield (
            f"{counted(len(each.requests), 'request')} of {format_size(each.size)} moved "
            f"{format_rate(round(each.rate_bps))} together (`rows/job_requests.parquet`)."
        )
        yield ""
        yield from table(("NIC", "requests", "mean", "p50", "p95", "p99", "longest"), map(_host, each.hosts))


def _host(host: ReportedRequester) -> tuple[str, ...]:
    times = (host.mean, host.p50, host.p95, host.p99, host.longest)
    return (code(host.nic), str(host.requests), *map(format_time, times))


def played_transfers(transfers: Iterable[RequestTransfer]) -> list[dict[str, Any]]:
    """Return the transfers for the player; a request is [host, begin, end, number, target], times in microseconds."""
    return [_played(each) for each in transfers]


def _played(transfer: RequestTransfer) -> dict[str, Any]:
    nics = [each.nic for each in transfer.hosts]
    shown = sorted(transfer.requests, key=lambda each: -each.seconds)[:_PLAYED]
    return {
        "name": transfer.name,
        "nics": nics,
        "requests": [
            [
                nics.index(each.nic),
                round(each.begin * _US),
                round((each.begin + each.seconds) * _US),
                each.request,
                each.target,
            ]
            for each in sorted(shown, key=lambda each: each.begin)
        ],
        "left": len(transfer.requests) - len(shown),
    }
