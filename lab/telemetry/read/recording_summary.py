"""Key figures of a recording."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.telemetry.read import measures

if TYPE_CHECKING:
    from datetime import datetime

    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase

_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class BusyPort:
    """A port, and its average rates of frames received and sent, in bit/s."""

    port: str
    rx_bps: float
    tx_bps: float


@dataclass(frozen=True, slots=True)
class RecordingSummary:
    """The key figures of a recording; times are in seconds."""

    began: datetime
    seconds: float
    samples: int
    late_mean: float
    late_max: float
    phases: tuple[RecordingPhase, ...]
    busiest: tuple[BusyPort, ...]
    events: dict[str, int]


def summarise(recording: Recording, most: int = 8) -> RecordingSummary:
    """Return the key figures, with the ``most`` busiest ports."""
    samples = recording.samples
    late = (samples["ns"] - samples["due"]) / _NS
    ports = [(name, recording.port(name)) for name in recording.ports]
    busy = [BusyPort(name, port.value(measures.RX_RATE), port.value(measures.TX_RATE)) for name, port in ports]
    busy.sort(key=lambda each: -(each.rx_bps + each.tx_bps))
    return RecordingSummary(
        began=recording.began,
        seconds=recording.seconds,
        samples=len(samples["ns"]),
        late_mean=float(late.mean()) if len(late) else 0.0,
        late_max=float(late.max()) if len(late) else 0.0,
        phases=recording.phases,
        busiest=tuple(each for each in busy[:most] if each.rx_bps + each.tx_bps > 0),
        events=dict(Counter(f"{event.source} {event.kind}" for event in recording.events())),
    )
