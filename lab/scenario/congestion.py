"""Shared by scenarios about congestion control: their acts, measures of CNPs, queues and shares, checks of pauses."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np

from lab.errors import UsageError
from lab.faults.values import time_of
from lab.scenario.phase_measures import ACTS, LOSSLESS, growth, listed, mbits
from lab.scenario.three_acts import PhaseParameters, three_acts
from lab.scenario.traffic.workload import show_queue
from lab.scenario.verdict import expect

if TYPE_CHECKING:
    from lab.scenario.api import Check
    from lab.scenario.stage import Stage
    from lab.scenario.verdict import Verdict
    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase
    from lab.telemetry.read.views import PortView

SETTLING: Final = 2.0
"""Seconds from the beginning of traffic, or of a change, until the rates of QPs have moved to their new level.

With the paper's registers at 100 Mb/s a CNP comes each 20 ms at most, and an increase each 22 ms.
"""
CONVERGING: Final = 6.0
"""Seconds until the rates of QPs that begin at line rate are alike: 15 ms on the paper's links of 40 Gb/s."""
QPS: Final = 4
"""QPs of a sender that only PFC limits.

rxe has at most 128 packets of a QP under way: 139 KB at a path MTU of 1024. A switch of dcqcn.yaml takes up to 250 KB
before it pauses a port. So one QP would stop by its window, and never by PFC.
"""
_FEWER: Final = 5
"""With congestion control there are at most a fifth of the pauses."""


class DcqcnParameters(PhaseParameters):
    """The parameters of a scenario with longer phases, because rates with DCQCN swing."""

    hold: Annotated[float, time_of(1, 60)] = 4.0
    """How long each phase lasts."""


def ignore_cnps(stage: Stage) -> None:
    """Turn the reaction point of all NICs off, so that PFC is the only flow control; wait until it is."""
    stage.set("host", "nic.cc.rp=false")
    stage.hold(SETTLING)


def obey_cnps(stage: Stage) -> None:
    """Turn the reaction point of all NICs on; wait until rates are at their level."""
    stage.set("host", "nic.cc.rp=true")
    stage.hold(CONVERGING)


def compare_with_pfc_alone(stage: Stage, *pairs: str, hold: float, queue: str) -> None:
    """Write with DCQCN, with PFC alone, and with DCQCN, in three acts of ``hold`` seconds.

    The second act ends with the state of ``queue``, the port where all pairs meet.
    """
    with stage.writing(*pairs, qps=QPS):
        stage.hold(SETTLING)
        three_acts(
            stage, hold, broken=lambda: ignore_cnps(stage), fix=lambda: obey_cnps(stage),
            show=lambda: show_queue(stage, queue),
        )  # fmt: skip


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


def shares(rec: Recording, phase: str, *hosts: str) -> dict[str, float]:
    """Return each host's share of what all of them send in a phase; 0 for all if none sends."""
    rates = {host: mbits(rec, f"{host}:eth1", phase) for host in hosts}
    return {host: rate / (sum(rates.values()) or 1) for host, rate in rates.items()}


def fewer_pauses(times: int) -> Check:
    """Return the check that DCQCN needs at most one of ``times`` of the PFC frames that PFC alone sends."""

    def pauses_are_rare_with_dcqcn(rec: Recording, _: Any) -> Verdict:
        """With DCQCN, PFC is the last resort: pauses are fewer by the published factor."""
        alone, cured = growth(rec, rec.ports, "tx_prio3_pause", ACTS[1:])
        return expect(alone >= times and cured * times <= alone, f"{alone} PFC frames alone, {cured} with DCQCN")

    return pauses_are_rare_with_dcqcn


@dataclass(frozen=True, slots=True)
class MarkedShare:
    """The share of its lossless packets that a port marked, and the share that the WRED curve gives."""

    share: float
    chance: float
    """The standard deviation of ``share`` for this number of packets (binomial)."""
    depth: float
    """The mean depth of the queue in bytes, while it is not empty."""
    theory: float
    """The mean of the curve for the sampled depths."""
    deviation: float
    """The standard deviation of ``share - theory``, by the number of samples and of packets."""


def marked_share(port: PortView, within: RecordingPhase, ramp: tuple[int, int], packet: int) -> MarkedShare:
    """Return a port's share of marks in a time, with a curve from Kmin to 100% at Kmax, which ``ramp`` has.

    A packet of ``packet`` bytes finds a queue without itself, so that the curve applies to a sampled depth less one
    packet. UsageError if no packet waits in any sample.
    """
    kmin, kmax = ramp
    depths = port.depth(LOSSLESS).during(within).values
    waiting = depths[depths >= packet].astype(float)
    if not len(waiting):
        raise UsageError(f"no packet waits in {within.name}", "see rocelab record show")
    packets = max(port.tx_packets(LOSSLESS).during(within).delta(), 1)
    share = port.marked(LOSSLESS).during(within).delta() / packets
    curve = np.clip((waiting - packet - kmin) / (kmax - kmin), 0, 1)
    theory = float(curve.mean())
    return MarkedShare(
        share=share,
        chance=sqrt(max(0.0, share * (1 - share)) / packets),
        depth=float(waiting.mean()),
        theory=theory,
        deviation=sqrt(float(curve.var()) / len(curve) + theory * (1 - theory) / packets),
    )
