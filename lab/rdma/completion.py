"""Transfers of a fixed size: the start of each pair's, and the duration of it or of each of its messages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.kernel.process import tsc
from lab.rdma import perftest, perftest_session
from lab.rdma.measure import LatencyTest, Verb
from lab.rdma.perftest_session import Patience

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.rdma.measure import BandwidthTest, Pair
    from lab.rdma.perftest_session import Exchange


@dataclass(frozen=True, slots=True)
class Completion:
    """The transfer of a pair: ``messages`` in ``seconds`` by perftest's clock.

    ``began`` is in seconds of CLOCK_MONOTONIC: the time at which its first packet was seen, at most about 20 ms after
    it was sent.
    """

    pair: Pair
    began: float
    seconds: float
    messages: int
    times: tuple[float, ...] = ()
    """The seconds of each message in order, if each was timed."""


def complete(pairs: Sequence[Pair], test: BandwidthTest) -> tuple[Completion, ...]:
    """Transfer ``test.iterations`` messages on each QP of every pair, all pairs at once.

    The time runs from the first message posted to the last one acknowledged. Returns when the last pair is done;
    raises like ``perftest.measure_bandwidth``.
    """
    options = ["--iters", str(test.iterations), "--noPeak", "--qp", str(test.qps), "--tx-depth", str(test.tx_depth)]

    def attempt(folder: Path) -> tuple[Completion, ...]:
        exchanges = perftest.prepare(pairs, test, "bw", options, folder)
        perftest_session.run(exchanges, Patience(), perftest.silent)
        results = [perftest.bandwidth_of(exchange, test, 0.0) for exchange in exchanges]
        return tuple(
            Completion(
                pair=each.pair,
                began=_began(each, result.duration_s),
                seconds=result.duration_s,
                messages=result.messages,
            )
            for each, result in zip(exchanges, results, strict=True)
        )

    return perftest.steadily(attempt)


def complete_each(pairs: Sequence[Pair], size: int, messages: int) -> tuple[Completion, ...]:
    """Let every pair read messages of ``size`` bytes one at a time, all pairs at once, and time each message.

    The time of a read runs from its request to its last byte. One more message is read than timed. Returns and raises
    like ``complete``.
    """
    test = LatencyTest(verb=Verb.READ, size=size, iterations=messages + 1)
    options = ["--iters", str(test.iterations), "--report-unsorted", "--report-cycles"]

    def attempt(folder: Path) -> tuple[Completion, ...]:
        exchanges = perftest.prepare(pairs, test, "lat", options, folder)
        before = tsc.read()
        perftest_session.run(exchanges, Patience(), perftest.silent)
        after = tsc.read()
        timed = [perftest.samples_of(exchange, test, before, after)[0] for exchange in exchanges]
        return tuple(
            Completion(
                pair=each.pair,
                began=_began(each, lasted),
                seconds=lasted,
                messages=len(samples),
                times=tuple(samples),
            )
            for each, samples in zip(exchanges, timed, strict=True)
            for lasted in (math.fsum(samples),)
        )

    return perftest.steadily(attempt)


def _began(exchange: Exchange, seconds: float) -> float:
    """Return the observed start; for a transfer too short to be observed, the time of its end less its duration."""
    return exchange.began_at or exchange.looked_at - seconds
