"""What ports counted in a phase, in the units in which stories are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.telemetry.read.recording import Recording

LOSSLESS: Final = 3
"""The priority of RDMA."""


def mbits(rec: Recording, port: str, phase: str) -> float:
    """Mb/s that a port sent of the lossless priority in a phase, without what frames have around them."""
    return rec.port(port).tx_bytes(LOSSLESS).during(phase).rate() * 8 / 1e6


def paused_share(rec: Recording, phase: str, *ports: str) -> float:
    """The share of a phase in which a port might not send it: of several the one that was kept longest."""
    longest = max(rec.port(port).paused(LOSSLESS).during(phase).delta() for port in ports)
    return longest / 1e6 / rec.phase(phase).seconds
