"""The spanning tree of plain VLANs as it is configured: who is to be its root, what ports cost, and its timers.

One tree for all VLANs, as IEEE 802.1D has it (section 9 of the edition of 1998, which the kernel's is; that of 2004
has RSTP in its place). Who loses what it knows of the root waits for ``MAX_AGE``, and then twice for
``FORWARD_DELAY``: listening, so that no loop closes before all have heard, and learning, so that not all is flooded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.model.overlay.node_plan import BridgeMember

HELLO: Final = 1.0
"""Seconds between two messages of the root."""
MAX_AGE: Final = 6.0
"""Seconds for which a message is believed. The least that there may be (IEEE 802.1D-2004 table 17-1)."""
FORWARD_DELAY: Final = 4.0
"""Seconds of listening, and of learning. The least for that age: 2 x (delay - 1 s) >= age (section 17.14)."""
AGEING: Final = 10.0
"""Seconds after which an address that sends nothing is forgotten: the least that there may be (section 7.9.2).

A change of the tree shortens it to twice ``FORWARD_DELAY`` in the kernel, which then looks for what is too old when
the first entry was to be by the age of before: with 300 s, stale entries keep a tree dark that has long healed.
"""
_PRIORITIES: Final = (4096, 8192)
"""Of the first two switches of the top tier: the root, and who is to be it when that is gone."""
_OTHERS: Final = 32768
_COSTS: Final = ((10**10, 2), (10**9, 4), (10**8, 19), (16 * 10**6, 62), (10**7, 100), (4 * 10**6, 250))
"""Of a port by the rate of its link, in bit/s (IEEE 802.1D-1998 table 8-5; the kernel has 16 bits for it)."""


@dataclass(frozen=True, slots=True)
class Trunk:
    """A switch's interface towards another, which carries all VLANs with their tags (IEEE 802.1Q)."""

    interface: str
    cost: int
    """Of what is received by it, to the path to the root."""


@dataclass(frozen=True, slots=True)
class Bridged:
    """All that a switch has of plain VLANs: one bridge. ``mtu`` in bytes is that of its narrowest port."""

    mac: str
    mtu: int
    priority: int
    """The first part of its identifier; the lowest is the root (IEEE 802.1D-1998 section 8.5.3)."""
    vlans: tuple[int, ...]
    ports: tuple[BridgeMember, ...]
    """Towards hosts."""
    trunks: tuple[Trunk, ...]


def priority_of(rank: int) -> int:
    """The priority of a switch by its place from the top, from 0."""
    return _PRIORITIES[rank] if rank < len(_PRIORITIES) else _OTHERS


def cost_of(rate: int) -> int:
    """What a port with a link of ``rate`` bit/s costs: as the next lower rate of the table, 1 to 250."""
    if rate > _COSTS[0][0]:
        return 1
    return next((cost for least, cost in _COSTS if rate >= least), _COSTS[-1][1])
