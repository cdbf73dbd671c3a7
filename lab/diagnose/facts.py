"""The facts of a window of time: counters, events, routes and each device's own configuration.

The facts contain neither the intended state nor the injected faults. They contain roles and cabling, which LLDP would
report, and nothing else of the topology. ``lab.diagnose.extract`` reads facts from a recording; symptoms
are predicates over them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from lab.telemetry.read import measures
from lab.telemetry.store.session_states import TITLES, UP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.diagnose.conservation.hop_balance import HopBalance
    from lab.diagnose.ip_stacks import Stack
    from lab.diagnose.overlay_forwarding import Forwarding
    from lab.model.qos.port import NodeQos, PortQos
    from lab.telemetry.read.recorded_jobs import RecordedJob
    from lab.telemetry.read.window_measure import Measure


ARROW: Final = " -> "
"""Between the ends of a transfer, as ``lab.rdma`` names it."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The counters of one priority of a port, with the queue and the group of the same number.

    Counts are the growth during the window. ``paused`` is a share of the window. ``depth``, ``deepest`` and
    ``shallowest`` are the mean, maximum and minimum of the sampled queue depth, in bytes. ``spread`` is the range, in
    bytes, of the middle 80% of these samples. ``storms_so_far`` counts the watchdog's storms from the beginning of
    the recording to the end of the window.
    """

    port: str
    priority: int
    rx_bytes: int = 0
    rx_packets: int = 0
    tx_bytes: int = 0
    tx_packets: int = 0
    pauses_in: int = 0
    resumes_in: int = 0
    ignored: int = 0
    paused: float = 0.0
    pauses_out: int = 0
    resumes_out: int = 0
    depth: float = 0.0
    deepest: int = 0
    shallowest: int = 0
    spread: int = 0
    offered: int = 0
    marked: int = 0
    not_ect: int = 0
    drops: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0
    headroom: int = 0
    storms: int = 0
    restored: int = 0
    storms_so_far: int = 0

    @property
    def dropped(self) -> int:
        """Packets dropped in the queue, for any reason."""
        return sum(self.drops.values())

    @property
    def share_marked(self) -> float:
        """The share of sent packets that were marked, 0 to 1.

        Packets marked at the end of the window are sent after it, so that the ratio is limited to 1.
        """
        return min(1.0, self.marked / self.tx_packets) if self.tx_packets else 0.0


LANE_COUNTS: Final[Mapping[str, Measure]] = {
    "rx_bytes": measures.RX_BYTES, "rx_packets": measures.RX_PACKETS, "tx_bytes": measures.TX_BYTES,
    "tx_packets": measures.TX_PACKETS, "pauses_in": measures.XOFF_RX, "resumes_in": measures.XON_RX,
    "ignored": measures.XOFF_IGNORED, "pauses_out": measures.XOFF_TX, "resumes_out": measures.XON_TX,
    "offered": measures.OFFERED_PACKETS, "marked": measures.ECN_MARKED, "not_ect": measures.NOT_ECT,
    "refused": measures.REFUSED, "storms": measures.STORMS, "restored": measures.STORMS_RESTORED,
}  # fmt: skip
"""The measure of each count of a lane."""
PORT_COUNTS: Final[Mapping[str, Measure]] = {
    "pfc": measures.PFC_RX, "invalid": measures.PFC_INVALID, "global_pause": measures.GLOBAL_PAUSE_RX,
    "sent_pfc": measures.PFC_TX, "ce_rx": measures.CE_RX, "cnps_sent": measures.CNP_SENT, "cnps_rx": measures.CNP_RX,
    "cnps_handled": measures.CNP_HANDLED, "overtaken_acks_rx": measures.ACKS_OVERTAKEN_RX,
    "overtaken_acks_tx": measures.ACKS_OVERTAKEN_TX,
}  # fmt: skip
"""The measure of each count of a port."""


@dataclass(frozen=True, slots=True)
class PortFacts:
    """A port: its peer, and its counters of MAC control frames and of congestion control in the window."""

    name: str
    peer: str
    host: bool
    """Whether the port is a host's NIC."""
    pfc: int = 0
    invalid: int = 0
    global_pause: int = 0
    sent_pfc: int = 0
    """PFC frames that the port itself generated."""
    ce_rx: int = 0
    """Packets with CE received by a NIC that has congestion control."""
    cnps_sent: int = 0
    cnps_rx: int = 0
    """CNPs that arrived, at a NIC or at a switch on their way."""
    cnps_handled: int = 0
    """CNPs that slowed a QP down."""
    overtaken_acks_rx: int | None = None
    """Acknowledgements received after a newer one of their queue pair; None in recordings that do not count them."""
    overtaken_acks_tx: int | None = None

    @property
    def control(self) -> int:
        """MAC control frames received, of all kinds."""
        return self.pfc + self.invalid + self.global_pause

    @property
    def node(self) -> str:
        """The name of the port's node."""
        return self.name.partition(":")[0]

    @property
    def interface(self) -> str:
        """The name of the interface on its node."""
        return self.name.partition(":")[2]


@dataclass(frozen=True, slots=True)
class LinkEvent:
    """A link event from the kernel. ``seconds`` is relative to the beginning of the recording."""

    seconds: float
    port: str
    up: bool
    mtu: int


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A state change of a routing session. ``seconds`` is relative to the beginning of the recording."""

    seconds: float
    port: str
    state: str
    kind: str = "bgp"
    """The kind of the session's events: bgp, ospf, ospf6 or isis."""

    @property
    def is_up(self) -> bool:
        """Whether the session is in the state in which it exchanges routes."""
        return self.state == UP[self.kind]

    @property
    def title(self) -> str:
        """The session's title, for example "BGP session"."""
        return TITLES[self.kind]


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that a user ran, its exit code and its output."""

    seconds: float
    node: str
    argv: tuple[str, ...]
    exit_code: int
    printed: str


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of a path sweep on one path: small and large packets sent and received.

    ``size`` is the length of a large packet in octets, from its IP header on. ``port`` is the UDP source port that
    selects the path.
    """

    seconds: float
    path: tuple[str, ...]
    port: int
    size: int
    sent: int
    came: int
    large_sent: int
    large_came: int
    delay: float | None = None
    """The smallest one-way delay of a small packet, in seconds; None if none arrived, or if it was not measured."""


@dataclass(frozen=True, slots=True)
class SweptPair:
    """Small packets from one NIC to another (``h1``, or ``h1:eth2`` if hosts have several): sent and received."""

    seconds: float
    src: str
    dst: str
    sent: int
    came: int
    delay: float | None
    """As that of a path."""


@dataclass(frozen=True, slots=True)
class ArpProbe:
    """An ARP probe for an address: the port that sent it, and the MACs that answered."""

    seconds: float
    port: str
    address: str
    macs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Silence:
    """A routing daemon that did not answer within a second, or that is gone: nothing listens at its socket."""

    seconds: float
    node: str
    daemon: str
    gone: bool


@dataclass(frozen=True, slots=True)
class GaveUp:
    """A transfer that failed to start or ended early, and the last output of its program."""

    seconds: float
    pairs: str
    said: str


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A training job that ended with an error, its NICs, and the fixed path MTU of its library."""

    seconds: float
    job: str
    nics: tuple[str, ...]
    mtu: int | None
    said: str


@dataclass(frozen=True, slots=True)
class StartedTransfer:
    """A transfer of ``qps`` QPs between two NICs, from ``h1:eth1`` to ``h4:eth1``. Often not recorded."""

    src: str
    dst: str
    qps: int
    gid_index: int | None = None


@dataclass(frozen=True)
class WindowFacts:
    """All facts of a window. Times are seconds of the recording."""

    start: float
    end: float
    ports: Mapping[str, PortFacts]
    lanes: Mapping[tuple[str, int], Lane]
    devices: Mapping[str, Mapping[str, int]]
    """By NIC (``h1:eth1``): the growth of its RDMA device's counters. NICs without a device are missing."""
    addresses: Mapping[str, str]
    """By NIC: the address from which its host's kernel sends (the preferred source of the link's route)."""
    routes: Mapping[str, Mapping[str, tuple[str, ...]]]
    """By switch and prefix: the next hops' interfaces at the end of the window."""
    links: tuple[LinkEvent, ...] = ()
    hops: tuple[HopBalance, ...] = ()
    """The balance of packets of each link direction, switch and NIC; empty if the samples are not known."""
    mtus: Mapping[str, int] = field(default_factory=dict)
    """By port: its smallest MTU in the window. Ports without a recorded MTU are missing."""
    without_device: Mapping[str, float] = field(default_factory=dict)
    """NICs (``h1:eth1``) without an RDMA device, and since when; 0 if there never was one."""
    down: frozenset[str] = frozenset()
    """Ports whose link is down at the end of the window."""
    readdressed: Mapping[str, float] = field(default_factory=dict)
    """NICs whose address was removed and added again, before or in the window, and the time."""
    sessions: tuple[SessionChange, ...] = ()
    silences: tuple[Silence, ...] = ()
    ran: tuple[Ran, ...] = ()
    swept: tuple[Swept, ...] = ()
    """One for each path that was swept; empty without a sweep."""
    swept_pairs: tuple[SweptPair, ...] = ()
    """One for each direction of a pair of NICs that was swept."""
    asked: tuple[ArpProbe, ...] = ()
    gave_up: tuple[GaveUp, ...] = ()
    failed_jobs: tuple[FailedJob, ...] = ()
    stacks: Mapping[str, Stack] = field(default_factory=dict)
    """By node: its IP stack at the end of the window."""
    transfers: tuple[StartedTransfer, ...] = ()
    jobs: tuple[RecordedJob, ...] = ()
    """Training jobs, with the steps that ended in the window."""
    qos: Mapping[str, NodeQos] = field(default_factory=dict)
    """By node: the configuration of its ports."""
    forwarding: Mapping[str, Forwarding] = field(default_factory=dict)
    """By node of an overlay: its forwarding state at the end of the window; empty if not recorded."""
    bridged: bool = False
    """Whether the switches bridge plain VLANs, with links blocked by a spanning tree."""
    plain: bool = False
    """Whether no port counts priorities: then there are no facts about congestion, classes and losses."""
    planned_rates: Mapping[str, int] = field(default_factory=dict)
    """By port: the rate of its link in the topology, in bit/s. A link that is slow by design is no fault."""
    planned_delays: Mapping[str, float] = field(default_factory=dict)
    """By port: the delay of its link in the topology, in seconds."""
    current: bool = False
    """Whether ``qos`` is the configuration in the window; otherwise it is that of the recording's beginning."""
    switched_watchdogs: frozenset[str] = frozenset()
    """Ports whose PFC watchdog was enabled or disabled since the beginning of the recording."""
    missing: tuple[str, ...] = ()
    """Facts that the window does not have, as phrases."""

    @property
    def seconds(self) -> float:
        """The length of the window in seconds."""
        return self.end - self.start

    @cached_property
    def by_port(self) -> Mapping[str, tuple[Lane, ...]]:
        """The lanes by port, for ports that have any."""
        found: dict[str, list[Lane]] = {}
        for lane in self.lanes.values():
            found.setdefault(lane.port, []).append(lane)
        return {port: tuple(lanes) for port, lanes in found.items()}

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """The names of the switches."""
        return tuple(dict.fromkeys(port.node for port in self.ports.values() if not port.host))

    def lane(self, port: str, priority: int) -> Lane:
        """Return the lane of a port and priority, with zero counts if nothing was recorded."""
        return self.lanes.get((port, priority)) or Lane(port, priority)

    def peer(self, port: str) -> str:
        """Return the port at the other end of the cable; "" if there is none."""
        known = self.ports.get(port)
        return known.peer if known else ""

    def is_host(self, port: str) -> bool:
        """Return whether a port is a host's NIC."""
        known = self.ports.get(port)
        return known is not None and known.host

    def ports_of(self, node: str) -> Iterator[PortFacts]:
        """Yield the ports of a node."""
        return (port for port in self.ports.values() if port.node == node)

    def pauses_others(self, node: str, priority: int) -> bool:
        """Return whether any port of a node sent pauses of a priority in the window."""
        return any(self.lane(port.name, priority).pauses_out for port in self.ports_of(node))

    def nic_of(self, port: str) -> str:
        """Return the interface that has the address of a host's port: its bond, or the port itself."""
        node, _, interface = port.partition(":")
        known = self.forwarding.get(node)
        return f"{node}:{known.bonds.get(interface, interface)}" if known else port

    def links_of(self, nic: str) -> tuple[PortFacts, ...]:
        """Return the cabled ports of a NIC: the port of that name, or the members of a bond.

        If the members of the bond are not known, return all cabled ports of the host.
        """
        cabled = tuple(port for port in self.ports_of(nic.partition(":")[0]) if port.peer)
        return tuple(port for port in cabled if self.nic_of(port.name) == nic) or cabled

    def nics_that_reach(self, node: str, address: str) -> tuple[str, ...]:
        """Return the NICs that a node's route to an address uses; without such a route, all of its cabled NICs."""
        stack = self.stacks.get(node)
        route = stack.route_to(address) if stack else None
        if route is not None and route.interfaces:
            return tuple(f"{node}:{interface}" for interface in route.interfaces)
        return tuple(dict.fromkeys(self.nic_of(port.name) for port in self.ports_of(node) if port.peer))

    def config(self, port: str) -> PortQos | None:
        """Return a port's configuration, or None if it is not known."""
        node, _, interface = port.partition(":")
        qos = self.qos.get(node)
        return qos.ports.get(interface) if qos else None

    def rate(self, port: str) -> float:
        """Return the rate of a port's link in bit/s; 0.0 if it is not known."""
        config = self.config(port)
        return float(config.rate) if config else 0.0

    def load(self, lane: Lane) -> float:
        """Return a lane's load as a share of its link's rate, without framing overhead; 0.0 if unknown."""
        rate = self.rate(lane.port)
        return self.sent_bps(lane) / rate if rate else 0.0

    def port_load(self, port: str) -> float:
        """Return the load of a port in all priorities together, as ``load`` does of one."""
        return sum(self.load(lane) for lane in self.by_port.get(port, ()))

    def sent_bps(self, lane: Lane) -> float:
        """Return the bit/s that a lane sent in the window, without framing overhead."""
        return float(measures.TX_RATE.of_growth(lane.tx_bytes, self.seconds))

    def lossless(self, port: str) -> tuple[int, ...]:
        """Return the priorities with PFC in a port's configuration; only 3 if the configuration is not known."""
        config = self.config(port)
        return tuple(n for n in range(8) if config.pfc.priorities >> n & 1) if config else (3,)
