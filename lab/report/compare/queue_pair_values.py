"""The queue pairs of two recordings: matched in their order, with their lifetimes and entries of the ERR state.

QP numbers depend on what the devices did before, so the third QP of a program at an interface is compared with the
third one there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.report.compare.changes import ComparedValue
from lab.report.compare.compared_measures import LIFETIME, QP_ERRORS
from lab.report.compare.figures_in_window import WindowFigure
from lab.telemetry.sample.queue_pairs import GONE, INTERVAL, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase
    from lab.telemetry.read.window_measure import Measure

_ERR: Final = "ERR"
_NS: Final = 10**9
_BLUR: Final = 2 * INTERVAL / _NS
"""Seconds by which two polls, that of the begin and that of the end, may be late."""


@dataclass(slots=True)
class QueuePairLife:
    """A queue pair in the window: begin and end (ns, CLOCK_MONOTONIC), and how often it entered the ERR state."""

    port: str
    qpn: int
    begin: int
    end: int
    errors: int = 0

    @property
    def seconds(self) -> float:
        """The seconds for which it existed in the window."""
        return (self.end - self.begin) / _NS


def queue_pairs_by_name(recording: Recording, window: RecordingPhase) -> dict[str, QueuePairLife]:
    """Return the queue pairs of the window as ``h1:eth1 ib_write_bw #1``, in their order; none of old recordings.

    Whether a poll sees a queue pair that soon ends is chance, so that such ones are left out.
    """
    number: Counter[str] = Counter()
    found: dict[str, QueuePairLife] = {}
    for whose, life in _lives(recording, window) if SCHEMA.table in recording.grown else ():
        if life.seconds > _BLUR or life.errors:
            number[whose] += 1
            found[f"{whose} #{number[whose]}"] = life
    return found


def _lives(recording: Recording, window: RecordingPhase) -> list[tuple[str, QueuePairLife]]:
    """Return the queue pairs of the window with interface and program, in the order in which they appeared."""
    alive: dict[tuple[str, str, int], QueuePairLife] = {}
    found: list[tuple[str, QueuePairLife]] = []
    rows = recording.table(SCHEMA.table).rows
    for ns, row in zip(rows.ns.tolist(), rows.dicts(), strict=True):
        if ns > window.end:
            break
        key = str(row["node"]), str(row["interface"]), int(row["qpn"])
        if key not in alive:
            port = f"{key[0]}:{key[1]}"
            alive[key] = QueuePairLife(port=port, qpn=key[2], begin=max(ns, window.start), end=window.end)
            found.append((f"{port} {row['program'] or row['type']}", alive[key]))
        alive[key].errors += row["state"] == _ERR and ns >= window.start
        if row["state"] == GONE:
            alive.pop(key).end = ns
    return found


def queue_pair_values(name: str, a: QueuePairLife, b: QueuePairLife) -> Iterator[ComparedValue]:
    """Yield the measures of a queue pair; lifetimes only if they differ by more than two polls may be late."""
    yield _value(name, QP_ERRORS, a.errors, b.errors)
    if abs(a.seconds - b.seconds) > _BLUR:
        yield _value(name, LIFETIME, a.seconds, b.seconds)


def _value(name: str, measure: Measure, a: float, b: float) -> ComparedValue:
    return ComparedValue(of=name, priority=None, measure=measure, a=WindowFigure(a, a), b=WindowFigure(b, b))
