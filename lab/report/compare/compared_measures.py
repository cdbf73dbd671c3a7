"""The measures that are compared: of ports, RDMA devices, shared buffers, transfers and phases.

Counts are compared per second, so that runs of different length can be compared. Gauges are compared by their peak.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lab.telemetry.read import measures
from lab.telemetry.read.measure_unit import MeasureUnit
from lab.telemetry.read.window_measure import Measure, MeasureScope, Reduction

if TYPE_CHECKING:
    from collections.abc import Iterator


def _rated(*counts: Measure) -> tuple[Measure, ...]:
    """Return the measures per second, under their own names and titles."""
    return tuple(each.rate(each.name, each.title) for each in counts)


def _peak(gauge: Measure, name: str, title: str) -> Measure:
    return replace(gauge, name=name, title=title, reduction=Reduction.PEAK)


def _drops() -> Iterator[Measure]:
    """Yield a measure for each drop reason of a queue; plain links have no reasons."""
    for reason, counter in zip(measures.DROP_REASONS, measures.DROPPED.counters, strict=True):
        yield replace(
            measures.DROPPED, name=f"dropped_{reason}", title=f"drops: {reason}", counters=(counter,), links=()
        )


PORT_COMPARED: Final = (
    measures.TX_RATE,
    measures.RX_RATE,
    *_rated(*_drops(), measures.XOFF_TX, measures.XOFF_RX, measures.XOFF_IGNORED),
    measures.PAUSED,
    *_rated(measures.ECN_MARKED, measures.NOT_ECT),
    measures.QUEUE_PEAK,
    _peak(measures.BUFFER_BYTES, "buffer_peak_bytes", "peak buffer"),
    measures.HEADROOM_PEAK,
    *_rated(*measures.NIC_MEASURES),
    *_rated(measures.STORMS, measures.CNP_RX, measures.PFC_INVALID, measures.GLOBAL_PAUSE_RX),
    *_rated(*measures.ORDER_MEASURES),
)
"""The measures of a lossless port, by priority if counted by priority, queue or buffer group."""
LINK_COMPARED: Final = (measures.TX_RATE, measures.RX_RATE, *_rated(measures.DROPPED))
"""The measures of a port that is a plain link in at least one of the runs."""
DEVICE_COMPARED: Final = (measures.RDMA_TX_RATE, measures.RDMA_RX_RATE, *_rated(*measures.LOSS_SIGNS))
"""The measures of an RDMA device."""
LOSS_COMPARED: Final = _rated(*measures.LOSS_SIGNS)
"""The measures of all RDMA devices in a phase."""
BUFFER_COMPARED: Final = (_peak(measures.POOL_BYTES, "pool_peak_bytes", "peak shared buffer"),)
"""The measure of a node's shared buffer."""


def _timed(name: str, title: str, unit: MeasureUnit, meaning: str) -> Measure:
    """Return a measure that is not based on a counter."""
    return Measure(name=name, title=title, unit=unit, scope=MeasureScope.NODE, counters=(), meaning=meaning)


GOODPUT: Final = _timed("goodput", "goodput", MeasureUnit.BITS_PER_SECOND, "payload per second")
PAYLOAD: Final = _timed("payload", "payload", MeasureUnit.BYTES, "bytes of messages")
COMPLETION: Final = _timed("completion", "completion time", MeasureUnit.SECONDS, "from first message to last")
MEDIAN_MESSAGE: Final = _timed("message_median", "message, median", MeasureUnit.SECONDS, "median time of a message")
SLOWEST_MESSAGE: Final = _timed("message_max", "message, slowest", MeasureUnit.SECONDS, "time of the slowest message")
LIFETIME: Final = _timed("lifetime", "lifetime", MeasureUnit.SECONDS, "seconds for which a queue pair existed")
QP_ERRORS: Final = _timed("qp_errors", "entered ERR", MeasureUnit.EVENTS, "times that a queue pair entered state ERR")
DURATION: Final = _timed("duration", "duration", MeasureUnit.SECONDS, "length of a phase")
