"""The ``--json`` answers of ``rocelab counters``, ``congestion`` and ``qos``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lab.cli.answers.base import Answer, Models
from lab.model.qos.congestion import cc_registers

if TYPE_CHECKING:  # a model has the attributes of the dataclass that it is made of
    from lab.model.qos.congestion.cc_registers import CcRegisters
else:
    CcRegisters = Models().of(cc_registers.CcRegisters)


class PoolAnswer(Answer):
    """The buffer that the ports of a node share, in bytes."""

    used: int
    watermark: int


class NodeCounters(Answer):
    """A node of ``rocelab counters``."""

    seconds: float
    """Time of the reading, in seconds of the machine's monotonic clock."""
    pool: PoolAnswer
    clock_revived: int
    """How often the node's clock, which ends its pauses, was lost and replaced since the fabric was built."""
    interfaces: dict[str, dict[str, int]]
    """Counters by interface and name; zeros are left out unless --all is given."""


class Unbalanced(Answer):
    """A queue with packets that were neither sent, nor dropped, nor are still queued."""

    node: str
    interface: str
    queue: int
    missing_packets: int
    missing_bytes: int


class Counters(Answer):
    """``rocelab counters``; with --watch, one line for each interval."""

    fabric: str
    emulated: bool
    nodes: dict[str, NodeCounters]
    unbalanced: list[Unbalanced]


class NamedCounter(Answer):
    """A counter of ``rocelab counters --names``."""

    scope: Literal["port", "priority", "queue", "group"]
    """The scope of the counter; {n} in its name is the number of the priority, queue or group."""
    name: str
    field: str
    """The field in the kernel's record."""
    meaning: str
    mlx5: str
    """Its name in ethtool -S of a ConnectX; empty if there is none."""
    sonic: str
    """Its name in SONiC's COUNTERS_DB; empty if there is none."""
    reason: int | None
    """For drops: the reason, numbered like value of queue_drops in ``rocelab qos events``."""
    gauge: bool
    """Whether it is a current value or a maximum; other counters only grow."""
    unit: int
    """Divisor of the kernel's value: 1000 converts ns to us."""


class PauseAnswer(Answer):
    """A port that pauses its peer."""

    end: str
    """The port that sends the pauses, as node:interface."""
    peer: str
    """The port that is paused."""
    xoffs: int
    """XOFFs sent during the observation."""
    share: float
    """Share of the observation in which the peer was paused, 0 to 1."""
    since: str | None
    """Begin of these pauses in ISO 8601 format; null if it is not known any more."""
    forged: bool
    """Whether the peer was paused although this end sent no XOFF and is not in XOFF."""
    behind: list[PauseAnswer]
    """The pauses that the paused node sends as a consequence."""


class CongestionRoot(Answer):
    """A pause tree of ``rocelab congestion``."""

    priority: int
    end: str | None
    """The congested queue, for example leaf1:swp6; null if no queue is congested."""
    depth: int
    """Largest queue depth in bytes."""
    pauses: list[PauseAnswer]


class Group(Answer):
    """A priority group; sizes in bytes."""

    reserved: int
    alpha: str | None
    """Dynamic threshold as a fraction of the free pool, for example 1/4; null for the static threshold xoff."""
    xoff: int | None
    xon: int
    headroom: int


class Ecn(Answer):
    """The ECN marking of a queue; thresholds in bytes."""

    enabled: bool
    kmin: int
    kmax: int
    pmax: float
    """Marking probability at kmax, 0 to 1."""


class QueueAnswer(Answer):
    """An egress queue."""

    weight: int | None
    """DWRR weight; null for strict priority."""
    limit: int
    """Limit for lossy packets, in bytes."""
    ecn: Ecn


class Watchdog(Answer):
    """The PFC watchdog, which ends pause storms."""

    enabled: bool
    detection: float
    """Seconds."""
    restoration: float
    """Seconds."""
    action: Literal["drop", "forward"]


class PfcAnswer(Answer):
    """Priority-based flow control."""

    priorities: int
    """Lossless priorities as a bit mask: bit n for priority n."""
    tx: bool
    """Whether the port sends pauses."""
    rx: bool
    """Whether the port obeys received pauses."""
    quanta: int
    """Duration of a pause in units of 512 bit times."""
    watchdog: Watchdog


class CcRegistersAnswer(CcRegisters):
    """The registers of a NIC's congestion control, with NVIDIA's names: times in seconds, rates in bit/s."""


class CcAnswer(Answer):
    """Congestion control of a host's port."""

    algorithm: Literal["dcqcn"]
    np: bool
    """Whether the NIC answers CE marks with CNPs."""
    rp: bool
    """Whether the NIC slows QPs down."""
    moderation: Literal["qp", "destination", "port"]
    """The scope of min_time_between_cnps."""
    real_rate: int
    """Rate in bit/s of the link that the published registers are meant for."""
    lab_rate: int
    """Rate in bit/s of the lab's link when the registers were set. s = real_rate / lab_rate."""
    floor: int
    """The lowest minimum rate in bit/s: one packet in a quarter of the QP timeout."""
    published: CcRegistersAnswer
    """The registers as published."""
    registers: CcRegistersAnswer
    """The registers at the lab's rate: times x s, rates / s."""


class PortAnswer(Answer):
    """A port of ``rocelab qos show``."""

    rate: int
    """bit/s."""
    mtu: int
    delay: float
    """Seconds, one way."""
    trust: Literal["dscp", "pcp"]
    dscp_to_priority: list[int]
    pcp_to_priority: list[int]
    priority_to_queue: list[int]
    priority_to_group: list[int]
    groups: list[Group]
    queues: list[QueueAnswer]
    pfc: PfcAnswer
    drain: int | None
    """Drain rate of a host's NIC in bit/s; null if it is not limited."""
    reaction: float
    """Seconds until the peer obeys a pause, for which headroom is calculated."""
    cc: CcAnswer | None
    """Congestion control of a host's NIC; null if it has none."""
    kernel_differs: list[str]
    """Fields in which the kernel's configuration differs; empty if it is the same."""


class NodeQosAnswer(Answer):
    """A node of ``rocelab qos show``."""

    pool: int
    """Size of the buffer in bytes."""
    shared: int
    """Bytes of the buffer that the groups share."""
    ports: dict[str, PortAnswer]


class QosShow(Answer):
    """``rocelab qos show``."""

    fabric: str
    emulated: bool
    nodes: dict[str, NodeQosAnswer]


class PortEventAnswer(Answer):
    """An event of ``rocelab qos events``; with --follow, one line for each event."""

    time: str
    """Wall-clock time in ISO 8601 format."""
    boot_seconds: float
    """Seconds of the machine's monotonic clock."""
    seconds: float
    """Seconds since the oldest event in the log."""
    node: str
    interface: str
    kind: Literal[
        "xoff_sent", "xon_sent", "paused", "resumed", "storm", "restored", "expired", "group_drops", "queue_drops"
    ]
    number: int
    """Number of the priority group, priority or queue."""
    value: int
    """Bytes in the group for XOFF, quanta for paused, bytes held up for storm.

    For queue_drops, the reason: 0 queue at its limit, 1 group at its share, 2 headroom full, 3 too many packets,
    4 PFC watchdog, 5 link down.
    """
    towards: str
    """For group_drops: the port by which the packet was to leave."""


class PresetAnswer(Answer):
    """A QoS preset; sizes in bytes, times in seconds."""

    preset: str
    source: str
    """The publisher of the values."""
    rate: int
    """Link rate for which the values are published, in bit/s."""
    lossless: list[int]
    """Lossless priorities."""
    kmin: int
    kmax: int
    pmax: float
    alpha: str
    """Dynamic threshold: a group may use alpha times the free part of the pool."""
    xoff: int
    """Bytes at which a group pauses its peer if it has the pool to itself."""
    xon: int
    pool: int
    """Bytes that the ports of a node share."""
    roce: int
    """Priority of DSCP 26."""
    cnp: int
    """Priority of DSCP 48."""
    cnp_queue: str
    """Scheduling of the CNP queue."""
    watchdog: float | None
    """Seconds until the PFC watchdog detects a storm; null if it is off."""
    cc: Literal["dcqcn"] | None
    """Algorithm of congestion control in hosts' NICs; null if the preset has none."""
    cc_scale: float | None
    """s = rate of the real link / rate of this link: times are multiplied by it, rates divided."""
    registers: CcRegistersAnswer | None
    """Registers of congestion control at this rate."""
    maps: dict[str, str | int]
    """DSCPs, queue and group of each priority, and scheduling of each queue."""


class PresetDifference(Answer):
    """A setting that differs between two presets, and its value by preset."""

    setting: str
    values: dict[str, list[int] | str | int | float | None]


class PlanTerm(Answer):
    """A term of the headroom: bytes that can arrive after XOFF."""

    term: str
    bytes: int
    arithmetic: str
    source: str


class PlanChoice(Answer):
    """A recommended threshold: bytes, or a probability for pmax."""

    name: str
    """kmin, kmax, pmax, xoff, xon, headroom, or buffer, which is the total of all senders."""
    value: float
    arithmetic: str
    source: str
    larger: str
    """The cost of a larger value."""
    smaller: str
    """The cost of a smaller value."""


class QosPlan(Answer):
    """The thresholds of a lossless class on real links."""

    rate: int
    """Bit/s."""
    length: float
    """Metres."""
    mtu: int
    port_mtu: int
    senders: int
    rtt: float
    """Seconds."""
    headroom_terms: list[PlanTerm]
    choices: list[PlanChoice]
    sonic_headroom: int
    """Bytes of headroom by SONiC's formula."""
    ecn_bound: int | None
    """Queue depth in bytes below which marks always precede pauses; null without --buffer."""
    cc: CcAnswer | None
    """Registers of congestion control from --rate to --link-rate; null without --cc."""
