"""The requests of transfers in two recordings: matched by direction, with percentiles of their times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.report.compare.changes import ComparedValue
from lab.report.compare.figures_in_window import WindowFigure
from lab.telemetry.read.job_measures import REQUEST_MEAN, REQUEST_P50, REQUEST_P99, REQUEST_RATE
from lab.telemetry.read.recorded_requests import RecordedTransfer, recorded_requests, request_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.report.compare.run_window import ComparedRun
    from lab.telemetry.read.recorded_requests import RecordedRequest
    from lab.telemetry.read.window_measure import Measure


def requests_by_name(run: ComparedRun) -> dict[str, RecordedTransfer]:
    """Return the transfers by name, with the requests complete in the window; those without any are left out."""
    found = {}
    for transfer in recorded_requests(run.recording):
        requests = tuple(each for each in transfer.requests if run.window.start <= each.end <= run.window.end)
        if requests:
            found[transfer.name] = RecordedTransfer(transfer.name, requests)
    return found


def request_values(name: str, a: RecordedTransfer, b: RecordedTransfer) -> Iterator[ComparedValue]:
    """Yield the rate of a transfer, its times, and those of each host that both runs have; times only of one size."""
    yield _value(name, REQUEST_RATE, a.rate_bps, b.rate_bps)
    yield from _times(name, a.requests, b.requests)
    hosts_of_a, hosts_of_b = a.by_nic(), b.by_nic()
    for nic in sorted(hosts_of_a.keys() & hosts_of_b.keys()):
        yield from _times(f"{name} {nic}", hosts_of_a[nic], hosts_of_b[nic])


def _times(name: str, a: Sequence[RecordedRequest], b: Sequence[RecordedRequest]) -> Iterator[ComparedValue]:
    if {each.size for each in a} == {each.size for each in b}:
        one, other = request_seconds(a), request_seconds(b)
        yield _value(name, REQUEST_MEAN, one.mean, other.mean)
        yield _value(name, REQUEST_P50, one.p50, other.p50)
        yield _value(name, REQUEST_P99, one.p99, other.p99)


def _value(name: str, measure: Measure, a: float, b: float) -> ComparedValue:
    return ComparedValue(of=name, priority=None, measure=measure, a=WindowFigure(a, a), b=WindowFigure(b, b))
