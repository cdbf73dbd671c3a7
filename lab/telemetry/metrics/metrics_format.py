"""The text formats of metrics."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

_OPEN_METRICS: Final = "application/openmetrics-text"


class MetricsFormat(StrEnum):
    """A text format of metrics: OpenMetrics, or the older format of Prometheus."""

    OPENMETRICS = "openmetrics"
    TEXT = "text"

    @classmethod
    def accepted(cls, header: str) -> MetricsFormat:
        """Return the format that a scraper's Accept header asks for: OpenMetrics only if it is named."""
        return cls.OPENMETRICS if _OPEN_METRICS in header else cls.TEXT

    @property
    def content_type(self) -> str:
        """The media type of the format."""
        if self is MetricsFormat.OPENMETRICS:
            return f"{_OPEN_METRICS}; version=1.0.0; charset=utf-8"
        return "text/plain; version=0.0.4; charset=utf-8"
