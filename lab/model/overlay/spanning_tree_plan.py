"""The spanning tree of plain VLANs: root priorities, port costs and timers.

All VLANs share one tree (IEEE 802.1D-1998 section 9, which the kernel implements; the 2004 edition replaces it by
RSTP). A switch that loses the root waits for ``MAX_AGE``, and then twice for ``FORWARD_DELAY``. Listening avoids
loops while the change spreads, and learning limits flooding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.model.overlay.node_plan import BridgeMember

HELLO: Final = 1.0
"""Seconds between two configuration messages of the root."""
MAX_AGE: Final = 6.0
"""Seconds until a configuration message expires: the minimum (IEEE 802.1D-2004 table 17-1)."""
FORWARD_DELAY: Final = 4.0
"""Seconds of listening, and of learning. The minimum for that age: 2 x (delay - 1 s) >= age (section 17.14)."""
AGEING: Final = 10.0
"""Seconds until a silent address expires: the minimum (section 7.9.2).

A topology change shortens it to twice ``FORWARD_DELAY``. But the kernel scheduled its next cleanup with the previous
age. With 300 s, stale entries would interrupt traffic long after the tree has recovered.
"""
_PRIORITIES: Final = (4096, 8192)
"""The priorities of the first two switches of the top tier: the root and its backup."""
_OTHERS: Final = 32768
_COSTS: Final = ((10**10, 2), (10**9, 4), (10**8, 19), (16 * 10**6, 62), (10**7, 100), (4 * 10**6, 250))
"""Port costs by the rate of the link in bit/s (IEEE 802.1D-1998 table 8-5; the kernel stores 16 bits)."""


@dataclass(frozen=True, slots=True)
class Trunk:
    """A switch's interface towards another, which carries all VLANs with their tags (IEEE 802.1Q)."""

    interface: str
    cost: int
    """The cost that the port adds to the path to the root."""


@dataclass(frozen=True, slots=True)
class Bridged:
    """The plain VLANs of a switch: one bridge. ``mtu`` in bytes is that of its narrowest port."""

    mac: str
    mtu: int
    priority: int
    """The first part of the bridge identifier; the lowest is the root (IEEE 802.1D-1998 section 8.5.3)."""
    vlans: tuple[int, ...]
    ports: tuple[BridgeMember, ...]
    """Ports towards hosts."""
    trunks: tuple[Trunk, ...]


def priority_of(rank: int) -> int:
    """Return the priority of a switch by its position from the top, from 0."""
    return _PRIORITIES[rank] if rank < len(_PRIORITIES) else _OTHERS


def cost_of(rate: int) -> int:
    """Return the cost of a port with a link of ``rate`` bit/s, 1 to 250, by the next lower rate of the table."""
    if rate > _COSTS[0][0]:
        return 1
    return next((cost for least, cost in _COSTS if rate >= least), _COSTS[-1][1])
