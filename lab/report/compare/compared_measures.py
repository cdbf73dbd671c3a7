"""What is compared: measures of ports, RDMA devices, shared buffers and transfers, and the counters behind each."""

from __future__ import annotations

from typing import Final

from lab.dataplane.counter_names import COUNTERS
from lab.report.run_figures import AGAIN
from lab.telemetry.read.dashboard import FigureUnit, Measure

_PER_SECOND: Final = FigureUnit.PER_SECOND
_BYTES: Final = FigureUnit.BYTES
_PLAIN_NAME: Final = {
    "out_of_seq_request": "sequence gaps",
    "rcvd_seq_err": "NAKs received",
    "duplicate_request": "duplicate requests",
    "completer_retry_err": "retransmissions",
    "retry_exceeded_err": "retries exceeded",
    "rcvd_rnr_err": "RNR NAKs received",
}
"""Titles of an RDMA device's counters; one without a title keeps its own name."""


def _count(name: str, title: str, *counters: tuple[str, str]) -> Measure:
    return Measure(name, title, _PER_SECOND, counters)


def _peak(name: str, title: str, table: str, column: str) -> Measure:
    return Measure(name, title, _BYTES, ((table, column),), gauge=True, highest=True)


_DROPS: Final = tuple(
    _count(f"dropped_{each.reason.name.lower()}", f"drops: {each.reason.name.lower()}",
           ("queues", each.name.replace("{n}", "")))
    for each in COUNTERS
    if each.reason is not None and each.field == "drop_packets"
)  # fmt: skip
"""One measure for each reason for which a queue drops."""
PORT_MEASURES: Final = (
    Measure("tx_bps", "sent", FigureUnit.RATE, (("priorities", "tx_prio_bytes"), ("interfaces", "tx_bytes")), 8),
    Measure("rx_bps", "received", FigureUnit.RATE, (("priorities", "rx_prio_bytes"), ("interfaces", "rx_bytes")), 8),
    *_DROPS,
    _count("rx_dropped", "drops: receive", ("interfaces", "rx_dropped")),
    _count("tx_dropped", "drops: send", ("interfaces", "tx_dropped")),
    _count("errors", "errors", ("interfaces", "[rt]x_errors")),
    _count("tx_pauses", "XOFF tx", ("priorities", "tx_prio_pause")),
    _count("rx_pauses", "XOFF rx", ("priorities", "rx_prio_pause")),
    _count("pauses_ignored", "XOFF ignored", ("priorities", "rx_prio_pause_ignored")),
    Measure(
        "paused", "paused time", FigureUnit.SHARE, (("priorities", "rx_prio_pause_duration"),), 1e-6, highest=True
    ),
    _count("marked", "ECN marks", ("queues", "queue_ecn_marked")),
    _count("not_ect", "not ECT", ("queues", "queue_not_ect")),
    _peak("peak_queue", "peak queue", "queues", "queue_depth_bytes"),
    _peak("peak_buffer", "peak buffer", "groups", "pg_bytes"),
    _peak("peak_headroom", "peak headroom", "groups", "pg_headroom_bytes"),
    _count("storms", "PFC storms", ("queues", "queue_storms")),
    _count("rx_cnp", "CNP rx", ("ports", "rx_cnp")),
    _count("rx_pfc_invalid", "invalid PFC rx", ("ports", "rx_pfc_invalid")),
    _count("rx_global_pause", "802.3x PAUSE rx", ("ports", "rx_global_pause")),
    _count("tx_pfc_failed", "PFC not sent", ("ports", "tx_pfc_failed")),
)
"""Of a port, by priority where it counts by priority, queue or buffer group."""
DEVICE_MEASURES: Final = (
    Measure("tx_bps", "sent", FigureUnit.RATE, (("rdma", "sent_bytes"),), 8),
    Measure("rx_bps", "received", FigureUnit.RATE, (("rdma", "rcvd_bytes"),), 8),
    *(_count(name, _PLAIN_NAME.get(name, name), ("rdma", name)) for name in AGAIN),
)
"""Of an RDMA device."""
BUFFER_MEASURES: Final = (_peak("peak_pool", "peak shared buffer", "nodes", "pool_used"),)
"""Of the buffer that the ports of a node share."""
GOODPUT: Final = Measure("goodput", "goodput", FigureUnit.RATE, ())
PAYLOAD: Final = Measure("payload", "payload", _BYTES, ())
COMPLETION: Final = Measure("completion", "completion time", FigureUnit.SECONDS, ())
MEDIAN_MESSAGE: Final = Measure("message_median", "message, median", FigureUnit.SECONDS, ())
SLOWEST_MESSAGE: Final = Measure("message_max", "message, slowest", FigureUnit.SECONDS, ())
DURATION: Final = Measure("duration", "duration", FigureUnit.SECONDS, ())
"""Of a phase; the five above are of a transfer. None of them comes from a counter."""
