"""The measures of jobs: of a step, of a rank in a step, and of requests. They come from rows, not counters."""

from __future__ import annotations

from typing import Final

from lab.telemetry.read.measure_unit import MeasureUnit
from lab.telemetry.read.window_measure import Measure, MeasureScope


def _of_step(name: str, title: str, meaning: str, unit: MeasureUnit = MeasureUnit.SECONDS) -> Measure:
    return Measure(name=name, title=title, unit=unit, scope=MeasureScope.NODE, counters=(), meaning=meaning)


STEP_TIME: Final = _of_step("step_time", "step time", "time of a step, from the first begin to the last end")
COMPUTE_TIME: Final = _of_step("compute_time", "compute", "time of the computation of a step")
COMMUNICATION_TIME: Final = _of_step(
    "communication_time", "communication", "time of the communication of a step, with the waiting for other ranks"
)
COMMUNICATION_SHARE: Final = _of_step(
    "communication_share", "communication", "communication divided by step time", MeasureUnit.SHARE
)
WAITING_TIME: Final = _of_step(
    "waiting_time", "waiting", "from the begin of a rank's communication until the last rank began"
)
STEP_TRANSFER: Final = _of_step("step_transfer", "transfer", "time of a step's communication without the waiting")
STEP_LATENESS: Final = _of_step(
    "step_lateness", "straggler's lateness", "begin of the last rank's communication after that of the median rank"
)
RANK_LATENESS: Final = _of_step(
    "rank_lateness", "late", "begin of a rank's communication after that of the median rank"
)
REQUEST_MEAN: Final = _of_step("request_mean", "request, mean", "mean time of a request")
REQUEST_P50: Final = _of_step("request_p50", "request, p50", "time that half of the requests do not exceed")
REQUEST_P99: Final = _of_step("request_p99", "request, p99", "time that 99% of the requests do not exceed")
REQUEST_RATE: Final = _of_step(
    "request_rate", "rate", "payload of all requests per second", MeasureUnit.BITS_PER_SECOND
)
