"""Run perftest between hosts: throughput and latency of RDMA write, read and send, several pairs at once."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from lab.errors import EnvironmentLacks, OperationFailed, UsageError
from lab.kernel.process import process, time_source, tsc
from lab.rdma import perftest_failure, perftest_report, perftest_session, sysfs
from lab.rdma.measure import (
    MARGIN,
    BandwidthResult,
    BandwidthTest,
    ClockUnsteady,
    LatencyResult,
    LatencyTest,
    Verb,
    receiver,
    summarise,
)
from lab.rdma.perftest_session import RESOLUTION, Exchange, Patience, PerftestSide
from lab.rdma.receive_cap import no_faster
from lab.rdma.window_counters import MeasureWindow, Meter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lab.rdma.measure import Nic, Pair
    from lab.rdma.perftest_session import Report

T = TypeVar("T")

_POLL_GENTLY: Final = Path("/usr/local/lib/rocelab/poll_gently.so")
"""A library of the VM's image: waiting for completions costs a CPU in virtual time a tenth (scripts/guest)."""
_ATTEMPTS: Final = 3
_DOUBT: Final = 0.03


def silent(stage: str, done: int, total: int) -> None:
    """Default progress callback: print nothing."""


def measure_bandwidth(
    pairs: Sequence[Pair],
    test: BandwidthTest,
    *,
    progress: Report = silent,
    patience: Patience | None = None,
    meter: Meter | None = None,
) -> tuple[BandwidthResult, ...]:
    """Return the throughput of each pair while all of them transfer at once, in the order of ``pairs``.

    ``meter`` then has the counters of the measured window. A pair that completes no message in the duration raises
    OperationFailed, which names its QP; with ``Patience(silence=True)`` its goodput is 0.

    UsageError if the interfaces are too small for ``test.mtu``; EnvironmentLacks if perftest or a device is missing;
    OperationFailed, naming the pair, if any run fails or its report cannot be read.
    """
    if test.duration is None:
        length, seconds = ["--iters", str(test.iterations), "--noPeak"], None
    else:
        seconds = test.duration + 2 * MARGIN
        length = ["--duration", str(seconds), "--margin", str(MARGIN)]
    options = [*length, "--qp", str(test.qps), "--tx-depth", str(test.tx_depth)]

    def attempt(folder: Path) -> tuple[BandwidthResult, ...]:
        exchanges = prepare(pairs, test, "bw", options, folder)
        devices = {receiver(pair, test.verb).device: "" for pair in pairs}
        counting = Meter(devices) if meter is None else meter
        window = (
            None
            if test.duration is None
            else MeasureWindow(exchanges=exchanges, margin=MARGIN, seconds=test.duration, meter=counting)
        )
        counting.begin()
        perftest_session.run(exchanges, patience or Patience(), progress, seconds, window)
        if window is None or not window.ended:
            counting.end()
        counting.first = _first(exchanges, test)
        results = [bandwidth_of(exchange, test, began) for exchange, began in _beginnings(exchanges, test)]
        if patience is None or not patience.silence:
            _refuse_silence(exchanges, results, seconds)
        return tuple(results) if window is None else no_faster(results, pairs, test.verb, window)

    return steadily(attempt)


def measure_latency(
    pairs: Sequence[Pair],
    test: LatencyTest,
    *,
    progress: Report = silent,
    patience: Patience | None = None,
    meter: Meter | None = None,
) -> tuple[LatencyResult, ...]:
    """Return the latency of each pair while all of them run at once, in the order of ``pairs``. Raises as above.

    A program that polls occupies a CPU. If there are too few CPUs, the programs of a send or read sleep until their
    message arrives; those of a write cannot (``takes_turns``).
    """
    # perftest's own calibration of the cycle counter takes 0.2 s, and is off by milliseconds on a busy machine.
    options = ["--iters", str(test.iterations), "--report-unsorted", "--report-cycles"]
    if test.verb is not Verb.WRITE and _pollers(pairs, test.verb) >= _cpus():
        options.append("--events")

    def attempt(folder: Path) -> tuple[LatencyResult, ...]:
        exchanges = prepare(pairs, test, "lat", options, folder)
        counting = Meter({}) if meter is None else meter
        counting.begin()
        before = tsc.read()
        perftest_session.run(exchanges, patience or Patience(), progress)
        after = tsc.read()
        counting.end()
        return tuple(_latency(exchange, test, before, after) for exchange in exchanges)

    return steadily(attempt)


def takes_turns(pairs: Sequence[Pair], verb: Verb) -> bool:
    """Whether the latency includes waiting times for CPUs on which other programs poll.

    This is the case for writes with fewer CPUs than programs. A time slice is at least 0.7 ms.
    """
    return verb is Verb.WRITE and _pollers(pairs, verb) > _cpus()


def _pollers(pairs: Sequence[Pair], verb: Verb) -> int:
    """Return the number of programs that wait for a message at the same time: for a read, only those of sources."""
    return len(pairs) * (1 if verb is Verb.READ else 2)


def _cpus() -> int:
    return len(os.sched_getaffinity(0))


def steadily(attempt: Callable[[Path], T]) -> T:
    """Return the result of ``attempt``, called with an empty folder; retried while the CPU's clock is unsteady."""
    for left in reversed(range(_ATTEMPTS)):
        with tempfile.TemporaryDirectory(prefix="rocelab-") as folder:
            try:
                return attempt(Path(folder))
            except ClockUnsteady:
                if not left:
                    raise
    raise AssertionError  # the last attempt returned or raised


def prepare(
    pairs: Sequence[Pair], test: BandwidthTest | LatencyTest, kind: str, options: Sequence[str], folder: Path
) -> list[Exchange]:
    """Prepare the programs of each pair without starting them; ``kind`` is bw or lat. Raises as above.

    Their output goes to files in ``folder``.
    """
    tool = _tool(test.verb, kind)
    common = [*_waiting(test), tool, "--CPU-freq", "--size", str(test.size), "--tclass", str(test.tclass)]
    common += ["--qp-timeout", str(test.timeout), *options]
    if test.mtu is not None:
        common += ["--mtu", str(test.mtu)]
    if any(pair.dst.address.version == 6 for pair in pairs):
        _require_ipv6(tool)
    return [
        _exchange(pair, port, common, _pace(test), folder / str(index))
        for index, (pair, port) in enumerate(zip(pairs, _ports(pairs), strict=True))
    ]


def _waiting(test: BandwidthTest | LatencyTest) -> list[str]:
    """Return the words before a program by which its empty polls are cheap to emulate; none outside virtual time.

    A latency test waits for the completion itself, and gets none. Neither does a test with a pace: perftest looks
    between two polls whether its next message is due, and would begin each up to 10 us late.
    """
    if isinstance(test, LatencyTest) or test.pace is not None:
        return []
    if time_source.lives_in() != time_source.VIRTUAL or not _POLL_GENTLY.is_file():
        return []
    return ["env", f"LD_PRELOAD={_POLL_GENTLY}"]


def _pace(test: BandwidthTest | LatencyTest) -> list[str]:
    """Return the client's options for its rate: perftest paces in software, because rxe cannot."""
    if isinstance(test, LatencyTest) or test.pace is None:
        return []
    return ["--rate_limit_type", "SW", "--rate_limit", str(test.pace), "--rate_units", "p", "--burst_size", "1"]


def _exchange(pair: Pair, port: int, common: Sequence[str], pace: Sequence[str], files: Path) -> Exchange:
    json = files.with_suffix(".json")
    report_to = ["--out_json", "--out_json_file", str(json), *pace]
    server, client = [*common, *_at(pair.dst, port)], [*common, *_at(pair.src, port)]
    return Exchange(
        pair,
        port,
        server=_side(f"server at {pair.dst}", pair.dst, server, files.with_suffix(".server")),
        client=_side(
            f"client at {pair.src}",
            pair.src,
            [*client, *report_to, str(pair.dst.address)],
            files.with_suffix(".client"),
        ),
        json=json,
    )


def _side(name: str, nic: Nic, argv: Sequence[str], files: Path) -> PerftestSide:
    return PerftestSide(
        name=name,
        namespace=nic.namespace,
        argv=argv,
        out=files.with_suffix(f"{files.suffix}-out"),
        err=files.with_suffix(f"{files.suffix}-err"),
    )


def _tool(verb: Verb, kind: str) -> str:
    return process.find_tool(f"ib_{verb.value}_{kind}", "perftest")


def _require_ipv6(tool: str) -> None:
    # --help exits with an error code in some versions, so that only its output counts.
    if "--ipv6-addr" not in process.run([tool, "--help"], check=False).stdout:
        raise EnvironmentLacks("this perftest cannot connect over IPv6", "install perftest 23 or newer, or use --vm")


def _ports(pairs: Sequence[Pair]) -> list[int]:
    """Return a free TCP port at each pair's destination; ports of the same destination differ."""
    free: dict[Nic, list[int]] = {}
    for nic in {pair.dst for pair in pairs}:
        count = sum(pair.dst == nic for pair in pairs)
        free[nic] = perftest_session.free_ports(nic.namespace, count, nic.address.version)
    return [free[pair.dst].pop() for pair in pairs]


def _at(nic: Nic, port: int) -> list[str]:
    """Return the options that bind perftest to a device, the GID of its address, and a TCP port."""
    if not sysfs.exists(nic.device):
        raise EnvironmentLacks(f"{nic} has lost its RDMA device {nic.device}", sysfs.MAKE_AGAIN)
    sysfs.wait_active(nic.device)
    index = sysfs.gid_index(nic.device, nic.address)
    family = ["--ipv6", "--ipv6-addr"] if nic.address.version == 6 else []
    return ["--ib-dev", nic.device, "--gid-index", str(index), "--port", str(port), *family]


def _first(exchanges: Sequence[Exchange], test: BandwidthTest) -> float | None:
    """Return when the first pair began to measure, in seconds of CLOCK_MONOTONIC; None if no packet was observed."""
    began = [exchange.began_at for exchange in exchanges if exchange.began_at]
    return min(began) + test.margin if began else None


def _beginnings(exchanges: Sequence[Exchange], test: BandwidthTest) -> Iterator[tuple[Exchange, float]]:
    """Yield how many seconds at most after the first pair each pair began to measure.

    If all measure for the same duration and began within the margin, they are treated as simultaneous: all transfer
    while any of them measures.
    """
    seen = sorted((exchange for exchange in exchanges if exchange.began_at), key=lambda exchange: exchange.began_at)
    late = seen[-1].began_at - seen[0].began_at if seen else 0.0
    together = not seen or (test.duration is not None and late <= MARGIN)
    for exchange in exchanges:
        alone = together or exchange is seen[0] or not exchange.began_at
        yield exchange, 0.0 if alone else exchange.began_at - seen[0].began_at + seen[0].first_gap


def bandwidth_of(exchange: Exchange, test: BandwidthTest, began: float) -> BandwidthResult:
    """Return the result of a finished pair, ``began`` seconds after the first; raises like ``measure_bandwidth``."""
    pair, printed = exchange.pair, _printed(exchange)
    json = exchange.json.read_text(encoding="utf-8", errors="replace") if exchange.json.exists() else ""
    try:
        said = _reported(json, printed, test)
    except ValueError as error:
        raise _unreadable(pair, error) from error
    _refuse_smaller_mtu(pair, test, said.mtu)
    # The kernel's timer ends a duration, so it is exact; perftest times iterations with the CPU's cycle counter.
    seconds = test.duration if test.duration is not None else _elapsed(exchange, said.seconds)
    return BandwidthResult(
        src=str(pair.src),
        dst=str(pair.dst),
        verb=test.verb.value,
        goodput_bps=round(said.messages * said.size * 8 / seconds),
        messages=said.messages,
        duration_s=float(seconds),
        began_s=began,
        size=said.size,
        qps=test.qps,
        mtu=said.mtu,
        tclass=test.tclass,
    )


def _reported(json: str, printed: str, test: BandwidthTest) -> perftest_report.BandwidthReport:
    """Parse perftest's report; no message in the whole of a duration is a valid result."""
    try:
        return perftest_report.parse_bandwidth(json, printed, test.size)
    except perftest_report.NoMessage:
        if test.duration is None:
            raise
        return perftest_report.BandwidthReport(
            size=test.size, messages=0, mtu=perftest_report.parse_mtu(printed), seconds=math.inf
        )


def _refuse_silence(exchanges: Sequence[Exchange], results: Sequence[BandwidthResult], seconds: float | None) -> None:
    """Raise for the first pair that completed no message in ``seconds`` of sending."""
    for exchange, result in zip(exchanges, results, strict=True):
        if result.messages or seconds is None:
            continue
        qps, pair = perftest_report.parse_qps(_printed(exchange)), exchange.pair
        exchange.observe()
        users = [nic.device for each in exchanges for nic in (each.pair.src, each.pair.dst)]
        if not exchange.came_back and users.count(pair.src.device) == 1:
            raise perftest_failure.unanswered(pair, qps, seconds)
        raise perftest_failure.incomplete(pair, qps, seconds)


def _latency(exchange: Exchange, test: LatencyTest, before: tsc.TscReading, after: tsc.TscReading) -> LatencyResult:
    return summarise(exchange.pair, test, *samples_of(exchange, test, before, after))


def samples_of(
    exchange: Exchange, test: LatencyTest, before: tsc.TscReading, after: tsc.TscReading
) -> tuple[list[float], int]:
    """Return the seconds of all messages of a finished pair except the last, and the path MTU; raises as above.

    For a read these are round trips, for a write or send half of them. ``before`` and ``after`` enclose the run.
    """
    printed = _printed(exchange)
    try:
        mtu = perftest_report.parse_mtu(printed)
        samples = perftest_report.parse_cycles(printed, test.iterations)
    except ValueError as error:
        raise _unreadable(exchange.pair, error) from error
    _refuse_smaller_mtu(exchange.pair, test, mtu)
    # A ping-pong sample is half of its round trip; all round trips together take no longer than the whole run.
    lasted = math.fsum(samples) * (1 if test.verb is Verb.READ else 2)
    if not lasted <= after.cycles - before.cycles:
        raise perftest_failure.unsteady(exchange.pair)
    frequency = tsc.frequency(before, after)
    return [sample / frequency for sample in samples], mtu


def _elapsed(exchange: Exchange, said: float) -> float:
    """Return the duration of a transfer: perftest's, unless the kernel's clock contradicts it.

    perftest calibrates the CPU's cycle counter for 0.2 s, which is off by milliseconds on a busy machine. The
    duration observed from outside is coarser, but reliable.
    """
    seen = exchange.seconds
    if abs(said - seen) <= max(_DOUBT * seen, 3 * RESOLUTION, exchange.blur):
        return said
    if seen < 10 * RESOLUTION:
        raise ClockUnsteady(f"{exchange.pair}: it was over too soon to be timed", "use more iterations")
    return seen


def _printed(exchange: Exchange) -> str:
    return exchange.client.out.read_text(encoding="utf-8", errors="replace")


def _unreadable(pair: Pair, error: ValueError) -> OperationFailed:
    return OperationFailed(
        f"{pair}: perftest's report has {error}", "measure for longer, or see whether /tmp is full"
    )


def _refuse_smaller_mtu(pair: Pair, test: BandwidthTest | LatencyTest, mtu: int) -> None:
    """Raise if the path MTU is smaller than requested: perftest only prints a remark."""
    if test.mtu is not None and mtu < test.mtu:
        raise UsageError(
            f"{pair}: the interfaces allow a path MTU of {mtu}, not {test.mtu}",
            "use --mtu with less, or raise link MTUs",
        )
