"""Transfers that come to an end: when each pair's began, and how long it, or each of its messages, took."""

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
    """What a pair has moved: ``messages`` in ``seconds`` by perftest's clock.

    ``began`` is of CLOCK_MONOTONIC, in seconds: when its first packet was seen, some 20 ms after it was sent at most.
    """

    pair: Pair
    began: float
    seconds: float
    messages: int
    times: tuple[float, ...] = ()
    """The seconds of each message, in their order, where each was timed."""


def complete(pairs: Sequence[Pair], test: BandwidthTest) -> tuple[Completion, ...]:
    """Have every pair move ``test.iterations`` messages on each of its QPs, all pairs at once.

    Time goes from the first message that is posted to the last that is acknowledged. Returns when the last pair is
    done; raises as ``perftest.measure_bandwidth``.
    """
    options = ["--iters", str(test.iterations), "--noPeak", "--qp", str(test.qps), "--tx-depth", str(test.tx_depth)]

    def attempt(folder: Path) -> tuple[Completion, ...]:
        exchanges = perftest.prepare(pairs, test, "bw", options, folder)
        perftest_session.run(exchanges, Patience(), perftest.silent)
        results = [perftest.bandwidth_of(exchange, test, 0.0) for exchange in exchanges]
        return tuple(
            Completion(each.pair, _began(each, result.duration_s), result.duration_s, result.messages)
            for each, result in zip(exchanges, results, strict=True)
        )

    return perftest.steadily(attempt)


def complete_each(pairs: Sequence[Pair], size: int, messages: int) -> tuple[Completion, ...]:
    """Have every pair read messages of ``size`` bytes one after the other, all pairs at once, and time each of them.

    A read takes from its request to its last octet. One more is read than is timed. Returns and raises as above.
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
            Completion(each.pair, _began(each, lasted), lasted, len(samples), tuple(samples))
            for each, samples in zip(exchanges, timed, strict=True)
            for lasted in (math.fsum(samples),)
        )

    return perftest.steadily(attempt)


def _began(exchange: Exchange, seconds: float) -> float:
    """When it was seen to begin; of what was over between two looks, when it ended less what it took."""
    return exchange.began_at or exchange.looked_at - seconds
