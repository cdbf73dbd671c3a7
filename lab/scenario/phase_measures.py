"""Measures of the phases of a recording. ``shared_checks`` has the checks that many scenarios share.

``ACTS`` are the measured phases of ``lab.scenario.three_acts``: without the fault, with it, and after it is healed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.telemetry.read import measures

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from lab.telemetry.read.recording import Recording

LOSSLESS: Final = 3
"""The priority of RDMA traffic."""
ACTS: Final = ("baseline", "observe", "verify")


def mbits(rec: Recording, port: str, phase: str, priority: int = LOSSLESS) -> float:
    """Return the Mb/s that a port sent of a priority in a phase, without FCS, preamble and gap."""
    return rec.port(port).value(measures.TX_RATE, phase, priority) / 1e6


def paused_share(rec: Recording, phase: str, *ports: str, priority: int = LOSSLESS) -> float:
    """Return the share of a phase that ports were paused in a priority, the largest of all.

    It is not limited to 1, so that a check fails if a port counts more pauses than there was time.
    """
    longest = max(rec.port(port).value(measures.PAUSED_SECONDS, phase, priority) for port in ports)
    return longest / rec.phase(phase).seconds


def growth(rec: Recording, port: str | Collection[str], counter: str, phases: Iterable[str] = ACTS) -> list[int]:
    """Return a counter's increase by phase, named as in ``rocelab counters``; summed over several ports."""
    ports = [port] if isinstance(port, str) else port
    return [sum(rec.delta(counter, each, phase) for each in ports) for phase in phases]


def rdma_growth(rec: Recording, host: str, counter: str, phases: Iterable[str] = ACTS) -> list[int]:
    """Return the increase of a counter of a host's RDMA device in each phase."""
    return [rec.rdma(host).counter(counter).during(phase).delta() for phase in phases]


def dropped(
    rec: Recording, *phases: str, ports: Collection[str] | None = None, priority: int | None = LOSSLESS
) -> int:
    """The packets dropped in these phases, by all ports or ``ports``; of all priorities if ``priority`` is None."""
    chosen = rec.ports if ports is None else ports
    return sum(rec.port(port).drops(priority).during(phase).delta() for port in chosen for phase in phases)


def jain(values: Sequence[float]) -> float:
    """Return Jain's fairness index: 1 if all values are equal, 1/n if one has everything, 0 if all are 0."""
    return sum(values) ** 2 / (len(values) * sum(value**2 for value in values)) if any(values) else 0.0


def listed(counts: Iterable[object], phases: Sequence[str] = ACTS) -> str:
    """Return counts as text for evidence: ``0 in baseline, 12 in observe, 0 in verify``."""
    return ", ".join(f"{count} in {phase}" for phase, count in zip(phases, counts, strict=True))
