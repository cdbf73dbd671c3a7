"""What programs in the background told over time, as series: octets that arrived by TCP, and how long pings took.

They are commands of the recording, as iperf3(1) and ping(8) print; a note says which pair of hosts each belongs to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.errors import UsageError
from lab.model.values.suggest import suggest
from lab.telemetry.read.series import Series
from lab.telemetry.store.recording_folder import invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lab.telemetry.read.recording import RecordedEvent, Recording

STREAM: Final = "stream"
ECHO: Final = "echo"
STEP: Final = 0.1
"""Seconds between two reports of what has arrived."""
_NS: Final = 10**9
_REPORT: Final = re.compile(r"\] +(\d+\.\d+)-(\d+\.\d+) +sec +\S+ \S+ +(\d+(?:\.\d+)?) Kbits/sec *$", re.MULTILINE)
"""Of an interval: the sum at the end says ``receiver`` behind it."""
_ANSWER: Final = re.compile(
    r"^\[(\d+\.\d{6})\] \d+ bytes from .* icmp_seq=(\d+) .*\btime=(\d+(?:\.\d+)?) ms", re.MULTILINE
)
_SILENCE: Final = re.compile(r"^\[(\d+\.\d{6})\] no answer yet for icmp_seq=(\d+)$", re.MULTILINE)


@dataclass(frozen=True, eq=False, slots=True)
class Echoes:
    """Pings of a pair: how long each took that was answered, in ns, and the ``ns`` at which others were given up."""

    times: Series
    unanswered: NDArray[np.int64]

    def lost(self, start: int, end: int) -> int:
        """How many were given up between two moments (ns of CLOCK_MONOTONIC), an interval after each was sent."""
        return int(np.count_nonzero((self.unanswered >= start) & (self.unanswered < end)))


@dataclass(frozen=True, slots=True)
class IperfReport:
    """What iperf3 says of a tenth of a second that ended ``end`` seconds after the stream began."""

    end: float
    octets: float


def reports(said: str) -> list[IperfReport]:
    """What iperf3 has printed of each interval; the last one it may say twice."""
    found = {
        float(end): float(kbits) * 125 * (float(end) - float(start)) for start, end, kbits in _REPORT.findall(said)
    }
    return [IperfReport(end, octets) for end, octets in found.items()]


def received(recording: Recording, pair: str) -> Series:
    """Octets of a pair's TCP stream that had arrived, tenth by tenth of a second.

    UsageError when the pair had no stream, or its program was not ended; InvalidInput when the recording is damaged.
    """
    note = _note(recording, STREAM, pair)
    told = reports(_said(recording, note, "port"))
    try:
        ends = [int(note.data["began"]) + round(each.end * _NS) for each in told]
    except (KeyError, TypeError, ValueError) as error:
        raise invalid(recording.folder.notes, "is damaged") from error
    octets = np.cumsum([round(each.octets) for each in told], dtype=np.uint64)
    return Series(f"{pair} received", np.array(ends, np.int64), octets, recording.clock)


def echoes(recording: Recording, pair: str) -> Echoes:
    """A pair's pings; raises as ``received``."""
    said = _said(recording, _note(recording, ECHO, pair), "address")
    answers = {int(number): (stamp, ms) for stamp, number, ms in _ANSWER.findall(said)}
    times = Series(
        f"{pair} echo",
        _monotonic(recording, [stamp for stamp, _ in answers.values()]),
        np.array([round(float(ms) * 1e6) for _, ms in answers.values()], np.uint64),
        recording.clock,
        gauge=True,
    )
    silences = [stamp for stamp, number in _SILENCE.findall(said) if int(number) not in answers]
    return Echoes(times, _monotonic(recording, silences))


def _note(recording: Recording, kind: str, pair: str) -> RecordedEvent:
    """What was noted of a pair last."""
    notes = [event for event in recording.events(kind="note") if event.data.get("text") == kind]
    noted = {str(note.data.get("pair")): note for note in notes}
    if pair not in noted:
        raise UsageError(f"{recording.name} has no {kind} of {pair}", suggest(pair, noted, "see rocelab record show"))
    return noted[pair]


def _said(recording: Recording, note: RecordedEvent, key: str) -> str:
    """What was printed by the last program that was run for it: in its node, its last word as the note has it."""
    for command in reversed(recording.commands):
        if command.node == note.node and command.argv[-1:] == (str(note.data.get(key)),):
            return command.stdout
    raise UsageError(
        f"{recording.name}: the traffic of {note.data.get('pair')} was not recorded", "the recording ends before"
    )


def _monotonic(recording: Recording, stamps: Sequence[str]) -> NDArray[np.int64]:
    """Times of day, in seconds to the microsecond, as ns of CLOCK_MONOTONIC."""
    microseconds = [int(stamp.replace(".", "")) for stamp in stamps]
    return np.array(microseconds, np.int64) * 1000 - recording.realtime_offset
