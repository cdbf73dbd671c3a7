"""What an engineer can know of a window of time: counters, events, routes, each device's own configuration.

Nothing here says what was meant to be, or what somebody broke. Of the topology it has roles and cabling, as LLDP
would tell. ``lab.diagnose.extract`` reads facts from a recording; symptoms are predicates over them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from lab.telemetry.read import measures
from lab.telemetry.store.session_states import TITLES, UP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.diagnose.ip_stacks import Stack
    from lab.diagnose.overlay_forwarding import Forwarding
    from lab.model.qos.port import NodeQos, PortQos
    from lab.telemetry.read.measures import Measure


@dataclass(frozen=True, slots=True)
class Lane:
    """A priority of a port in the window, with the queue and the group of the same number. Counts are growth.

    ``paused`` is a share of the window. ``depth``, ``deepest`` and ``shallowest`` are bytes of the samples, mean and
    extremes; four in five of them lie within ``spread``. ``storms_so_far`` is what the watchdog has seen from the
    recording's beginning to the window's end.
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
        """Of what was sent, 0 to 1: what is marked as the window ends is sent behind it."""
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
    "sent_pfc": measures.PFC_TX,
}  # fmt: skip
"""The measure of each count of a port."""


@dataclass(frozen=True, slots=True)
class PortFacts:
    """A port: what it is cabled to, and MAC control frames that came in."""

    name: str
    peer: str
    host: bool
    """Whether it is a host's NIC."""
    pfc: int = 0
    invalid: int = 0
    global_pause: int = 0
    sent_pfc: int = 0
    """PFC frames that it sent of its own."""

    @property
    def control(self) -> int:
        """MAC control frames that came in, of all kinds."""
        return self.pfc + self.invalid + self.global_pause

    @property
    def node(self) -> str:
        """Whose it is."""
        return self.name.partition(":")[0]

    @property
    def interface(self) -> str:
        """What the node calls it."""
        return self.name.partition(":")[2]


@dataclass(frozen=True, slots=True)
class LinkEvent:
    """What the kernel told of a link: seconds of the recording."""

    seconds: float
    port: str
    up: bool
    mtu: int


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A session that brings routes and changed: seconds of the recording, whose, and what it became."""

    seconds: float
    port: str
    state: str
    kind: str = "bgp"
    """Of its events: bgp, ospf, ospf6 or isis."""

    @property
    def is_up(self) -> bool:
        """Whether routes are learned by it."""
        return self.state == UP[self.kind]

    @property
    def title(self) -> str:
        """What it is called: BGP session."""
        return TITLES[self.kind]


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that somebody ran, and what it printed."""

    seconds: float
    node: str
    argv: tuple[str, ...]
    exit_code: int
    printed: str


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep over paths sent by one of them, from which ports, and what came: small packets, and large ones.

    ``size`` is octets of a large one from its IP header on; ``port`` the UDP source port that chose the path.
    """

    seconds: float
    path: tuple[str, ...]
    port: int
    size: int
    sent: int
    came: int
    large_sent: int
    large_came: int


@dataclass(frozen=True, slots=True)
class ArpProbe:
    """A question by ARP for an address, the port that it was sent from, and the MACs that answered."""

    seconds: float
    port: str
    address: str
    macs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Silence:
    """A routing daemon that did not answer for a second, or that has gone: then nobody listens at its socket."""

    seconds: float
    node: str
    daemon: str
    gone: bool


@dataclass(frozen=True, slots=True)
class GaveUp:
    """Work between hosts that could not begin, or ended before its time, and what its program said last."""

    seconds: float
    pairs: str
    said: str


@dataclass(frozen=True, slots=True)
class StartedTransfer:
    """Work that was started: ``qps`` QPs from one NIC to another, ``h1:eth1`` to ``h4:eth1``. Often not known."""

    src: str
    dst: str
    qps: int
    gid_index: int | None = None


@dataclass(frozen=True)
class WindowFacts:
    """All that is known of a window; times are seconds of the recording."""

    start: float
    end: float
    ports: Mapping[str, PortFacts]
    lanes: Mapping[tuple[str, int], Lane]
    devices: Mapping[str, Mapping[str, int]]
    """By NIC (``h1:eth1``), growth of the counters of its RDMA device, of those that are there."""
    addresses: Mapping[str, str]
    """By NIC, its address: what its leaf has a route or a neighbour for."""
    routes: Mapping[str, Mapping[str, tuple[str, ...]]]
    """By switch and prefix, the interfaces of the next hops at the end of the window."""
    links: tuple[LinkEvent, ...] = ()
    mtus: Mapping[str, int] = field(default_factory=dict)
    """By port, the smallest MTU that it had in the window, where the recording has any."""
    without_device: Mapping[str, float] = field(default_factory=dict)
    """NICs of hosts (``h1:eth1``) whose RDMA device is gone, and since when, 0 where it never was there."""
    down: frozenset[str] = frozenset()
    """Ports whose link was down at the end of the window."""
    readdressed: Mapping[str, float] = field(default_factory=dict)
    """NICs whose address was taken off and given back, before the window or in it, and when."""
    sessions: tuple[SessionChange, ...] = ()
    silences: tuple[Silence, ...] = ()
    ran: tuple[Ran, ...] = ()
    swept: tuple[Swept, ...] = ()
    """Of each path that was swept; none where nobody probed."""
    asked: tuple[ArpProbe, ...] = ()
    gave_up: tuple[GaveUp, ...] = ()
    stacks: Mapping[str, Stack] = field(default_factory=dict)
    """By node, its IP stack at the end of the window."""
    transfers: tuple[StartedTransfer, ...] = ()
    qos: Mapping[str, NodeQos] = field(default_factory=dict)
    """By node, what its ports are configured with."""
    forwarding: Mapping[str, Forwarding] = field(default_factory=dict)
    """By node of an overlay, what it forwarded by at the end of the window; empty where that is not known."""
    bridged: bool = False
    """Whether its switches bridge plain VLANs, and a spanning tree decides which links carry."""
    plain: bool = False
    """Whether no port counts priorities: of congestion, classes and losses nothing is known."""
    current: bool = False
    """Whether ``qos`` is of the window; otherwise it is that of the recording's beginning."""
    missing: tuple[str, ...] = ()
    """What the window has not got, in words."""

    @property
    def seconds(self) -> float:
        """How long the window is."""
        return self.end - self.start

    @cached_property
    def by_port(self) -> Mapping[str, tuple[Lane, ...]]:
        """Lanes of each port that has any."""
        found: dict[str, list[Lane]] = {}
        for lane in self.lanes.values():
            found.setdefault(lane.port, []).append(lane)
        return {port: tuple(lanes) for port, lanes in found.items()}

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(dict.fromkeys(port.node for port in self.ports.values() if not port.host))

    def lane(self, port: str, priority: int) -> Lane:
        """A lane, also one of which nothing was counted."""
        return self.lanes.get((port, priority)) or Lane(port, priority)

    def peer(self, port: str) -> str:
        """The port at the other end; "" where it is cabled to none."""
        known = self.ports.get(port)
        return known.peer if known else ""

    def is_host(self, port: str) -> bool:
        """Whether a port is a host's NIC."""
        known = self.ports.get(port)
        return known is not None and known.host

    def ports_of(self, node: str) -> Iterator[PortFacts]:
        """The ports of a node."""
        return (port for port in self.ports.values() if port.node == node)

    def nic_of(self, port: str) -> str:
        """The interface that has the address of a host's port: its bond, or the port itself."""
        node, _, interface = port.partition(":")
        known = self.forwarding.get(node)
        return f"{node}:{known.bonds.get(interface, interface)}" if known else port

    def links_of(self, nic: str) -> tuple[PortFacts, ...]:
        """The cabled ports of a NIC: the port of that name, or the members of a bond.

        All cabled ports of its host where the members of the bond are not known.
        """
        cabled = tuple(port for port in self.ports_of(nic.partition(":")[0]) if port.peer)
        return tuple(port for port in cabled if self.nic_of(port.name) == nic) or cabled

    def nics_that_reach(self, node: str, address: str) -> tuple[str, ...]:
        """The NICs by which a node sends to an address, by its routes; all of its NICs where they are not known."""
        stack = self.stacks.get(node)
        route = stack.route_to(address) if stack else None
        if route is not None and route.interfaces:
            return tuple(f"{node}:{interface}" for interface in route.interfaces)
        return tuple(dict.fromkeys(self.nic_of(port.name) for port in self.ports_of(node) if port.peer))

    def config(self, port: str) -> PortQos | None:
        """What a port is configured with, as far as it is known."""
        node, _, interface = port.partition(":")
        qos = self.qos.get(node)
        return qos.ports.get(interface) if qos else None

    def rate(self, port: str) -> float:
        """bit/s of a port's link; 0.0 where it is not known."""
        config = self.config(port)
        return float(config.rate) if config else 0.0

    def load(self, lane: Lane) -> float:
        """What share of its link's rate a lane sent, without what frames have around them; 0.0 where unknown."""
        rate = self.rate(lane.port)
        return self.sent_bps(lane) / rate if rate else 0.0

    def sent_bps(self, lane: Lane) -> float:
        """Bit/s that a lane sent in the window, without what frames have around them."""
        return float(measures.TX_RATE.of_growth(lane.tx_bytes, self.seconds))

    def lossless(self, port: str) -> tuple[int, ...]:
        """Priorities for which a port has PFC, by its own configuration; priority 3 where that is not known."""
        config = self.config(port)
        return tuple(n for n in range(8) if config.pfc.priorities >> n & 1) if config else (3,)
