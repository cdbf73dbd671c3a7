"""The ``--json`` answers of ``rocelab counters``, ``congestion`` and ``qos``."""

from __future__ import annotations

import fractions
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from lab.cli.answers.base import Answer, Models
from lab.dataplane import counter_names, pause_graph
from lab.model.qos import port, sizing
from lab.model.qos.congestion import cc_registers

_Alpha = Annotated[
    str | None, Field(description="Dynamic threshold as a fraction of the free pool, as 1/4; null for static xoff.")
]
if TYPE_CHECKING:  # a model has the attributes of the dataclass that it is made of
    from lab.dataplane.counter_names import PortCounter
    from lab.dataplane.pause_graph import PortPause, Root
    from lab.model.qos.congestion.cc_registers import CcQos, CcRegisters
    from lab.model.qos.port import PortQos
    from lab.model.qos.sizing import SizedThreshold
else:
    _MODELS = Models(
        [fractions, cc_registers],
        besides={
            port.GroupQos: {"alpha": _Alpha},
            pause_graph.PortPause: {"end": str, "peer": str, "since": str | None},
            pause_graph.Root: {"end": str | None},
        },
    )
    PortCounter, SizedThreshold = _MODELS.of(counter_names.PortCounter), _MODELS.of(sizing.SizedThreshold)
    PortPause, Root = _MODELS.of(pause_graph.PortPause), _MODELS.of(pause_graph.Root)
    PortQos, CcQos = _MODELS.of(port.PortQos), _MODELS.of(cc_registers.CcQos)
    CcRegisters = _MODELS.of(cc_registers.CcRegisters)


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


class NamedCounter(PortCounter):
    """A counter of ``rocelab counters --names``."""


class PauseAnswer(PortPause):
    """A port that pauses its peer."""

    end: str  # type: ignore[assignment]
    """The port that sends the pauses, as node:interface."""
    peer: str  # type: ignore[assignment]
    """The port that is paused."""
    since: str | None  # type: ignore[assignment]
    """Begin of these pauses in ISO 8601 format; null if it is not known any more."""
    behind: list[PauseAnswer]  # type: ignore[assignment]
    """The pauses that the paused node sends as a consequence."""


class CongestionRoot(Root):
    """A pause tree of ``rocelab congestion``."""

    end: str | None  # type: ignore[assignment]
    """The congested queue, for example leaf1:swp6; null if no queue is congested."""
    pauses: list[PauseAnswer]  # type: ignore[assignment]


class CcRegistersAnswer(CcRegisters):
    """The registers of a NIC's congestion control: times in seconds, rates in bit/s.

    Only those of the algorithm take effect.
    """


class CcAnswer(CcQos):
    """Congestion control of a host's port."""

    registers: CcRegistersAnswer
    """The registers at the lab's rate: times x s, rates / s."""


class PortAnswer(PortQos):
    """A port of ``rocelab qos show``."""

    cc: CcAnswer | None
    """Congestion control of a host's NIC; null if it neither sends CNPs nor slows a QP down."""
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
    xoff: int | None
    """Bytes at which a group pauses its peer if it has the pool to itself; null without PFC."""
    xon: int | None
    """Bytes at which the pause ends; null without PFC."""
    drop: int | None
    """Bytes above which a group of RoCE drops if it has the pool to itself; null with PFC, which pauses instead."""
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
    cc: Literal["dcqcn", "timely"] | None
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


class PlanChoice(SizedThreshold):
    """A recommended threshold: bytes, or a probability for pmax."""


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


class MetricFamilyAnswer(Answer):
    """A metric family of ``rocelab metrics ls``."""

    name: str
    type: Literal["counter", "gauge"]
    unit: str
    """The base unit, if the name ends with one; otherwise a number, or the unit in ``help``."""
    exporter: str
    """The exporter that has this name on real clusters."""
    of: Literal["hosts", "switches", "nodes", "fabric"]
    labels: list[str]
    counter: str
    """The counters behind the family, as ``rocelab counters --names`` or the kernel has them."""
    help: str
