"""The registry of measures: each measure's name, title, unit, counters and reduction.

``rocelab top``, ``replay``, ``counters``, ``diagnose`` and reports take names, titles and units from here. A measure
refers to counters by the names of ``lab.dataplane.counter_names``, with ``{n}`` for a priority, queue or group.
Counters of plain links and RDMA devices have the kernel's names. Values are in base units: bytes, bit/s, seconds,
shares from 0 to 1, counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lab.telemetry.read.measure_unit import MeasureUnit
from lab.telemetry.read.window_measure import Measure, MeasureScope, Reduction

DROP_REASONS: Final = ("limit", "shared", "headroom", "slots", "watchdog", "flush")
"""Reasons for packet drops at ports, as in the names of drop counters."""


def drop_counter(reason: str, unit: str = "packets") -> str:
    """Return the name of a queue's drop counter for a reason; ``unit`` is ``packets`` or ``bytes``."""
    return f"queue{{n}}_drop_{reason}_{unit}"


_PORT, _PRIORITY, _QUEUE, _GROUP = (
    MeasureScope.PORT, MeasureScope.PRIORITY, MeasureScope.QUEUE, MeasureScope.GROUP,
)  # fmt: skip
_PACKETS, _FRAMES, _BYTES, _EVENTS = (
    MeasureUnit.PACKETS, MeasureUnit.FRAMES, MeasureUnit.BYTES, MeasureUnit.EVENTS,
)  # fmt: skip
_LAST, _PEAK = Reduction.LAST, Reduction.PEAK

RX_PACKETS: Final = Measure(
    "rx_packets",
    "packets received",
    _PACKETS,
    scope=_PRIORITY,
    counters=("rx_prio{n}_packets",),
    meaning="packets received",
    links=("rx_packets",),
)
RX_BYTES: Final = Measure(
    "rx_bytes",
    "received",
    _BYTES,
    scope=_PRIORITY,
    counters=("rx_prio{n}_bytes",),
    meaning="bytes of frames received, without FCS",
    links=("rx_bytes",),
)
TX_PACKETS: Final = Measure(
    "tx_packets",
    "packets sent",
    _PACKETS,
    scope=_PRIORITY,
    counters=("tx_prio{n}_packets",),
    meaning="packets sent",
    links=("tx_packets",),
)
TX_BYTES: Final = Measure(
    "tx_bytes",
    "sent",
    _BYTES,
    scope=_PRIORITY,
    counters=("tx_prio{n}_bytes",),
    meaning="bytes of frames sent, without FCS",
    links=("tx_bytes",),
)
RX_RATE: Final = replace(
    RX_BYTES.rate("rx_bps", "rx rate"), meaning="bits of frames received per second, without FCS"
)
TX_RATE: Final = replace(TX_BYTES.rate("tx_bps", "tx rate"), meaning="bits of frames sent per second, without FCS")

XOFF_RX: Final = Measure(
    "xoff_rx",
    "XOFF rx",
    _FRAMES,
    scope=_PRIORITY,
    counters=("rx_prio{n}_pause",),
    meaning="PFC frames received that paused the port",
)
XON_RX: Final = Measure(
    "xon_rx",
    "XON rx",
    _FRAMES,
    scope=_PRIORITY,
    counters=("rx_prio{n}_resume",),
    meaning="PFC frames received that ended a pause",
)
XOFF_IGNORED: Final = Measure(
    "xoff_ignored",
    "XOFF ignored",
    _FRAMES,
    scope=_PRIORITY,
    counters=("rx_prio{n}_pause_ignored",),
    meaning="PFC frames received that the port does not obey",
)
XOFF_TX: Final = Measure(
    "xoff_tx",
    "XOFF tx",
    _FRAMES,
    scope=_PRIORITY,
    counters=("tx_prio{n}_pause",),
    meaning="PFC frames sent that pause the peer",
)
XON_TX: Final = Measure(
    "xon_tx",
    "XON tx",
    _FRAMES,
    scope=_PRIORITY,
    counters=("tx_prio{n}_resume",),
    meaning="PFC frames sent that end a pause of the peer",
)
XOFF_IGNORED_RATE: Final = XOFF_IGNORED.rate("ignored")
XOFF_RX_RATE: Final = XOFF_RX.rate("rx_pauses")
XOFF_TX_RATE: Final = XOFF_TX.rate("tx_pauses")
PAUSED_SECONDS: Final = Measure(
    "paused_seconds",
    "paused time",
    MeasureUnit.SECONDS,
    scope=_PRIORITY,
    counters=("rx_prio{n}_pause_duration",),
    meaning="time for which the port was paused",
    scale=1e-6,
    highest=True,
)
PAUSED: Final = replace(
    PAUSED_SECONDS,
    name="paused",
    title="paused",
    unit=MeasureUnit.SHARE,
    reduction=Reduction.SHARE,
    meaning="share of the time for which the port was paused",
)

QUEUE_BYTES: Final = Measure(
    "queue_bytes",
    "queue",
    _BYTES,
    scope=_QUEUE,
    counters=("queue{n}_depth_bytes",),
    meaning="bytes in the queue",
    reduction=_LAST,
)
QUEUE_PACKETS: Final = Measure(
    "queue_packets",
    "queued packets",
    _PACKETS,
    scope=_QUEUE,
    counters=("queue{n}_depth_packets",),
    meaning="packets in the queue",
    reduction=_LAST,
)
QUEUE_PEAK: Final = replace(
    QUEUE_BYTES, name="queue_peak_bytes", title="peak queue", reduction=_PEAK,
    meaning="peak bytes in the queue, as sampled",
)  # fmt: skip
QUEUE_WATERMARK: Final = Measure(
    "queue_watermark_bytes", "queue watermark", _BYTES, scope=_QUEUE, counters=("queue{n}_watermark_bytes",),
    meaning="peak bytes in the queue since counters were cleared", reduction=_PEAK,
)  # fmt: skip
OFFERED_PACKETS: Final = Measure(
    "offered_packets",
    "packets offered",
    _PACKETS,
    scope=_QUEUE,
    counters=("queue{n}_offered_packets",),
    meaning="packets offered to the queue",
)
OFFERED_BYTES: Final = Measure(
    "offered_bytes",
    "offered",
    _BYTES,
    scope=_QUEUE,
    counters=("queue{n}_offered_bytes",),
    meaning="bytes of packets offered to the queue",
)
ECN_MARKED: Final = Measure(
    "marked_packets",
    "ECN marks",
    _PACKETS,
    scope=_QUEUE,
    counters=("queue{n}_ecn_marked",),
    meaning="packets marked CE",
)
MARK_RATE: Final = ECN_MARKED.rate("marked")
NOT_ECT: Final = Measure(
    "not_ect_packets",
    "not ECT",
    _PACKETS,
    scope=_QUEUE,
    counters=("queue{n}_not_ect",),
    meaning="packets selected for marking that are not ECT",
)
DROPPED: Final = Measure(
    "dropped_packets",
    "drops",
    _PACKETS,
    scope=_QUEUE,
    counters=tuple(map(drop_counter, DROP_REASONS)),
    meaning="packets dropped, for any reason",
    links=("rx_dropped", "tx_dropped"),
)
DROPPED_BYTES: Final = Measure(
    "dropped_bytes",
    "dropped bytes",
    _BYTES,
    scope=_QUEUE,
    counters=tuple(drop_counter(why, "bytes") for why in DROP_REASONS),
    meaning="bytes of packets dropped, for any reason",
)
DROP_RATE: Final = DROPPED.rate("dropped")
STORMS: Final = Measure(
    "storms",
    "PFC storms",
    _EVENTS,
    scope=_QUEUE,
    counters=("queue{n}_storms",),
    meaning="storms detected by the PFC watchdog",
)
STORMS_RESTORED: Final = Measure(
    "storms_restored",
    "PFC storms restored",
    _EVENTS,
    scope=_QUEUE,
    counters=("queue{n}_restored",),
    meaning="storms whose end the PFC watchdog detected",
)

BUFFER_BYTES: Final = Measure(
    "buffer_bytes",
    "buffer",
    _BYTES,
    scope=_GROUP,
    counters=("pg{n}_bytes",),
    meaning="bytes of the priority group in the buffer",
    reduction=_LAST,
)
BUFFER_WATERMARK: Final = Measure(
    "buffer_watermark_bytes",
    "buffer watermark",
    _BYTES,
    scope=_GROUP,
    counters=("pg{n}_watermark_bytes",),
    meaning="peak bytes of the priority group in the buffer since counters were cleared",
    reduction=_PEAK,
)
HEADROOM_BYTES: Final = Measure(
    "headroom_bytes", "headroom", _BYTES, scope=_GROUP, counters=("pg{n}_headroom_bytes",),
    meaning="bytes of the priority group in headroom", reduction=_LAST,
)  # fmt: skip
HEADROOM_PEAK: Final = replace(
    HEADROOM_BYTES, name="headroom_peak_bytes", title="peak headroom", reduction=_PEAK,
    meaning="peak bytes of the priority group in headroom, as sampled",
)  # fmt: skip
HEADROOM_WATERMARK: Final = Measure(
    "headroom_watermark_bytes",
    "headroom watermark",
    _BYTES,
    scope=_GROUP,
    counters=("pg{n}_headroom_watermark_bytes",),
    meaning="peak bytes of the priority group in headroom since counters were cleared",
    reduction=_PEAK,
)
REFUSED: Final = Measure(
    "refused_packets", "PG drops", _PACKETS, scope=_GROUP, counters=("pg{n}_drop_packets",),
    meaning="packets for which the priority group had no room",
)  # fmt: skip
REFUSED_BYTES: Final = Measure(
    "refused_bytes", "PG dropped bytes", _BYTES, scope=_GROUP, counters=("pg{n}_drop_bytes",),
    meaning="bytes of packets for which the priority group had no room",
)  # fmt: skip

REFUSED_RATE: Final = REFUSED.rate("refused")

PFC_RX: Final = Measure(
    "pfc_rx",
    "PFC rx",
    _FRAMES,
    scope=_PORT,
    counters=("rx_pfc",),
    meaning="PFC frames received, XOFF, XON and ignored",
)
PFC_INVALID: Final = Measure(
    "pfc_invalid",
    "invalid PFC rx",
    _FRAMES,
    scope=_PORT,
    counters=("rx_pfc_invalid",),
    meaning="MAC control frames received that are not PFC",
)
GLOBAL_PAUSE_RX: Final = Measure(
    "global_pause_rx",
    "802.3x PAUSE rx",
    _FRAMES,
    scope=_PORT,
    counters=("rx_global_pause",),
    meaning="802.3x PAUSE frames received: ignored",
)
PFC_TX: Final = Measure("pfc_tx", "PFC tx", _FRAMES, scope=_PORT, counters=("tx_pfc",), meaning="PFC frames sent")
CNP_RX: Final = Measure(
    "cnp_rx",
    "CNP rx",
    _PACKETS,
    scope=_PORT,
    counters=("rx_cnp",),
    meaning="RoCEv2 congestion notification packets received",
)
CNP_RX_RATE: Final = CNP_RX.rate("cnps")
ACKS_OVERTAKEN_RX: Final = Measure(
    "rx_ack_out_of_order",
    "ACKs out of order rx",
    _PACKETS,
    scope=_PORT,
    counters=("rx_ack_out_of_order",),
    meaning="ACKs received after a newer one of their queue pair",
)
ACKS_OVERTAKEN_TX: Final = Measure(
    "tx_ack_out_of_order",
    "ACKs out of order tx",
    _PACKETS,
    scope=_PORT,
    counters=("tx_ack_out_of_order",),
    meaning="ACKs sent after a newer one of their queue pair",
)
ORDER_MEASURES: Final = (ACKS_OVERTAKEN_RX, ACKS_OVERTAKEN_TX)
"""The order of acknowledgements at the two ends of a link."""


def _of_nic(counter: str, meaning: str) -> Measure:
    """Return a measure of a NIC's congestion control, under the name that mlx5 and rdma_exporter have for it."""
    return Measure(counter, counter, _PACKETS, scope=_PORT, counters=(counter,), meaning=meaning)


CE_RX: Final = _of_nic("np_ecn_marked_roce_packets", "RoCEv2 packets with CE received by a NIC")
CNP_SENT: Final = _of_nic("np_cnp_sent", "CNPs sent by a NIC as notification point")
CNP_HANDLED: Final = _of_nic("rp_cnp_handled", "CNPs received that slow a QP down")
CNP_IGNORED: Final = _of_nic("rp_cnp_ignored", "CNPs received that slow no QP")
NIC_MEASURES: Final = (CE_RX, CNP_SENT, CNP_HANDLED, CNP_IGNORED)
"""The congestion control of a NIC: notification point, then reaction point."""

PORT_MEASURES: Final = (
    RX_PACKETS, RX_BYTES, RX_RATE, TX_PACKETS, TX_BYTES, TX_RATE,
    XOFF_RX, XOFF_RX_RATE, XON_RX, XOFF_IGNORED, XOFF_IGNORED_RATE, XOFF_TX, XOFF_TX_RATE, XON_TX,
    PAUSED_SECONDS, PAUSED,
    QUEUE_BYTES, QUEUE_PACKETS, QUEUE_PEAK, QUEUE_WATERMARK, OFFERED_PACKETS, OFFERED_BYTES,
    ECN_MARKED, MARK_RATE, NOT_ECT, DROPPED, DROP_RATE, DROPPED_BYTES, STORMS, STORMS_RESTORED,
    BUFFER_BYTES, BUFFER_WATERMARK, HEADROOM_BYTES, HEADROOM_PEAK, HEADROOM_WATERMARK,
    REFUSED, REFUSED_RATE, REFUSED_BYTES,
    PFC_RX, PFC_INVALID, GLOBAL_PAUSE_RX, PFC_TX, CNP_RX, CNP_RX_RATE, *ORDER_MEASURES, *NIC_MEASURES,
)  # fmt: skip
"""The measures of a port and of its priorities, queues and groups."""


def _of_device(counter: str, title: str, meaning: str, unit: MeasureUnit = _PACKETS) -> Measure:
    """Return a measure that is a counter of an RDMA device, under the kernel's name."""
    return Measure(counter, title, unit, scope=MeasureScope.DEVICE, counters=(counter,), meaning=meaning)


RDMA_SENT_BYTES: Final = _of_device("sent_bytes", "sent", "bytes of RoCE packets sent", _BYTES)
RDMA_RECEIVED_BYTES: Final = _of_device("rcvd_bytes", "received", "bytes of RoCE packets received", _BYTES)
RDMA_SENT: Final = _of_device("sent_pkts", "packets sent", "RoCE packets sent")
RDMA_RECEIVED: Final = _of_device("rcvd_pkts", "packets received", "RoCE packets received")
OUT_OF_SEQUENCE: Final = _of_device("out_of_seq_request", "PSN gaps", "requests with a PSN beyond the expected one")
NAK_RX: Final = _of_device("rcvd_seq_err", "NAK rx", "NAKs received for a sequence error")
DUPLICATES: Final = _of_device("duplicate_request", "duplicates", "requests received again")
RETRIES: Final = _of_device(
    "completer_retry_err", "retries", "times that a QP resent from an earlier PSN, after a NAK or a timeout", _EVENTS
)
RETRIES_EXCEEDED: Final = _of_device(
    "retry_exceeded_err", "retries exceeded", "QPs that failed because the peer did not answer", _EVENTS
)
RNR_NAK_RX: Final = _of_device("rcvd_rnr_err", "RNR NAK rx", "receiver-not-ready NAKs received")
RDMA_TX_RATE: Final = replace(
    RDMA_SENT_BYTES.rate("tx_bps", "tx rate"), meaning="bits of RoCE packets sent per second, with headers"
)
RDMA_RX_RATE: Final = replace(
    RDMA_RECEIVED_BYTES.rate("rx_bps", "rx rate"), meaning="bits of RoCE packets received per second, with headers"
)
RDMA_TX_PACKET_RATE: Final = RDMA_SENT.rate("tx_packets")
RDMA_RX_PACKET_RATE: Final = RDMA_RECEIVED.rate("rx_packets")
GAP_RATE: Final = OUT_OF_SEQUENCE.rate("gaps")
NAK_RATE: Final = NAK_RX.rate("naks")
DUPLICATE_RATE: Final = DUPLICATES.rate("again")
RETRY_RATE: Final = RETRIES.rate("retries")
LOSS_SIGNS: Final = (OUT_OF_SEQUENCE, NAK_RX, DUPLICATES, RETRIES, RETRIES_EXCEEDED, RNR_NAK_RX)
"""Measures that rise when RDMA packets were lost or sent again."""
DEVICE_MEASURES: Final = (
    RDMA_SENT_BYTES, RDMA_RECEIVED_BYTES, RDMA_TX_RATE, RDMA_RX_RATE, RDMA_SENT, RDMA_RECEIVED, RDMA_TX_PACKET_RATE,
    RDMA_RX_PACKET_RATE, *LOSS_SIGNS, GAP_RATE, NAK_RATE, DUPLICATE_RATE, RETRY_RATE,
)  # fmt: skip
"""The measures of an RDMA device."""

POOL_BYTES: Final = Measure(
    "pool_bytes",
    "pool",
    _BYTES,
    scope=MeasureScope.NODE,
    counters=("pool_used",),
    meaning="bytes of the buffer that ports share",
    reduction=_LAST,
)
POOL_WATERMARK: Final = Measure(
    "pool_watermark_bytes",
    "pool watermark",
    _BYTES,
    scope=MeasureScope.NODE,
    counters=("pool_watermark",),
    meaning="peak bytes of the buffer that ports share",
    reduction=_PEAK,
)
MEASURES: Final = (*PORT_MEASURES, *DEVICE_MEASURES, POOL_BYTES, POOL_WATERMARK)
"""All measures. ``Measure.scope.owner`` and ``Measure.name`` together are unique, and stable between versions."""
RAW: Final = frozenset({
    "queue{n}_packets", "queue{n}_bytes", "queue{n}_ecn_failed", "pg{n}_xoff", "pg{n}_xon", "tx_pfc_bytes",
    "tx_pfc_failed", "shaper_late", "np_cnp_suppressed", "np_cnp_no_qp", "np_cnp_failed", "rp_cnp_failed",
    "rp_cnp_icrc_error", "rp_rtt_handled", "rp_rtt_ignored", "rp_rtt_failed",
})  # fmt: skip
"""Counters of a port without a measure: shown as they are by ``rocelab counters --names`` and in recordings."""
