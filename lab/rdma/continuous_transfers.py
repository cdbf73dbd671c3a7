"""RDMA transfers that run until they are stopped: background traffic of scenarios."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.rdma import perftest, perftest_session
from lab.rdma.perftest_session import Patience

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.rdma.measure import BandwidthTest, Pair
    from lab.rdma.perftest_session import Exchange

_LONGEST: Final = 86_400
"""Seconds; transfers are stopped earlier."""
_MOST: Final = 10_000_000
"""Reads of a QP, instead: perftest has no duration with events."""
_WAKES: Final = 8
"""A program sleeps until this part of a QP's send queue is done, and fills it up before it is empty."""


@dataclass(frozen=True, slots=True)
class ContinuousTransfer:
    """The running perftest of one pair."""

    exchange: Exchange

    @property
    def pair(self) -> Pair:
        """The pair that transfers."""
        return self.exchange.pair

    @property
    def running(self) -> bool:
        """Whether both of its programs run; ``last_words`` has the reason if one gave up."""
        return all(side.code is None for side in self.exchange.sides)

    @property
    def last_words(self) -> str:
        """The output of its programs, the client's first."""
        return "\n".join(side.said().strip() for side in self.exchange.sides).strip()


@contextlib.contextmanager
def flowing(
    pairs: Sequence[Pair], test: BandwidthTest, patience: Patience | None = None, *, one_by_one: bool = False
) -> Iterator[list[ContinuousTransfer]]:
    """Run transfers of all pairs during a block: each sends when the block begins, all are stopped when it ends.

    With ``one_by_one``, which is for reads, a QP requests its next read when the one before it was answered. The
    kernel does that for all ``tx_depth`` reads of its queue, so that it does not wait for a program. Raises like
    ``perftest.measure_bandwidth``. A transfer that gives up later does not end the block: check ``running``.
    """
    options = ["--duration", str(_LONGEST), "--qp", str(test.qps), "--tx-depth", str(test.tx_depth)]
    if one_by_one:
        options[:2] = [
            "--iters",
            str(_MOST),
            "--noPeak",
            "--events",
            "--cq-mod",
            str(max(test.tx_depth // _WAKES, 1)),
        ]
        options += ["--outs", "1"]
    with tempfile.TemporaryDirectory(prefix="rocelab-") as folder:
        exchanges = perftest.prepare(pairs, test, "bw", options, Path(folder))
        try:
            perftest_session.begin(exchanges, patience or Patience(), perftest.silent)
            perftest_session.await_packets(exchanges, patience or Patience())
            yield [ContinuousTransfer(exchange) for exchange in exchanges]
        finally:
            perftest_session.end_all(exchanges)
