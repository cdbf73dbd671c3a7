"""The registry of metric families: their names in real exporters, and the counters behind them.

A family has a name, a type, labels, and one or more parts. A part is a counter of ports, devices or plain links, with
the label values that distinguish it from the other parts: ``direction="rx"``. Families of routing daemons, of
training jobs and of settings have no parts: they are read from the daemons' answers, from the steps of the last job,
and from the configuration.

Names and meanings of counters are not repeated here. Counters of NICs are found by their name in mlx5, those of
switches by their name in SAI, and others by their measure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lab.dataplane.counter_names import COUNTERS, CounterScope
from lab.rdma.device_counters import MEANINGS
from lab.telemetry.read import measures
from lab.telemetry.read.window_measure import LINK_TABLE, MeasureScope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.dataplane.counter_names import PortCounter
    from lab.telemetry.read.window_measure import Measure

INSTANCE: Final = "instance"
"""The label with the node: real exporters run on each node, and Prometheus adds the label."""
INTERFACE, RDMA_DEVICE, NUMBER = "{interface}", "{device}", "{number}"
"""Label values that depend on the row of a counter's table."""


class MetricType(StrEnum):
    """The type of a family: a counter only grows, a gauge may fall."""

    COUNTER = "counter"
    GAUGE = "gauge"


class MetricOwner(StrEnum):
    """The objects whose counters a family has."""

    HOSTS = "hosts"
    SWITCHES = "switches"
    NODES = "nodes"
    FABRIC = "fabric"
    """The fabric as a whole: without the label of a node."""


@dataclass(frozen=True, slots=True)
class MetricPart:
    """One counter of a family: a column of a table, multiplied by ``scale``, and its own label values.

    ``total`` adds up the eight priorities of each port.
    """

    table: str
    column: str
    values: tuple[str, ...] = ()
    scale: float = 1.0
    total: bool = False

    @property
    def shown(self) -> str:
        """The counter's name as ``rocelab counters`` or the kernel has it, with N for a number."""
        return _SHOWN.get((self.table, self.column), self.column)


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric family.

    ``labels`` maps label names to values, of which some depend on the counter's row; ``own`` are the names of the
    labels in ``MetricPart.values``.
    """

    name: str
    kind: MetricType
    exporter: str
    """The exporter with this name, or rocelab."""
    help: str
    labels: Mapping[str, str]
    own: tuple[str, ...] = ()
    parts: tuple[MetricPart, ...] = ()
    unit: str = ""
    owner: MetricOwner = MetricOwner.NODES
    of_cc: bool = False
    """Whether only NICs with congestion control have the counters."""
    restarts: bool = False
    """Whether its counters begin again at 0 when a daemon restarts."""
    source: str = ""
    """Its source, if it has no parts."""

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of all labels, in order."""
        node = () if self.owner is MetricOwner.FABRIC else (INSTANCE,)
        return (*node, *self.labels, *self.own)

    @property
    def behind(self) -> str:
        """The counters behind the family, as written in the documentation."""
        return self.source or ", ".join(dict.fromkeys(part.shown for part in self.parts))


def _place(counter: PortCounter) -> tuple[str, str]:
    return MeasureScope(counter.scope).table, counter.name_of("")


_SHOWN: Final = {_place(counter): counter.name_of("N") for counter in COUNTERS}
_BY_MLX5: Final = {counter.mlx5: counter for counter in COUNTERS if counter.mlx5}
_COUNTER, _GAUGE = MetricType.COUNTER, MetricType.GAUGE
_MICROSECONDS: Final = 1e-6
_NIC: Final = {"device": RDMA_DEVICE, "port": "1"}
_NETDEV: Final = {**_NIC, "netdev": INTERFACE}
_RX, _TX = ("rx",), ("tx",)
_RDMA_EXPORTER: Final = "rdma_exporter"


def _nic(name: str, *counters: tuple[str, tuple[str, ...]], **others: object) -> MetricFamily:
    """Return a family of rdma_exporter from counters of ``ethtool -S``, each with the value of ``direction`` or none.

    Counters are given by their names in mlx5; a number in the name becomes the label ``priority``.
    """
    found = [(_BY_MLX5[mlx5], values) for mlx5, values in counters]
    numbered = found[0][0].scope is not CounterScope.PORT
    netdev = name.startswith(("rdma_roce", "rdma_netdev"))
    parts = tuple(MetricPart(*_place(counter), values=values) for counter, values in found)
    return MetricFamily(
        name=name,
        kind=_COUNTER,
        exporter=_RDMA_EXPORTER,
        help="; ".join(f"{' '.join(values)} {counter.meaning}".strip() for counter, values in found),
        labels={**(_NETDEV if netdev else _NIC), **({"priority": NUMBER} if numbered else {})},
        own=("direction",) if found[0][1] else (),
        parts=parts,
        owner=MetricOwner.HOSTS,
        **others,  # type: ignore[arg-type]
    )


def _of_nics() -> Iterator[MetricFamily]:
    yield _nic("rdma_roce_pfc_pause_frames_total", ("rx_prion_pause", _RX), ("tx_prion_pause", _TX))
    yield _nic("rdma_roce_pfc_pause_duration_total", ("rx_prion_pause_duration", _RX))
    yield MetricFamily(
        name="rdma_roce_pfc_pause_transitions_total",
        kind=_COUNTER,
        exporter=_RDMA_EXPORTER,
        help=measures.XON_RX.meaning,
        labels={**_NETDEV, "priority": NUMBER},
        own=("direction",),
        parts=tuple(MetricPart(*place, values=_RX) for place in measures.XON_RX.columns),
        owner=MetricOwner.HOSTS,
    )
    yield _nic("rdma_netdev_global_pause_frames_total", ("rx_global_pause", _RX))
    yield _nic("rdma_netdev_prio_ecn_marked_total", ("rx_prion_marked", ()))
    yield _nic("rdma_netdev_prio_cong_discard_total", ("rx_prion_cong_discard", ()))
    yield _nic("rdma_netdev_prio_buf_discard_total", ("rx_prion_buf_discard", ()))
    for mlx5 in ("np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored"):
        yield _nic(f"rdma_{mlx5}_total", (mlx5, ()), of_cc=True)
    yield _nic("rdma_cc_rx_ce_pkts_total", ("np_ecn_marked_roce_packets", ()), of_cc=True)
    yield _nic("rdma_cc_tx_cnp_pkts_total", ("np_cnp_sent", ()), of_cc=True)
    yield _of_measure("rdma_cc_rx_cnp_pkts_total", _RDMA_EXPORTER, _NIC, measures.CNP_RX)


def _of_measure(
    name: str, exporter: str, labels: Mapping[str, str], measure: Measure, unit: str = ""
) -> MetricFamily:
    """Return a family of hosts with the counters of a measure."""
    return MetricFamily(
        name=name,
        kind=_COUNTER,
        exporter=exporter,
        help=measure.meaning,
        labels=labels,
        parts=tuple(MetricPart(*place) for place in measure.columns),
        unit=unit,
        owner=MetricOwner.HOSTS,
    )


_TRAFFIC: Final = "_vport_rdma_unicast_"
"""Part of mlx5's names of a function's RDMA traffic."""


def _of_devices() -> Iterator[MetricFamily]:
    """Yield the families of RDMA devices: those of sysfs, and traffic, which mlx5 counts for each function."""
    table = MeasureScope.DEVICE.table
    for counter, meaning in MEANINGS.items():
        if meaning.mlx5 and _TRAFFIC not in meaning.mlx5:
            yield MetricFamily(
                name=f"rdma_{meaning.mlx5}_total",
                kind=_COUNTER,
                exporter=_RDMA_EXPORTER,
                help=meaning.text,
                labels=_NIC,
                parts=(MetricPart(table, counter),),
                owner=MetricOwner.HOSTS,
            )
    for unit in ("packets", "bytes"):
        of_unit = [(name, each.mlx5[:2]) for name, each in MEANINGS.items() if each.mlx5.endswith(_TRAFFIC + unit)]
        yield MetricFamily(
            name=f"rdma_netdev_vport_rdma_{unit}_total",
            kind=_COUNTER,
            exporter=_RDMA_EXPORTER,
            help=f"{unit} of RoCE packets, retransmissions and ACKs included",
            labels=_NETDEV,
            own=("direction", "traffic"),
            parts=tuple(MetricPart(table, name, values=(direction, "unicast")) for name, direction in of_unit),
            owner=MetricOwner.HOSTS,
        )
    for name, measure in (
        ("port_data_received_bytes", measures.RDMA_RECEIVED_BYTES),
        ("port_data_transmitted_bytes", measures.RDMA_SENT_BYTES),
        ("port_packets_received", measures.RDMA_RECEIVED),
        ("port_packets_transmitted", measures.RDMA_SENT),
    ):
        unit = "bytes" if name.endswith("bytes") else ""
        yield _of_measure(f"node_infiniband_{name}_total", "node_exporter", _NIC, measure, unit)


def _of_networks() -> Iterator[MetricFamily]:
    """Yield the families of network interfaces: of plain links, and sums over the priorities of lossless ports."""
    for name, measure in (
        ("receive_bytes", measures.RX_BYTES),
        ("receive_packets", measures.RX_PACKETS),
        ("transmit_bytes", measures.TX_BYTES),
        ("transmit_packets", measures.TX_PACKETS),
    ):
        parts = tuple(MetricPart(table, column, total=table != LINK_TABLE) for table, column in measure.columns)
        yield _of_network(name, measure.meaning, parts, "bytes" if name.endswith("bytes") else "")
    for name, column in (
        ("receive_drop", "rx_dropped"),
        ("transmit_drop", "tx_dropped"),
        ("receive_errs", "rx_errors"),
        ("transmit_errs", "tx_errors"),
    ):
        yield _of_network(name, f"{column} of ip -s link", (MetricPart(LINK_TABLE, column),))


def _of_network(name: str, meaning: str, parts: tuple[MetricPart, ...], unit: str = "") -> MetricFamily:
    return MetricFamily(
        name=f"node_network_{name}_total",
        kind=_COUNTER,
        exporter="node_exporter",
        help=meaning,
        labels={"device": INTERFACE},
        parts=parts,
        unit=unit,
    )


_LABELS: Final = {
    CounterScope.PORT: {},
    CounterScope.PRIORITY: {"priority": NUMBER},
    CounterScope.QUEUE: {"queue": NUMBER},
    CounterScope.GROUP: {"pg": NUMBER},
}
_SAI: Final = "SONiC, SAI"
_GROUP_NAMES: Final = "SAI_INGRESS_PRIORITY_GROUP_"


def sonic_name(sai: str, kind: MetricType) -> str:
    """Return the family of a SAI counter: lower case, without ``STAT`` and numbers, in base units."""
    plain = sai.replace("_STATS_", "_").replace("_STAT_", "_").replace("_PFC_n_", "_PFC_").removeprefix("SAI_")
    plain = plain.replace("_PKTS", "_PACKETS").replace("_DURATION_US", "_DURATION_SECONDS")
    return f"sonic_{plain.lower()}" + ("_total" if kind is _COUNTER else "")


def _of_switches() -> Iterator[MetricFamily]:
    """Yield a family for each counter with a name in SAI; SAI's priority groups are not rocelab's priorities."""
    for counter in COUNTERS:
        of_group = counter.sonic.startswith(_GROUP_NAMES)
        if not counter.sonic or (of_group and counter.scope is not CounterScope.GROUP):
            continue
        kind = _GAUGE if counter.gauge else _COUNTER
        seconds = counter.sonic.endswith("_US")
        name = sonic_name(counter.sonic, kind)
        yield MetricFamily(
            name=name,
            kind=kind,
            exporter=_SAI,
            help=counter.meaning.replace("microseconds", "seconds"),
            labels={"device": INTERFACE, **_LABELS[counter.scope]},
            parts=(MetricPart(*_place(counter), scale=_MICROSECONDS if seconds else 1.0),),
            unit="seconds" if seconds else "bytes" if name.removesuffix("_total").endswith("_bytes") else "",
            owner=MetricOwner.SWITCHES,
        )


_PEER: Final = dict.fromkeys(("vrf", "afi", "safi", "local_as", "peer", "peer_as", "peer_desc"), "")
_BFD_PEER: Final = dict.fromkeys(("local", "peer", "interface"), "")
_SUMMARY: Final = "show bgp summary"


def _frr(name: str, text: str, source: str, kind: MetricType = _GAUGE, **others: object) -> MetricFamily:
    labels = _PEER if "_bgp_" in name else _BFD_PEER
    return MetricFamily(
        name=name, kind=kind, exporter="frr_exporter", help=text, labels=labels, source=source,
        owner=MetricOwner.SWITCHES, restarts=kind is _COUNTER, **others,  # type: ignore[arg-type]
    )  # fmt: skip


BGP_STATE: Final = _frr(
    "frr_bgp_peer_state",
    "state of the peer: 2 is administratively down, 1 established, 0 down",
    f"{_SUMMARY}: state",
)
BGP_UPTIME: Final = _frr(
    "frr_bgp_peer_uptime_seconds", "time since the session changed its state", f"{_SUMMARY}: peerUptimeMsec",
    unit="seconds",
)  # fmt: skip
BGP_RECEIVED: Final = _frr(
    "frr_bgp_peer_message_received_total", "messages received from the peer", f"{_SUMMARY}: msgRcvd", _COUNTER
)
BGP_SENT: Final = _frr(
    "frr_bgp_peer_message_sent_total", "messages sent to the peer", f"{_SUMMARY}: msgSent", _COUNTER
)
REMOTE_VTEPS: Final = MetricFamily(
    name="frr_bgp_l2vpn_evpn_remote_vteps",
    kind=_GAUGE,
    exporter="frr_exporter",
    help="VTEPs of other leaves to which the VNI floods",
    labels=dict.fromkeys(("vni", "type", "vxlan_if", "tenant_vrf"), ""),
    source="show evpn vni: numRemoteVteps",
    owner=MetricOwner.SWITCHES,
)
BFD_STATE: Final = _frr("frr_bfd_peer_state", "state of the peer: 1 is up, 0 down", "show bfd peers: status")
BFD_UPTIME: Final = _frr("frr_bfd_peer_uptime", "seconds since the session is up", "show bfd peers: uptime")
COLLECTOR_UP: Final = MetricFamily(
    name="frr_collector_up",
    kind=_GAUGE,
    exporter="frr_exporter",
    help="whether the daemon answered",
    labels={"collector": ""},
    source="bgpd, bfdd and zebra: an answer",
    owner=MetricOwner.SWITCHES,
)
ROUTES: Final = MetricFamily(
    name="frr_route_total_fib",
    kind=_GAUGE,
    exporter="frr_exporter",
    help="routes of the VRF default in the forwarding table",
    labels=dict.fromkeys(("afi", "vrf"), ""),
    source="ip route: prefixes",
    owner=MetricOwner.SWITCHES,
)
NEXT_HOP_MEMBERS: Final = MetricFamily(
    name="sonic_crm_stats_nexthop_group_member_used",
    kind=_GAUGE,
    exporter=_SAI,
    help="next hops in groups of equal-cost paths; routes with the same next hops share a group",
    labels={},
    source="ip route: nexthop",
    owner=MetricOwner.SWITCHES,
)
DUPLICATE_MACS: Final = MetricFamily(
    name="rocelab_evpn_duplicate_macs",
    kind=_GAUGE,
    exporter="rocelab",
    help="MAC addresses that moved between leaves so often that zebra flags them (RFC 7432 section 15.1)",
    labels={"vni": ""},
    source="show evpn mac vni all duplicate: numMacs",
    owner=MetricOwner.SWITCHES,
)
SEGMENT_VTEPS: Final = MetricFamily(
    name="rocelab_evpn_segment_vteps",
    kind=_GAUGE,
    exporter="rocelab",
    help="other leaves with the Ethernet segment of this bond",
    labels={"device": ""},
    source="show evpn es: vteps",
    owner=MetricOwner.SWITCHES,
)
VIRTUAL_SECONDS: Final = MetricFamily(
    name="rocelab_virtual_seconds_total",
    kind=_COUNTER,
    exporter="rocelab",
    help="seconds by the fabric's clock, which differs from the wall clock in virtual time",
    labels={"fabric": ""},
    unit="seconds",
    owner=MetricOwner.FABRIC,
    source="the fabric's monotonic clock",
)


def _of_setting(name: str, exporter: str, text: str, source: str, numbered: str = "") -> MetricFamily:
    """Return a gauge of a port's setting or state; ``numbered`` is the label of its queue or register."""
    switches = name.startswith("sonic_")
    hosts = numbered == "register"
    return MetricFamily(
        name=name,
        kind=_GAUGE,
        exporter=exporter,
        help=text,
        labels=dict.fromkeys(("device", numbered) if numbered else ("device",), ""),
        unit="bytes" if name.endswith("_bytes") else "",
        owner=MetricOwner.SWITCHES if switches else MetricOwner.HOSTS if hosts else MetricOwner.NODES,
        source=source,
    )


PORT_UP: Final = _of_setting(
    "node_network_up", "node_exporter", "1 if the operational state is up, else 0", "ip link: state"
)
PORT_MTU: Final = _of_setting(
    "node_network_mtu_bytes", "node_exporter", "the largest packet of the interface", "ip link: mtu"
)
PORT_INFO: Final = MetricFamily(
    name="node_network_info",
    kind=_GAUGE,
    exporter="node_exporter",
    help="1 for the MAC address of the interface, of ports and VLAN interfaces",
    labels=dict.fromkeys(("device", "address"), ""),
    source="ip link: address",
)
PORT_SPEED: Final = _of_setting(
    "node_network_speed_bytes", "node_exporter", "rate of the link in bytes a second", "rocelab qos show: rate"
)
_ECN: Final = "rocelab qos show: ecn.N"
ECN_MODE: Final = _of_setting(
    "sonic_wred_ecn_mark_mode", _SAI, "7 if the queue marks packets, 0 if not", f"{_ECN}.enabled", "queue"
)
ECN_MINIMUM: Final = _of_setting(
    "sonic_wred_green_min_threshold_bytes", _SAI, "depth from which the queue marks", f"{_ECN}.kmin", "queue"
)
ECN_MAXIMUM: Final = _of_setting(
    "sonic_wred_green_max_threshold_bytes", _SAI, "depth from which it marks every packet", f"{_ECN}.kmax", "queue"
)
HASH_POLICY: Final = MetricFamily(
    name="node_sysctl_net_ipv4_fib_multipath_hash_policy",
    kind=_GAUGE,
    exporter="node_exporter",
    help="fields of the hash that chooses an equal-cost path: 0 is addresses, 1 also ports, 3 chosen ones",
    labels={},
    source="sysctl: net.ipv4.fib_multipath_hash_policy",
    owner=MetricOwner.SWITCHES,
)
ECN_PROBABILITY: Final = _of_setting(
    "sonic_wred_ecn_green_mark_probability", _SAI, "percentage of packets marked at the upper threshold",
    f"{_ECN}.pmax", "queue",
)  # fmt: skip
CC_REGISTER: Final = _of_setting(
    "rocelab_cc_register", "rocelab", "a register of the NIC's congestion control: seconds, bit/s or bytes",
    "rocelab qos show: nic.cc", "register",
)  # fmt: skip


def _of_job(name: str, text: str, source: str) -> MetricFamily:
    return MetricFamily(
        name=name, kind=_GAUGE, exporter="rocelab", help=text, labels={"job": "", "rank": ""}, unit="seconds",
        owner=MetricOwner.HOSTS, source=f"rocelab job train: {source}",
    )  # fmt: skip


STEP_SECONDS: Final = _of_job("rocelab_job_step_seconds", "time of the rank's last step", "step")
STEP_COMMUNICATION: Final = _of_job(
    "rocelab_job_step_communication_seconds",
    "communication of the rank's last step, with the waiting for other ranks", "communication",
)  # fmt: skip
STEP_WAITING: Final = _of_job(
    "rocelab_job_step_waiting_seconds",
    "from the begin of the rank's communication until the last rank began",
    "waiting",
)
STEP_LATENESS: Final = _of_job(
    "rocelab_job_step_late_seconds", "begin of the rank's communication after that of the median rank", "late"
)
JOB_RANK: Final = MetricFamily(
    name="rocelab_job_rank_info",
    kind=_GAUGE,
    exporter="rocelab",
    help="1 for the NIC of the rank",
    labels=dict.fromkeys(("job", "rank", "device"), ""),
    source="rocelab job train: NIC",
    owner=MetricOwner.HOSTS,
)
FAMILIES: Final = (
    VIRTUAL_SECONDS, *_of_nics(), *_of_devices(), *_of_networks(), *_of_switches(),
    BGP_STATE, BGP_UPTIME, BGP_RECEIVED, BGP_SENT, REMOTE_VTEPS, DUPLICATE_MACS, SEGMENT_VTEPS,
    BFD_STATE, BFD_UPTIME, COLLECTOR_UP,
    ROUTES, NEXT_HOP_MEMBERS, HASH_POLICY, PORT_UP, PORT_MTU, PORT_INFO, PORT_SPEED,
    ECN_MODE, ECN_MINIMUM, ECN_MAXIMUM, ECN_PROBABILITY, CC_REGISTER,
    STEP_SECONDS, STEP_COMMUNICATION, STEP_WAITING, STEP_LATENESS, JOB_RANK,
)  # fmt: skip
"""All families, in the order of the output."""
