"""Warn about links faster than an emulated fabric can fill: their queues stay empty, without marks or pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.model.qos.advice import QosAdvice, fold
from lab.model.qos.headroom import ROCE_PACKET
from lab.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.topology import Topology

LARGE_PACKETS: Final = 640 * 10**6
"""Total RDMA rate of the VM in virtual time, in bit/s, with 4096 bytes of payload in a packet.

Measured with three hosts writing to a fourth across one leaf, MTU 9000. The cost of a packet is independent of its
size.
"""
SMALL_PACKETS: Final = 200 * 10**6
"""The same for an MTU of 1500, with 1024 bytes of payload in a packet."""


def capacity(mtu: int) -> int:
    """Return the total RDMA rate of the VM, in bit/s, over links with an MTU of ``mtu`` bytes."""
    return LARGE_PACKETS if mtu >= ROCE_PACKET else SMALL_PACKETS


def rate_advice(topology: Topology) -> tuple[QosAdvice, ...]:
    """Return warnings about links with QoS that are too fast to fill; links with one rate and MTU share a warning."""
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
