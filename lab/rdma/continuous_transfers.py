"""RDMA transfers that go on until they are told to stop: what a scenario has running while it breaks things."""

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
"""Seconds; whoever stops them comes earlier."""


@dataclass(frozen=True, slots=True)
class ContinuousTransfer:
    """One pair at work, by perftest."""

    exchange: Exchange

    @property
    def pair(self) -> Pair:
        """Who writes to whom."""
        return self.exchange.pair

    @property
    def running(self) -> bool:
        """Whether both of its programs do: one that gave up has said why."""
        return all(side.code is None for side in self.exchange.sides)

    @property
    def last_words(self) -> str:
        """What its programs printed, the client's first."""
        return "\n".join(side.said().strip() for side in self.exchange.sides).strip()


@contextlib.contextmanager
def flowing(
    pairs: Sequence[Pair], test: BandwidthTest, patience: Patience | None = None
) -> Iterator[list[ContinuousTransfer]]:
    """Have all pairs transfer meanwhile; each sends when the block begins, and none is left when it ends.

    Raises as ``perftest.measure_bandwidth`` does. One that gives up later does not end the block: look at it.
    """
    options = ["--duration", str(_LONGEST), "--qp", str(test.qps), "--tx-depth", str(test.tx_depth)]
    with tempfile.TemporaryDirectory(prefix="rocelab-") as folder:
        exchanges = perftest.prepare(pairs, test, "bw", options, Path(folder))
        try:
            perftest_session.begin(exchanges, patience or Patience(), perftest.silent)
            perftest_session.await_packets(exchanges, patience or Patience())
            yield [ContinuousTransfer(exchange) for exchange in exchanges]
        finally:
            perftest_session.end_all(exchanges)
