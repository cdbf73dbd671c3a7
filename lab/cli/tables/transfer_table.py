"""The table of ``rocelab job transfer``: the times of each host's requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.output import table
from lab.kernel.process import time_source
from lab.units import counted, format_rate, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.jobs.transfers.transfer_job import RequestTimes, TransferResult
    from lab.jobs.transfers.transfer_spec import TransferSpec

_COLUMNS: Final = ("NIC", "requests", "mean", "p50", "p95", "p99", "longest")


def transfer_table(result: TransferResult, spec: TransferSpec) -> Any:
    """Return the table: a row for each host that made requests, and one for all of them."""
    to = ", ".join(each.host for each in result.targets)
    title = (
        f"{spec.verb}s of {format_size(result.size)} {'from' if spec.verb == 'read' else 'to'} {to}, "
        f"{time_source.lives_in()} time"
    )
    rows = [
        _row(f"{place.host}:{place.interface}", times)
        for place, times in zip(result.hosts, result.of_host, strict=True)
    ]
    return table(title, _COLUMNS, [*rows, _row("all", result.all)] if len(rows) > 1 else rows)


def _row(name: str, times: RequestTimes) -> tuple[object, ...]:
    seconds = (times.mean_s, times.p50_s, times.p95_s, times.p99_s, times.max_s)
    return (name, times.requests, *map(format_time, seconds))


def transfer_notes(result: TransferResult, spec: TransferSpec) -> Iterator[str]:
    """Yield lines about all requests together."""
    yield (
        f"a request took {result.all.mean_s / result.roofline_s:.2f} times the arithmetic "
        f"({format_time(result.roofline_s)} at the rate of a NIC)"
    )
    yield f"{counted(result.all.requests, 'request')} moved {format_rate(result.rate_bps)} together"
    receiver = "host" if spec.verb == "read" else "target"
    verdict = f"{result.wrong} wrong elements" if result.wrong else f"every {receiver} has the right data"
    yield f"{verdict}; all hosts were ready after {format_time(result.start_s)}"
