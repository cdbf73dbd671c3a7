"""Run the requests of a transfer between hosts, and return the times of each host's requests."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from lab.errors import UsageError
from lab.jobs import job_session
from lab.jobs.collective_job import RankPlace, check_nics, place_of
from lab.jobs.job_session import JobPatience, Rank, module_argv
from lab.jobs.transfers.transfer_engine import find_engine
from lab.jobs.transfers.transfer_spec import plans, target_of
from lab.rdma.measure import percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.jobs.bus_bandwidth import RankSteps
    from lab.jobs.transfers.transfer_spec import TransferSpec, TransferVerb
    from lab.rdma.measure import Nic

_PROGRAM: Final = "lab.jobs.transfers.transfer_program"
_NS: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """Times of complete requests, in seconds from the begin of a request to the acknowledgement of its last byte."""

    requests: int
    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    max_s: float
    """The longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRequest:
    """One request."""

    host: str
    """The host that made it."""
    target: str
    begin_s: float
    """Seconds after the first request of all hosts."""
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferResult:
    """The figures of a transfer that ran to its end."""

    hosts: tuple[RankPlace, ...]
    """The hosts that made requests."""
    targets: tuple[RankPlace, ...]
    size: int
    """Bytes of a request."""
    of_host: tuple[RequestTimes, ...]
    """Those of each host, in the order of ``hosts``."""
    all: RequestTimes
    requests: tuple[TransferRequest, ...]
    """In the order in which they began."""
    began_ns: int
    """When the first request began, in ns of CLOCK_MONOTONIC."""
    rate_bps: float
    """Bytes of all requests in bits, divided by the time from the first begin to the last end."""
    roofline_s: float
    """The bytes of a request at the rate of the slowest NIC."""
    wrong: int
    """Elements of 4 bytes that differ from what was sent."""
    start_s: float
    """Seconds until all hosts knew each other."""
    tclass: int


def run_transfer(
    initiators: Sequence[Nic],
    targets: Sequence[Nic],
    spec: TransferSpec,
    *,
    link_rate: int,
    report: Callable[[str, int, int], None],
) -> TransferResult:
    """Run the requests of all ``initiators``, and return their figures.

    ``link_rate`` is that of the slowest NIC in bits per second. UsageError for two NICs of one host, or IPv6.
    EnvironmentLacks without Mooncake or a device. OperationFailed if a host's program fails, dies or hangs, with its
    number, host and request. Nothing is left running.
    """
    nics = (*initiators, *targets)
    check_nics(nics)
    if any(nic.address.version == 6 for nic in nics):
        raise UsageError(f"{nics[0]} has an IPv6 address, which Mooncake does not find", "use a fabric with IPv4")
    planned = plans(spec, initiators, targets)
    engine = find_engine()
    ranks = [
        Rank(
            number=number,
            nic=nic,
            argv=module_argv(_PROGRAM, engine.module),
            plan=plan,
            environment={"PMI_RANK": str(number), **engine.environment(number, nic, spec.tclass)},
        )
        for number, (nic, plan) in enumerate(zip(nics, planned, strict=True))
    ]
    longest = max((_longest_gap(spec, number) for number in range(len(initiators))), default=0.0)
    usual = JobPatience()
    waits = JobPatience(start=usual.start, stall=usual.stall + longest)
    start = job_session.run_ranks(ranks, waits, report)
    return transfer_result(ranks, len(initiators), spec, link_rate, start)


def _longest_gap(spec: TransferSpec, initiator: int) -> float:
    """Return the longest time in seconds in which a host begins no request."""
    times = [0, *(each for each in spec.arrivals(initiator) if each is not None)]
    return max((later - earlier for earlier, later in pairwise(times)), default=0) / _NS


def transfer_result(
    ranks: Sequence[Rank], initiators: int, spec: TransferSpec, link_rate: int, start: float
) -> TransferResult:
    """Return the figures of ranks that have reported all their requests; the first ``initiators`` made them."""
    places = [place_of(rank) for rank in ranks]
    results = [rank.results[spec.octets] for rank in ranks]
    made = results[:initiators]
    first = min(min(each.begin_ns) for each in made)
    last = max(max(each.end_ns) for each in made)
    requests = [
        TransferRequest(
            host=places[initiator].host,
            target=places[initiators + target_of(initiator, number, len(ranks) - initiators)].host,
            begin_s=(begin - first) / _NS,
            time_s=(end - begin) / _NS,
        )
        for initiator, each in enumerate(made)
        for number, (begin, end) in enumerate(zip(each.begin_ns, each.end_ns, strict=True))
    ]
    return TransferResult(
        hosts=tuple(places[:initiators]),
        targets=tuple(places[initiators:]),
        size=spec.octets,
        of_host=tuple(_times([each]) for each in made),
        all=_times(made),
        requests=tuple(sorted(requests, key=lambda each: each.begin_s)),
        began_ns=first,
        rate_bps=8 * spec.octets * len(requests) * _NS / (last - first),
        roofline_s=8 * spec.octets / link_rate,
        wrong=sum(each.wrong for each in results),
        start_s=start,
        tclass=spec.tclass,
    )


def recorded_requests(result: TransferResult, verb: TransferVerb) -> list[dict[str, Any]]:
    """Return rows of the table ``job_requests``; each has ``ns`` besides, when its request was complete."""
    interfaces = {place.host: place.interface for place in (*result.hosts, *result.targets)}
    numbers = dict.fromkeys(interfaces, 0)
    rows = []
    for each in result.requests:
        numbers[each.host] += 1
        begin = result.began_ns + round(each.begin_s * _NS)
        rows.append({
            "ns": begin + round(each.time_s * _NS), "began": result.began_ns, "node": each.host,
            "interface": interfaces[each.host], "request": numbers[each.host], "target": each.target,
            "target_interface": interfaces[each.target], "verb": verb.value, "size": result.size, "begin": begin,
        })  # fmt: skip
    return rows


def _times(made: Sequence[RankSteps]) -> RequestTimes:
    times = sorted(
        (end - begin) / _NS for each in made for begin, end in zip(each.begin_ns, each.end_ns, strict=True)
    )
    return RequestTimes(
        requests=len(times),
        mean_s=fmean(times),
        p50_s=percentile(times, 50),
        p95_s=percentile(times, 95),
        p99_s=percentile(times, 99),
        max_s=times[-1],
    )
