"""Headroom: the bytes that a lossless group must still store after it has sent XOFF."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from lab.units import WIRE_OVERHEAD

L2_OVERHEAD: Final = 18
"""Bytes of a frame around its IP packet in memory: two MACs, a VLAN tag and the type (IEEE 802.1Q clause 9)."""
PFC_FRAME: Final = 60
"""Bytes of a PFC frame without its FCS: the minimum frame size (IEEE 802.3 clauses 3.2.8 and 31D)."""
HOST_REACTION: Final = 20e-3
"""The longest time in seconds that an emulated port takes to pause, in the host's time.

An ASIC takes microseconds: IEEE 802.3 clause 31B.3.7 allows 60 quanta at 10 Gb/s, which is 3 us. Here a softirq must
run on a busy CPU, usually within 20 to 700 us, even on an emulated CPU. But an emulated CPU that shares the host's
with other work occasionally stalls for 5 to 20 ms.
"""
VIRTUAL_REACTION: Final = 50e-6
"""The same in virtual time, where only the lab's own work delays a pause.

Measured: usually 4.6 us, and at most 27 us in 12,000 pauses of four writers at 40 Mb/s.
tests/vm/port/test_port_incast.py checks the limit.
"""


ROCE_PACKET: Final = 4200
"""Bytes of an IP packet with 4096 bytes of RDMA payload, the largest path MTU (IBA vol. 1, 9.4.3)."""
PATH_MTUS: Final = (256, 512, 1024, 2048, 4096)
"""Path MTUs: bytes of RDMA payload in a packet (IBA vol. 1, 9.4.3)."""
_ROCE_HEADERS: Final = ROCE_PACKET - 4096
"""Bytes of IP, UDP, BTH, RETH or AtomicETH and ICRC around a payload, with room for IPv6."""


def roce_frame(mtu: int) -> int:
    """Return the largest RoCE frame in bytes on a link with an MTU of ``mtu`` bytes: that of its RDMA path MTU.

    rxe takes the largest path MTU that fits: 1024 bytes of payload with an MTU of 1500, 4096 from 4200.
    """
    return frame_size(active_mtu(mtu) + _ROCE_HEADERS)


def active_mtu(mtu: int) -> int:
    """Return the active MTU of a RoCE port: the largest path MTU that fits into a link's MTU of ``mtu`` bytes."""
    return max((size for size in PATH_MTUS if size + _ROCE_HEADERS <= mtu), default=PATH_MTUS[0])


def frame_size(mtu: int) -> int:
    """Return the largest frame, in bytes as the port counts them, with an MTU of ``mtu`` bytes."""
    return mtu + L2_OVERHEAD


def headroom_needed(rate: int, mtu: int, delay: float, reaction: float) -> int:
    """Return the bytes that can arrive after XOFF on a link of ``rate`` bit/s and ``delay`` seconds one way.

    The terms are:

    - the largest frame, which this end has just begun to send, and which the PFC frame waits for
    - the PFC frame on the wire
    - the delay of the link, twice: for the PFC frame, and for the last bit of the peer
    - ``reaction`` seconds until the peer obeys
    - the largest frame, which the peer has just begun to send

    All that time the peer sends at ``rate``. These are the terms of IEEE 802.1Q's annex on buffer requirements for
    PFC, and of SONiC's headroom calculation: lossless MTU + port MTU + 2 x cable + MAC and PHY delay + peer response
    time. The last two are combined in ``reaction``.
    """
    largest = frame_size(mtu) + WIRE_OVERHEAD
    bits = 8 * (2 * largest + PFC_FRAME + WIRE_OVERHEAD) + rate * (2 * Fraction(delay) + Fraction(reaction))
    return -(-bits.numerator // (8 * bits.denominator))
