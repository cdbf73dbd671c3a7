"""Measures and checks that scenarios about congestion control share: CNPs of NICs, queues, pauses of an incast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.scenario.phase_measures import ACTS, LOSSLESS, growth, listed
from lab.scenario.verdict import expect

if TYPE_CHECKING:
    from lab.scenario.api import Check
    from lab.scenario.verdict import Verdict
    from lab.telemetry.read.recording import Recording

SETTLING: Final = 2.0
"""Seconds from the begin of traffic, or of a change, until the rates of QPs have moved to their new level.

With the paper's registers at 100 Mb/s a CNP comes each 20 ms at most, and an increase each 22 ms.
"""
_FEWER: Final = 5
"""With congestion control there are at most a fifth of the pauses."""


def cnps(rec: Recording, counter: str, *hosts: str) -> list[int]:
    """Return the growth of a counter of congestion control in each act, summed over hosts with one NIC each."""
    return growth(rec, [f"{host}:eth1" for host in hosts], counter)


def pfc_takes_over(*inputs: str) -> Check:
    """Return the check that a switch pauses the senders at its ports many times as often with the fault."""

    def pfc_takes_over(rec: Recording, _: Any) -> Verdict:
        """Without CNPs, the leaf pauses the senders many times as often."""
        before, during, after = counts = growth(rec, inputs, "tx_prio3_pause")
        return expect(during > _FEWER * max(1, before, after), f"XOFFs sent: {listed(counts)}")

    return pfc_takes_over


def mean_depths(rec: Recording, port: str) -> list[float]:
    """Return the mean depth of a port's lossless queue in each act, in bytes; 0 without samples."""
    depths = [rec.port(port).depth(LOSSLESS).during(act).values for act in ACTS]
    return [float(each.mean()) if len(each) else 0.0 for each in depths]
