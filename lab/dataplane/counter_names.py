"""The counters of an emulated port, with their names in NVIDIA's NICs and in SONiC.

- ``mlx5``: the name in ``ethtool -S`` of NVIDIA's NICs (drivers/net/ethernet/mellanox/mlx5/core/en_stats.c).
- ``sonic``: the name in SONiC's COUNTERS_DB, from SAI (inc/saiport.h, saiqueue.h, saibuffer.h) or the PFC watchdog.

``n`` stands for the number of the priority, queue or group. An empty name means that no equivalent is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from lab.dataplane.port_layout import Drop

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NS_PER_US: Final = 1000


class CounterScope(StrEnum):
    """The scope of a counter: the port, or one of its eight priorities, queues or groups."""

    PORT = "port"
    PRIORITY = "priority"
    QUEUE = "queue"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class PortCounter:
    """One counter of a port, or of each priority, queue or group."""

    scope: CounterScope
    """The scope of the counter; {n} in its name is the number of the priority, queue or group."""
    name: str
    field: str
    """The field in the kernel's record."""
    meaning: str
    mlx5: str = ""
    """Its name in ethtool -S of a ConnectX; empty if there is none."""
    sonic: str = ""
    """Its name in SONiC's COUNTERS_DB; empty if there is none."""
    reason: Drop | None = None
    """For drops: the reason, numbered like value of queue_drops in ``rocelab qos events``."""
    gauge: bool = False
    """Whether it is a current value or a maximum; other counters only grow."""
    unit: int = 1
    """Divisor of the kernel's value: 1000 converts ns to us."""

    def record(self, ports: NDArray[Any]) -> NDArray[Any]:
        """Return the records that contain the field: those of ``ports``, or a row of eight for each port."""
        records: NDArray[Any] = ports if self.scope is CounterScope.PORT else ports[self.scope.value]
        return records

    def of(self, ports: NDArray[Any]) -> NDArray[Any]:
        """Return the values: one for each of ``ports``, or a row of eight for each port."""
        column = self.record(ports)[self.field]
        chosen: NDArray[Any] = column if self.reason is None else column[..., self.reason]
        return chosen // self.unit

    def name_of(self, number: int | str) -> str:
        """Return the name for priority, queue or group ``number``."""
        return self.name.replace("{n}", str(number))


def _priority(name: str, field: str, meaning: str, mlx5: str = "", sonic: str = "", **others: Any) -> PortCounter:
    return PortCounter(
        scope=CounterScope.PRIORITY, name=name, field=field, meaning=meaning, mlx5=mlx5, sonic=sonic, **others
    )


def _queue(name: str, field: str, meaning: str, mlx5: str = "", sonic: str = "", **others: Any) -> PortCounter:
    return PortCounter(
        scope=CounterScope.QUEUE,
        name=f"queue{{n}}_{name}",
        field=field,
        meaning=meaning,
        mlx5=mlx5,
        sonic=sonic,
        **others,
    )


def _dropped(reason: Drop, meaning: str, mlx5: str = "", sonic: str = "") -> tuple[PortCounter, PortCounter]:
    name = f"drop_{reason.name.lower()}"
    packets = _queue(f"{name}_packets", "drop_packets", meaning, mlx5, sonic, reason=reason)
    return packets, _queue(f"{name}_bytes", "drop_bytes", "their bytes", reason=reason)


def _group(name: str, field: str, meaning: str, sonic: str = "", *, gauge: bool = False) -> PortCounter:
    return PortCounter(
        scope=CounterScope.GROUP,
        name=f"pg{{n}}_{name}",
        field=field,
        meaning=meaning,
        mlx5="",
        sonic=sonic,
        gauge=gauge,
    )


def _port(name: str, field: str, meaning: str, mlx5: str = "", sonic: str = "", **others: Any) -> PortCounter:
    return PortCounter(
        scope=CounterScope.PORT, name=name, field=field, meaning=meaning, mlx5=mlx5, sonic=sonic, **others
    )


_PG: Final = "SAI_INGRESS_PRIORITY_GROUP_STAT_"
_Q: Final = "SAI_QUEUE_STAT_"
_PFC: Final = "SAI_PORT_STAT_PFC_n_"
_DOG: Final = "PFC_WD_QUEUE_STATS_"

COUNTERS: Final = (
    _priority("rx_prio{n}_packets", "rx_packets", "packets received", "rx_prion_packets", f"{_PG}PACKETS"),
    _priority("rx_prio{n}_bytes", "rx_bytes", "bytes received, without FCS", "rx_prion_bytes", f"{_PG}BYTES"),
    _priority("tx_prio{n}_packets", "tx_packets", "packets sent", "tx_prion_packets"),
    _priority("tx_prio{n}_bytes", "tx_bytes", "bytes sent, without FCS", "tx_prion_bytes"),
    _priority("rx_prio{n}_pause", "rx_pause", "PFC frames received that paused"
        " the port", "rx_prion_pause", f"{_PFC}RX_PKTS"),
    _priority("rx_prio{n}_resume", "rx_resume", "PFC frames with 0 quanta: XON"),
    _priority("rx_prio{n}_pause_ignored", "rx_pause_ignored", "PFC frames received that the port does not obey"
        " (pfc.rx is off)"),
    _priority(
        "rx_prio{n}_pause_duration", "paused_ns", "microseconds for which the port was paused",
        "rx_prion_pause_duration", f"{_PFC}RX_PAUSE_DURATION_US", unit=_NS_PER_US,
    ),
    _priority("tx_prio{n}_pause", "tx_pause", "PFC frames sent that pause the"
        " peer", "tx_prion_pause", f"{_PFC}TX_PKTS"),
    _priority("tx_prio{n}_resume", "tx_resume", "PFC frames with 0 quanta: XON"),
    _queue("depth_bytes", "depth_bytes", "bytes in the queue", "", f"{_Q}CURR_OCCUPANCY_BYTES", gauge=True),
    _queue("depth_packets", "depth_packets", "packets in the queue", gauge=True),
    _queue("watermark_bytes", "watermark_bytes", "peak bytes in the queue", "", f"{_Q}WATERMARK_BYTES", gauge=True),
    _queue("offered_packets", "offered_packets", "packets offered to the queue"),
    _queue("offered_bytes", "offered_bytes", "their bytes"),
    _queue("packets", "sent_packets", "packets sent", "", f"{_Q}PACKETS"),
    _queue("bytes", "sent_bytes", "bytes sent", "", f"{_Q}BYTES"),
    _queue("ecn_marked", "ecn_marked", "packets marked CE", "rx_prion_marked", f"{_Q}WRED_ECN_MARKED_PACKETS"),
    _queue("not_ect", "not_ect", "packets selected for marking that are not ECT"),
    _queue("ecn_failed", "ecn_failed", "ECT packets selected for marking that could not be rewritten"),
    *_dropped(Drop.LIMIT, "lossy: the queue was at its limit", "", f"{_Q}DROPPED_PACKETS"),
    *_dropped(Drop.SHARED, "lossy: the group was at its share of"
        " the buffer", "rx_prion_cong_discard", f"{_PG}DROPPED_PACKETS"),
    *_dropped(Drop.HEADROOM, "lossless: headroom was full", "rx_prion_buf_discard", f"{_PG}DROPPED_PACKETS"),
    *_dropped(Drop.SLOTS, "the port held its maximum number of packets"),
    *_dropped(Drop.WATCHDOG, "dropped by the PFC watchdog", "", f"{_DOG}TX_DROPPED_PACKETS"),
    *_dropped(Drop.FLUSH, "in the queue when the link went down"),
    _queue("storms", "storms", "storms detected by the PFC watchdog", "", f"{_DOG}DEADLOCK_DETECTED"),
    _queue("restored", "restored", "storms that ended", "", f"{_DOG}DEADLOCK_RESTORED"),
    _group("bytes", "bytes", "bytes in the buffer", f"{_PG}CURR_OCCUPANCY_BYTES", gauge=True),
    _group("watermark_bytes", "watermark_bytes", "peak bytes in the buffer", f"{_PG}WATERMARK_BYTES", gauge=True),
    _group(
        "headroom_bytes", "headroom_bytes", "bytes in headroom", f"{_PG}XOFF_ROOM_CURR_OCCUPANCY_BYTES", gauge=True
    ),
    _group(
        "headroom_watermark_bytes", "headroom_watermark_bytes", "peak bytes in headroom",
        f"{_PG}XOFF_ROOM_WATERMARK_BYTES", gauge=True,
    ),
    _group("xoff", "xoff", "times the group rose above XOFF"),
    _group("xon", "xon", "times the group fell to XON"),
    _group("drop_packets", "drop_packets", "packets for which the group had no room", f"{_PG}DROPPED_PACKETS"),
    _group("drop_bytes", "drop_bytes", "their bytes"),
    _port("rx_pfc", "rx_pfc", "PFC frames received: XOFF, XON and ignored"),
    _port("rx_pfc_invalid", "rx_pfc_invalid", "MAC control frames that are not PFC: ignored"),
    _port(
        "rx_global_pause", "rx_global_pause", "802.3x PAUSE frames: ignored",
        "rx_global_pause", "SAI_PORT_STAT_PAUSE_RX_PKTS",
    ),
    _port("rx_cnp", "rx_cnp", "RoCEv2 congestion notifications received"),
    _port("rx_ack_out_of_order", "rx_ack_out_of_order", "ACKs received after a newer one of their queue pair"),
    _port("tx_ack_out_of_order", "tx_ack_out_of_order", "ACKs sent after a newer one of their queue pair"),
    _port(
        "np_ecn_marked_roce_packets", "np_ecn_marked_roce_packets", "RoCEv2 packets with CE received by a NIC",
        "np_ecn_marked_roce_packets",
    ),
    _port("np_cnp_sent", "np_cnp_sent", "CNPs sent", "np_cnp_sent"),
    _port("np_cnp_suppressed", "np_cnp_suppressed", "CNPs not sent: too soon after the last one"),
    _port("np_cnp_no_qp", "np_cnp_no_qp", "CNPs not sent: the packet belongs to no connected QP"),
    _port("np_cnp_failed", "np_cnp_failed", "CNPs that could not be made for want of memory"),
    _port("rp_cnp_handled", "rp_cnp_handled", "CNPs received that slow a QP down", "rp_cnp_handled"),
    _port("rp_cnp_ignored", "rp_cnp_ignored", "CNPs received that slow no QP", "rp_cnp_ignored"),
    _port("rp_cnp_failed", "rp_cnp_failed", "CNPs received that had no effect for want of memory"),
    _port("rp_cnp_icrc_error", "rp_cnp_icrc_error", "CNPs received with a wrong ICRC: ignored"),
    _port("rp_rtt_handled", "rp_rtt_handled", "RTTs measured that set the rate of a QP"),
    _port("rp_rtt_ignored", "rp_rtt_ignored", "ACKs of QPs whose RTT is needed, but that cannot be limited"),
    _port("rp_rtt_failed", "rp_rtt_failed", "RTTs measured that had no effect for want of memory"),
    _port("tx_pfc", "tx_pfc", "PFC frames sent"),
    _port("tx_pfc_bytes", "tx_pfc_bytes", "their bytes"),
    _port("tx_pfc_failed", "tx_pfc_failed", "PFC frames not sent for lack of memory"),
    _port("shaper_late", "late_ns", "peak delay of the shaper's timer, in"
        " microseconds", gauge=True, unit=_NS_PER_US),
)  # fmt: skip
"""Every counter, in the order of the output."""
