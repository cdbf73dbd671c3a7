"""The resolved QoS of a port: the configuration and the expected behaviour of the emulated port.

Priority, DSCP, queue and priority group are different things. ``trust`` selects whether the DSCP or the PCP of an
arriving packet determines its priority (traffic class), one of eight that PFC can pause. The priority selects the
*priority group* of the ingress port, which is charged for the bytes, and the *queue* of the egress port.

Sizes are int bytes of the frame from its destination MAC to the end of its payload, as the kernel counts. Preamble,
FCS and gap are added to convert a size into a time. Rates are int bit/s, times float seconds. ``GroupQos.threshold``,
``GroupQos.release`` and ``EcnQos.probability`` specify the data plane, whose tests compare with them.
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

    from lab.model.qos.congestion.cc_registers import CcQos

CLASSES: Final = 8
"""Number of priorities, and of queues and priority groups of a port: three bits of PCP (IEEE 802.1Q clause 9.6)."""
DSCPS: Final = 64
"""Number of code points (RFC 2474 section 3)."""
MAX_SIZE: Final = 4 * 10**9
"""The largest buffer or threshold in bytes: more than any switch has, and below the 2**32 of a port's record."""
MAX_QUANTA: Final = 0xFFFF
"""The longest pause in quanta: 65535 x 512 bit times (IEEE 802.3 clause 31B.2)."""


class Trust(StrEnum):
    """The field of a packet that determines its priority.

    Untagged frames have PCP 0, and frames other than IP have DSCP 0. ARP and neighbour discovery count as DSCP 48
    (CS6).
    """

    DSCP = "dscp"
    PCP = "pcp"


class StormAction(StrEnum):
    """The watchdog's action on packets of a queue in a pause storm."""

    DROP = "drop"
    FORWARD = "forward"


@dataclass(frozen=True, slots=True)
class GroupQos:
    """Limits of one priority group of one ingress port, in bytes.

    The first ``reserved`` bytes are the group's own; more come from the node's shared pool. Above the threshold a
    lossless group pauses its peer, and stores packets in flight in its ``headroom``; a lossy group drops. The
    threshold is ``xoff`` or, with ``alpha``, depends on the free part of the pool: Choudhury and Hahne, "Dynamic
    Queue Length Thresholds for Shared-Memory Packet Switches", 1998. Exactly one of the two is set. Lossy groups
    ignore ``headroom``.
    """

    reserved: int
    alpha: Fraction | None
    xoff: int | None
    xon: int
    headroom: int

    def threshold(self, free: int) -> int:
        """Return the bytes above which the group pauses or drops, with ``free`` bytes of the shared pool unused."""
        if free <= 0:
            return self.reserved
        if self.alpha is not None:
            return self.reserved + int(self.alpha * free)
        return self.xoff or 0

    def release(self, free: int) -> int:
        """Return the bytes at which the group sends XON: ``xon``, or half of the bytes that it may hold if less.

        A dynamic threshold can fall below a fixed XON while other groups fill the pool. A static threshold becomes
        ``reserved`` when the pool is exhausted. Half of the threshold, or half of ``reserved`` plus the free pool,
        leaves enough hysteresis: a pause does not end while the next packet would trigger another. The port also
        waits until the group's headroom is empty.
        """
        most = self.threshold(free) if self.alpha is not None else self.reserved + max(free, 0)
        return min(self.xon, most // 2)

    def alone(self, shared: int) -> int:
        """Return the threshold of a group that fills a shared pool of ``shared`` bytes alone.

        With alpha it takes x = alpha (shared - x), so x = shared alpha / (1 + alpha).
        """
        if self.alpha is None:
            return self.threshold(shared)
        return self.reserved + int(self.alpha * max(shared, 0) / (1 + self.alpha))


@dataclass(frozen=True, slots=True)
class EcnQos:
    """WRED on the instantaneous depth of a queue, marking CE instead of dropping (RFC 3168 section 5); in bytes."""

    enabled: bool
    kmin: int
    kmax: int
    pmax: float
    """Marking probability at kmax, 0 to 1."""

    def probability(self, depth: int) -> float:
        """Return the marking probability of an ECT packet at ``depth`` bytes: 0, linear up to ``pmax``, then 1."""
        if not self.enabled or depth <= self.kmin:
            return 0.0
        if depth > self.kmax:
            return 1.0
        return self.pmax * (depth - self.kmin) / (self.kmax - self.kmin)


@dataclass(frozen=True, slots=True)
class QueueQos:
    """One egress queue. Strict queues go first, highest number first; the others share the rest by DWRR."""

    weight: int | None
    """DWRR weight; null for strict priority."""
    limit: int
    """Limit in bytes for packets of lossy priorities; lossless ones are limited at ingress."""
    ecn: EcnQos

    @property
    def strict(self) -> bool:
        """Whether the queue has strict priority over queues with a weight."""
        return self.weight is None


@dataclass(frozen=True, slots=True)
class WatchdogQos:
    """The PFC watchdog, which detects pause storms and ends them."""

    enabled: bool
    detection: float
    """Seconds of pause until a storm is detected."""
    restoration: float
    """Seconds without a pause until the queue is restored."""
    action: StormAction
    """The treatment of packets of the queue during the storm."""


@dataclass(frozen=True, slots=True)
class PfcQos:
    """Priority-based flow control (IEEE 802.1Q clause 36) of a port."""

    priorities: int
    """Lossless priorities as a bit mask: bit n for priority n."""
    tx: bool
    """Whether the port sends pauses."""
    rx: bool
    """Whether the port obeys received pauses."""
    quanta: int
    """Duration of a pause in units of 512 bit times."""
    watchdog: WatchdogQos

    @property
    def tx_priorities(self) -> int:
        """The bitmap of priorities for which the port pauses its peer."""
        return self.priorities if self.tx else 0

    @property
    def rx_priorities(self) -> int:
        """The bitmap of priorities for which the port obeys pauses."""
        return self.priorities if self.rx else 0


@dataclass(frozen=True, slots=True)
class PortQos:
    """The QoS of one port: a switch port, or a host's NIC.

    The maps have an entry for each DSCP, PCP and priority; ``groups`` and ``queues`` have eight entries each. A
    ``drain`` below the link's rate makes a slow receiver, which fills its buffer and pauses its leaf.
    """

    rate: int
    """bit/s."""
    mtu: int
    """Bytes of an IP packet."""
    delay: float
    """Seconds, one way."""
    trust: Trust
    dscp_to_priority: tuple[int, ...]
    pcp_to_priority: tuple[int, ...]
    priority_to_queue: tuple[int, ...]
    priority_to_group: tuple[int, ...]
    groups: tuple[GroupQos, ...]
    queues: tuple[QueueQos, ...]
    pfc: PfcQos
    drain: int | None = None
    """Drain rate of a host's NIC in bit/s; null if it is not limited."""
    reaction: float = HOST_REACTION
    """Seconds until the peer obeys a pause, for which headroom is calculated; depends on the emulating machine."""
    cc: CcQos | None = None
    """Congestion control of a host's NIC; null if it neither sends CNPs nor obeys them."""

    def priority_of(self, dscp: int) -> int:
        """Return the priority of an untagged IP packet with this DSCP."""
        return self.dscp_to_priority[dscp] if self.trust is Trust.DSCP else self.pcp_to_priority[0]

    @property
    def lossless_groups(self) -> int:
        """The bitmap of groups with a lossless priority; all other groups are lossy."""
        return vector(self.priority_to_group[priority] for priority in members(self.pfc.priorities))

    @property
    def lossless_queues(self) -> int:
        """The bitmap of queues with a lossless priority."""
        return vector(self.priority_to_queue[priority] for priority in members(self.pfc.priorities))

    @property
    def committed(self) -> int:
        """Bytes of the node's pool reserved for this port: those of its groups, and headroom of lossless ones."""
        reserved = sum(self.groups[group].reserved for group in set(self.priority_to_group))
        return reserved + sum(self.groups[group].headroom for group in members(self.lossless_groups))


@dataclass(frozen=True)
class NodeQos:
    """The ports of a node by interface, and ``pool``: their buffer in bytes."""

    pool: int
    ports: Mapping[str, PortQos]

    @cached_property
    def shared(self) -> int:
        """Bytes that groups compete for: the pool without the bytes committed to ports."""
        return self.pool - sum(port.committed for port in self.ports.values())


def vector(numbers: Iterable[int]) -> int:
    """Return a bitmap, as in the class-enable vector of a PFC frame (IEEE 802.1Q clause 36)."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


def members(bits: int) -> tuple[int, ...]:
    """Return the numbers of the set bits, ascending."""
    return tuple(number for number in range(CLASSES) if bits >> number & 1)
