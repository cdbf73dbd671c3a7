"""Metrics as text: OpenMetrics, or the older text format of Prometheus, rendered by prometheus_client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import exposition as prometheus_text
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as open_metrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from lab.telemetry.metrics.metrics_format import MetricsFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lab.telemetry.metrics.counter_metrics import MetricSamples

_ESCAPING: Final = open_metrics.ALLOWUTF8
"""All names are ASCII, so that nothing is escaped. Other values make prometheus_client check each character."""


class _Collected(Collector):
    """One scrape in prometheus_client's form."""

    def __init__(self, scrape: Iterable[MetricSamples]) -> None:
        self._scrape = scrape

    def collect(self) -> Iterator[Metric]:
        """Yield all families."""
        for samples in self._scrape:
            family = samples.family
            metric = Metric(family.name.removesuffix("_total"), f"{family.help}.", family.kind.value, family.unit)
            names = family.label_names
            metric.samples = [
                Sample(family.name, dict(zip(names, labels, strict=True)), value)
                for labels, value in zip(samples.labels, samples.values, strict=True)
            ]
            yield metric


def render(scrape: Iterable[MetricSamples], form: MetricsFormat = MetricsFormat.OPENMETRICS) -> bytes:
    """Return a scrape as text in UTF-8."""
    collected = _Collected(scrape)
    if form is MetricsFormat.TEXT:
        return prometheus_text.generate_latest(collected, _ESCAPING)
    found: bytes = open_metrics.generate_latest(collected, _ESCAPING)  # type: ignore[no-untyped-call]
    return found
