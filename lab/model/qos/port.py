"""A port's QoS with every number filled in: what the emulated port is configured with, and what it has to do.

Priority, DSCP, queue and priority group are four different things. An arriving packet has a DSCP or a PCP, which the
``trust`` of the port turns into one of eight priorities (traffic classes; PFC pauses these). The priority selects the
*priority group* of the ingress port, where its bytes are charged, and the *queue* of the egress port, where it
waits.

Sizes are int bytes of the frame from its destination MAC to the end of its payload, as the kernel counts; preamble,
FCS and gap are added where a size becomes a time. Rates are int bit/s, times float seconds. ``GroupQos.threshold``,
``GroupQos.release`` and ``EcnQos.probability`` say what the data plane does, and its tests compare with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

from lab.model.qos.headroom import HOST_REACTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from fractions import Fraction

CLASSES: Final = 8
"""Priorities, queues of a port, and priority groups of a port: three bits of PCP (IEEE 802.1Q clause 9.6)."""
DSCPS: Final = 64
"""Code points (RFC 2474 section 3)."""
MAX_SIZE: Final = 4 * 10**9
"""Bytes of one buffer or threshold: more than any switch has, and less than the 2**32 of a port's record."""
MAX_QUANTA: Final = 0xFFFF
"""The longest pause that a frame can ask for: 65535 x 512 bit times (IEEE 802.3 clause 31B.2)."""


class Trust(StrEnum):
    """Which field of a packet says its priority.

    Untagged frames have PCP 0, frames that are not IP have DSCP 0; ARP and neighbour discovery are as DSCP 48 (CS6).
    """

    DSCP = "dscp"
    PCP = "pcp"


class StormAction(StrEnum):
    """What the watchdog does with the packets of a queue that a pause storm has stopped."""

    DROP = "drop"
    FORWARD = "forward"


@dataclass(frozen=True, slots=True)
class GroupQos:
    """How much one priority group of one ingress port may hold; all in bytes.

    The first ``reserved`` bytes are its own, the next come out of the node's shared pool. Above the threshold a
    lossless group pauses its peer, and fills its ``headroom`` with what was under way; a lossy one drops. The
    threshold is ``xoff`` where that is given, otherwise it moves with what is free in the pool (``alpha``): Choudhury
    and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998. Exactly one of the two is
    given. ``headroom`` means something in lossless groups only.
    """

    reserved: int
    alpha: Fraction | None
    xoff: int | None
    xon: int
    headroom: int

    def threshold(self, free: int) -> int:
        """Bytes in the group above which it pauses or drops, when ``free`` bytes of the shared pool are unused."""
        if free <= 0:
            return self.reserved
        if self.alpha is not None:
            return self.reserved + int(self.alpha * free)
        return self.xoff or 0

    def release(self, free: int) -> int:
        """Bytes in the group at which a pause ends by an XON: ``xon``, or half of what the group may take if less.

        A moving threshold can fall below any fixed XON while other groups fill the pool. A static threshold is
        replaced by ``reserved`` when the pool is exhausted. Half of the threshold, or of ``reserved`` and all that is
        free, keeps a distance: a pause does not end while the next packet would begin it again.
        """
        most = self.threshold(free) if self.alpha is not None else self.reserved + max(free, 0)
        return min(self.xon, most // 2)

    def alone(self, shared: int) -> int:
        """The threshold that a group settles at when it alone fills a shared pool of ``shared`` bytes.

        With alpha it takes x = alpha (shared - x), so x = shared alpha / (1 + alpha).
        """
        if self.alpha is None:
            return self.threshold(shared)
        return self.reserved + int(self.alpha * max(shared, 0) / (1 + self.alpha))


@dataclass(frozen=True, slots=True)
class EcnQos:
    """WRED on the instantaneous depth of a queue, marking CE instead of dropping (RFC 3168 section 5).

    ``kmin`` and ``kmax`` in bytes, ``pmax`` from 0 to 1.
    """

    enabled: bool
    kmin: int
    kmax: int
    pmax: float

    def probability(self, depth: int) -> float:
        """The chance that an ECT packet is marked which meets ``depth`` bytes: 0, a line up to ``pmax``, then 1."""
        if not self.enabled or depth <= self.kmin:
            return 0.0
        if depth > self.kmax:
            return 1.0
        return self.pmax * (depth - self.kmin) / (self.kmax - self.kmin)


@dataclass(frozen=True, slots=True)
class QueueQos:
    """One egress queue. Strict queues go first, the higher number first; the others share the rest by DWRR.

    ``weight`` is None for a strict queue. ``limit`` is in bytes and holds for packets of lossy priorities: lossless
    ones are limited where they came in.
    """

    weight: int | None
    limit: int
    ecn: EcnQos

    @property
    def strict(self) -> bool:
        """Whether the queue goes before all that have a weight."""
        return self.weight is None


@dataclass(frozen=True, slots=True)
class WatchdogQos:
    """When a paused queue counts as hit by a storm, and again as healthy (seconds), and what happens meanwhile."""

    enabled: bool
    detection: float
    restoration: float
    action: StormAction


@dataclass(frozen=True, slots=True)
class PfcQos:
    """Priority-based flow control (IEEE 802.1Q clause 36) of a port.

    ``priorities`` is the vector of the lossless ones, bit n for priority n. ``tx``: we pause the peer. ``rx``: we
    obey it. ``quanta`` is what a pause asks for, in 512 bit times of the link.
    """

    priorities: int
    tx: bool
    rx: bool
    quanta: int
    watchdog: WatchdogQos

    @property
    def tx_priorities(self) -> int:
        """The vector of the priorities that we pause the peer on."""
        return self.priorities if self.tx else 0

    @property
    def rx_priorities(self) -> int:
        """The vector of the priorities on which we obey the peer's pauses."""
        return self.priorities if self.rx else 0


@dataclass(frozen=True, slots=True)
class PortQos:
    """Everything about one port of a node: a switch's, or a host's NIC.

    The link has ``rate`` bit/s, ``mtu`` bytes of IP packet and ``delay`` seconds one way. The maps have an entry for
    each DSCP, PCP and priority; ``groups`` and ``queues`` have eight each. ``drain`` is the rate at which a host
    takes packets out of its NIC, None for as fast as they come: a slow receiver fills its buffer and pauses its leaf.
    ``reaction`` is how many seconds its peer may take to pause, which is for the machine to say that emulates both.
    """

    rate: int
    mtu: int
    delay: float
    trust: Trust
    dscp_to_priority: tuple[int, ...]
    pcp_to_priority: tuple[int, ...]
    priority_to_queue: tuple[int, ...]
    priority_to_group: tuple[int, ...]
    groups: tuple[GroupQos, ...]
    queues: tuple[QueueQos, ...]
    pfc: PfcQos
    drain: int | None = None
    reaction: float = HOST_REACTION

    @property
    def lossless_groups(self) -> int:
        """The vector of the groups that hold a lossless priority; every other group is lossy."""
        return vector(self.priority_to_group[priority] for priority in members(self.pfc.priorities))

    @property
    def lossless_queues(self) -> int:
        """The vector of the queues that carry a lossless priority."""
        return vector(self.priority_to_queue[priority] for priority in members(self.pfc.priorities))

    @property
    def committed(self) -> int:
        """Bytes of the node's pool that are this port's alone: what groups reserve, and headroom of lossless ones."""
        reserved = sum(self.groups[group].reserved for group in set(self.priority_to_group))
        return reserved + sum(self.groups[group].headroom for group in members(self.lossless_groups))


@dataclass(frozen=True)
class NodeQos:
    """A node's ports by their interfaces, and ``pool``: the bytes of buffer that they have together."""

    pool: int
    ports: Mapping[str, PortQos]

    @cached_property
    def shared(self) -> int:
        """Bytes that the groups compete for: the pool without what is committed to single ports."""
        return self.pool - sum(port.committed for port in self.ports.values())


def vector(numbers: Iterable[int]) -> int:
    """Bit n for each n, as in the class-enable vector of a PFC frame (IEEE 802.1Q clause 36)."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


def members(bits: int) -> tuple[int, ...]:
    """The numbers of the bits that are set, ascending."""
    return tuple(number for number in range(CLASSES) if bits >> number & 1)
