"""Links that are faster than an emulated fabric can fill: their queues stay empty, nothing is marked or paused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.model.qos.advice import QosAdvice, fold
from lab.model.qos.presets import ROCE_PACKET
from lab.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.topology import Topology

LARGE_PACKETS: Final = 640 * 10**6
"""Bit/s of RDMA that the VM carries in all in virtual time where a packet holds 4096 bytes of payload.

Three hosts that wrote to a fourth across one leaf; MTU 9000. A packet costs its instructions, whatever its size.
"""
SMALL_PACKETS: Final = 200 * 10**6
"""The same with an MTU of 1500, where a packet holds 1024 bytes of payload."""


def capacity(mtu: int) -> int:
    """Bit/s of RDMA that the VM carries in all over links of ``mtu`` bytes."""
    return LARGE_PACKETS if mtu >= ROCE_PACKET else SMALL_PACKETS


def rate_advice(topology: Topology) -> tuple[QosAdvice, ...]:
    """Links of a fabric with QoS that nothing here can fill; those of one rate and MTU together."""
    return fold(_too_fast(topology)) if topology.qos is not None else ()


def _too_fast(topology: Topology) -> Iterator[QosAdvice]:
    for link in topology.links:
        carried = capacity(link.mtu)
        if link.rate > carried:
            message = (
                f"{format_rate(link.rate)} is more than the {format_rate(carried)} that all links carry together,"
                f" with an MTU of {link.mtu}, in the VM in virtual time"
            )
            remedy = "its queue never fills: for marks and pauses choose a rate of 100Mbit or so"
            yield QosAdvice((str(link.a),), "rate", message, remedy)
