"""What is answered about lossless ports: ``rocelab counters``, ``congestion`` and ``qos``."""

from __future__ import annotations

from typing import Literal

from lab.cli.answers.base import Answer


class PoolAnswer(Answer):
    """The buffer that the ports of a node share; bytes."""

    used: int
    watermark: int


class NodeCounters(Answer):
    """A node of ``rocelab counters``."""

    seconds: float
    """When they were read, of the machine's monotonic clock."""
    pool: PoolAnswer
    clock_revived: int
    """How often the clock that ends its pauses was lost and replaced since the fabric was built."""
    interfaces: dict[str, dict[str, int]]
    """By interface: counters by name, those that are 0 left out unless --all is given."""


class Unbalanced(Answer):
    """A queue whose packets were not all sent, dropped for a reason, or still there."""

    node: str
    interface: str
    queue: int
    missing_packets: int
    missing_bytes: int


class Counters(Answer):
    """``rocelab counters``; with --watch a line for each interval."""

    fabric: str
    emulated: bool
    nodes: dict[str, NodeCounters]
    unbalanced: list[Unbalanced]


class NamedCounter(Answer):
    """A counter of ``rocelab counters --names``."""

    scope: Literal["port", "priority", "queue", "group"]
    """What has one; of a priority, queue or group {n} in its name is the number."""
    name: str
    field: str
    """In the kernel's record."""
    meaning: str
    mlx5: str
    """Its name in ethtool -S of a ConnectX; empty where it has none."""
    sonic: str
    """Its name in SONiC's COUNTERS_DB; empty where it has none."""
    reason: int | None
    """Of drops: why, as the value of queue_drops in ``rocelab qos events``."""
    gauge: bool
    """It says how something is now, or was at most; everything else only grows."""
    unit: int
    """By how much the kernel's number is divided: 1000 makes us of ns."""


class PauseAnswer(Answer):
    """A port that pauses its peer."""

    end: str
    """node:interface."""
    peer: str
    """Who is paused."""
    xoffs: int
    """XOFFs sent while it was looked."""
    share: float
    """Of that time, how much the peer was paused: 0 to 1."""
    since: str | None
    """When these pauses began, as ISO 8601 has it; None where it is not known any more."""
    forged: bool
    """The peer was paused, and this end has sent nothing that would."""
    behind: list[PauseAnswer]
    """The pauses that it leads to, at the peer's node."""


class CongestionRoot(Answer):
    """A tree of ``rocelab congestion``."""

    priority: int
    end: str | None
    """The queue that is too full, as leaf1:swp6; None where nobody's is."""
    depth: int
    """Bytes that it held at most."""
    pauses: list[PauseAnswer]


class Group(Answer):
    """A priority group; bytes."""

    reserved: int
    alpha: str | None
    """A fraction, as 1/4: its share of what is free. Without one xoff holds."""
    xoff: int | None
    xon: int
    headroom: int


class Ecn(Answer):
    """When a queue marks; bytes."""

    enabled: bool
    kmin: int
    kmax: int
    pmax: float
    """0 to 1."""


class QueueAnswer(Answer):
    """An egress queue."""

    weight: int | None
    """By DWRR; None is strict."""
    limit: int
    """Bytes, for lossy packets."""
    ecn: Ecn


class Watchdog(Answer):
    """What ends a pause storm."""

    enabled: bool
    detection: float
    """Seconds."""
    restoration: float
    """Seconds."""
    action: Literal["drop", "forward"]


class PfcAnswer(Answer):
    """Priority-based flow control."""

    priorities: int
    """Bit n for priority n."""
    tx: bool
    """It pauses its peer."""
    rx: bool
    """It obeys its peer's pauses."""
    quanta: int
    """Of a pause: 512 bit times each."""
    watchdog: Watchdog


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
    """bit/s at which a host takes packets in; None for as fast as they come."""
    reaction: float
    """Seconds that its headroom allows the peer to obey a pause."""
    kernel_differs: list[str]
    """What the kernel has otherwise; empty when it is as here."""


class NodeQosAnswer(Answer):
    """A node of ``rocelab qos show``."""

    pool: int
    """Bytes of buffer."""
    shared: int
    """Of them, those that the groups compete for."""
    ports: dict[str, PortAnswer]


class QosShow(Answer):
    """``rocelab qos show``."""

    fabric: str
    emulated: bool
    nodes: dict[str, NodeQosAnswer]


class PortEventAnswer(Answer):
    """An event of ``rocelab qos events``; with --follow a line for each."""

    time: str
    """By the clock on the wall, as ISO 8601 has it."""
    boot_seconds: float
    """Of the machine's monotonic clock."""
    seconds: float
    """Since the oldest event that is known."""
    node: str
    interface: str
    kind: Literal[
        "xoff_sent", "xon_sent", "paused", "resumed", "storm", "restored", "expired", "group_drops", "queue_drops"
    ]
    number: int
    """Of the priority group, priority or queue."""
    value: int
    """Of XOFF the bytes in the group, of paused its quanta, of storm the bytes held up.

    Of queue_drops why: 0 queue at its limit, 1 group at its share, 2 headroom full, 3 too many packets, 4 PFC
    watchdog, 5 link down.
    """
    towards: str
    """Of group_drops: the port by which the packet was to leave."""


class PresetAnswer(Answer):
    """Ready-made QoS: sizes in bytes, times in seconds."""

    preset: str
    source: str
    """Who published the values."""
    rate: int
    """Bit/s of the links that the values are for."""
    lossless: list[int]
    """Lossless priorities."""
    kmin: int
    kmax: int
    pmax: float
    alpha: str
    """Dynamic threshold: a group may take alpha times what is free of the pool."""
    xoff: int
    """Bytes at which a group that has the pool to itself pauses its peer."""
    xon: int
    pool: int
    """Bytes that the ports of a node share."""
    roce: int
    """Priority of DSCP 26."""
    cnp: int
    """Priority of DSCP 48."""
    cnp_queue: str
    """How the queue of CNPs is scheduled."""
    watchdog: float | None
    """Seconds after which the PFC watchdog sees a storm; null when it is off."""
    maps: dict[str, str | int]
    """DSCPs, queue and group of each priority, and scheduling of each queue."""


class PresetDifference(Answer):
    """A setting that differs between two presets, and its value in each, by the preset's name."""

    setting: str
    values: dict[str, list[int] | str | int | float | None]


class PlanTerm(Answer):
    """What can arrive after XOFF: one summand of the headroom."""

    term: str
    bytes: int
    arithmetic: str
    source: str


class PlanChoice(Answer):
    """A threshold: bytes, or of pmax a probability."""

    name: str
    """kmin, kmax, pmax, xoff, xon, headroom, or buffer: of all senders together."""
    value: float
    arithmetic: str
    source: str
    larger: str
    """What a larger one costs."""
    smaller: str
    """What a smaller one costs."""


class QosPlan(Answer):
    """Thresholds of a lossless class on real links."""

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
    """Bytes of queue below which marks surely precede pauses; null without --buffer."""
