"""How much a lossless group must still take in after it has asked for silence."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from lab.units import WIRE_OVERHEAD

L2_OVERHEAD: Final = 18
"""Bytes that a frame has around its IP packet in memory: two MACs, a VLAN tag and the type (IEEE 802.1Q clause 9)."""
PFC_FRAME: Final = 60
"""Bytes of a PFC frame without its FCS: the shortest that there is (IEEE 802.3 clauses 3.2.8 and 31D)."""
HOST_REACTION: Final = 20e-3
"""Seconds that an emulated port may take to pause, at worst, in the host's time.

An ASIC takes microseconds: IEEE 802.3 clause 31B.3.7 allows 60 quanta at 10 Gb/s, which is 3 us. Here a softirq has
to run on a CPU that is busy with something else. Usually that is 20 to 700 us, even where the CPU is emulated; but an
emulated CPU that shares the host's with other work stands still for 5 to 20 ms now and then.
"""
VIRTUAL_REACTION: Final = 50e-6
"""The same in virtual time, where nothing but the lab's own work is between an XOFF and the pause.

Measured: 4.6 us usually, and 27 us at most of 12,000 pauses of four writers at 40 Mb/s;
tests/vm/port/test_port_incast.py holds it below.
"""


def frame_size(mtu: int) -> int:
    """Bytes of the largest frame of a link with an MTU of ``mtu`` bytes, as the port counts them."""
    return mtu + L2_OVERHEAD


def headroom_needed(rate: int, mtu: int, delay: float, reaction: float) -> int:
    """Bytes that can arrive after the XOFF threshold on a link of ``rate`` bit/s and ``delay`` seconds one way.

    The PFC frame waits for the largest frame, which our side has just begun to send; it takes its own time on the
    wire and the link's delay; ``reaction`` seconds pass until the peer has obeyed; it too has just begun the largest
    frame; and the last bit is the link's delay away. All that time the peer sends at ``rate``. These are the terms of
    IEEE 802.1Q's annex on buffer requirements for PFC, and of SONiC's headroom calculation (lossless MTU + port MTU +
    2 x cable + MAC and PHY delay + peer response time), with the last two taken together as ``reaction``.
    """
    largest = frame_size(mtu) + WIRE_OVERHEAD
    bits = 8 * (2 * largest + PFC_FRAME + WIRE_OVERHEAD) + rate * (2 * Fraction(delay) + Fraction(reaction))
    return -(-bits.numerator // (8 * bits.denominator))
