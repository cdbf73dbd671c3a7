"""QoS profiles: partial settings by name, and the places that they are attached to.

A field of None, or a queue missing from a mapping, is not set by the profile. Profiles are applied from the fabric's
to the interface's, and the last one that sets a field wins (``resolve``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from lab.model.qos.congestion.cc_profile import CcProfile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from lab.model.qos.port import StormAction, Trust
    from lab.model.topology import Node

Amount: TypeAlias = int | float
"""A buffer size: an int is bytes, a float is seconds at the link's rate."""
Weight: TypeAlias = int | Literal["strict"]
"""A queue's DWRR weight, or strict priority."""
Drain: TypeAlias = int | Literal["unlimited"]
"""The rate in bit/s at which a host takes packets from its NIC."""

STRICT: Final = "strict"
UNLIMITED: Final = "unlimited"


@dataclass(frozen=True, slots=True)
class MapProfile:
    """The trusted field, and entries of the maps to priorities, and from priorities to queues and groups."""

    trust: Trust | None = None
    dscp: Mapping[int, int] = field(default_factory=dict)
    pcp: Mapping[int, int] = field(default_factory=dict)
    queue: Mapping[int, int] = field(default_factory=dict)
    group: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupProfile:
    """A priority group. ``alpha`` and ``xoff`` are two forms of the threshold: setting one replaces the other."""

    reserved: Amount | None = None
    alpha: Fraction | None = None
    xoff: Amount | None = None
    xon: Amount | None = None
    headroom: Amount | None = None


@dataclass(frozen=True, slots=True)
class BufferProfile:
    """Sizes: the node's pool, priority groups by number, and limits of lossy queues by number."""

    pool: int | None = None
    groups: Mapping[int, GroupProfile] = field(default_factory=dict)
    queues: Mapping[int, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WatchdogProfile:
    """The PFC watchdog; times in seconds."""

    enabled: bool | None = None
    detection: float | None = None
    restoration: float | None = None
    action: StormAction | None = None


@dataclass(frozen=True, slots=True)
class PfcProfile:
    """The lossless priorities, and the directions in which PFC is enabled."""

    priorities: tuple[int, ...] | None = None
    tx: bool | None = None
    rx: bool | None = None
    quanta: int | None = None
    watchdog: WatchdogProfile = field(default_factory=WatchdogProfile)


@dataclass(frozen=True, slots=True)
class EcnProfile:
    """ECN marking of one queue."""

    enabled: bool | None = None
    kmin: Amount | None = None
    kmax: Amount | None = None
    pmax: float | None = None


@dataclass(frozen=True, slots=True)
class NicProfile:
    """Settings of a host's NIC."""

    drain: Drain | None = None
    cc: CcProfile = field(default_factory=CcProfile)


@dataclass(frozen=True, slots=True)
class QosProfile:
    """The settings of one profile; ``ecn`` and ``scheduler`` are by queue."""

    map: MapProfile = field(default_factory=MapProfile)
    buffer: BufferProfile = field(default_factory=BufferProfile)
    pfc: PfcProfile = field(default_factory=PfcProfile)
    ecn: Mapping[int, EcnProfile] = field(default_factory=dict)
    scheduler: Mapping[int, Weight] = field(default_factory=dict)
    nic: NicProfile = field(default_factory=NicProfile)


@dataclass(frozen=True, slots=True)
class QosIntent:
    """A fabric's QoS: its own profiles by name, and the profiles and presets attached to each place."""

    profiles: Mapping[str, QosProfile] = field(default_factory=dict)
    fabric: tuple[str, ...] = ()
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    interfaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def at_node(self, node: Node) -> tuple[str, ...]:
        """Return the profiles that apply to all of ``node``, the least specific first."""
        return (*self.fabric, *self.roles.get(node.role, ()), *self.nodes.get(node.name, ()))

    def at_port(self, node: Node, interface: str) -> tuple[str, ...]:
        """Return the profiles that apply to one port of ``node``, the least specific first."""
        return (*self.at_node(node), *self.interfaces.get(f"{node.name}:{interface}", ()))
