"""Time series from the output of background programs: bytes received over TCP, and round-trip times of pings.

The programs, iperf3(1) and ping(8), are commands of the recording. A note names the pair of hosts of each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.errors import UsageError
from lab.model.values.suggest import suggest
from lab.telemetry.read.series import Series
from lab.telemetry.store.recording_folder import invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lab.telemetry.read.recorded_events import RecordedEvent
    from lab.telemetry.read.recording import Recording

STREAM: Final = "stream"
ECHO: Final = "echo"
STEP: Final = 0.1
"""Seconds between two reports of received bytes."""
_NS: Final = 10**9
_REPORT: Final = re.compile(r"\] +(\d+\.\d+)-(\d+\.\d+) +sec +\S+ \S+ +(\d+(?:\.\d+)?) Kbits/sec *$", re.MULTILINE)
"""The line of an interval. The summary at the end does not match: it ends with ``receiver``."""
_ANSWER: Final = re.compile(
    r"^\[(\d+\.\d{6})\] \d+ bytes from .* icmp_seq=(\d+) .*\btime=(\d+(?:\.\d+)?) ms", re.MULTILINE
)
_SILENCE: Final = re.compile(r"^\[(\d+\.\d{6})\] no answer yet for icmp_seq=(\d+)$", re.MULTILINE)


@dataclass(frozen=True, eq=False, slots=True)
class Echoes:
    """The pings of a pair: round-trip times in ns, and the ``ns`` at which unanswered ones were given up."""

    times: Series
    unanswered: NDArray[np.int64]

    def lost(self, start: int, end: int) -> int:
        """Count the pings given up between two times (ns of CLOCK_MONOTONIC), an interval after each was sent."""
        return int(np.count_nonzero((self.unanswered >= start) & (self.unanswered < end)))


@dataclass(frozen=True, slots=True)
class IperfReport:
    """An iperf3 report of a tenth of a second that ended ``end`` seconds after the stream began."""

    end: float
    octets: float


def reports(said: str) -> list[IperfReport]:
    """Parse the interval reports of iperf3; the last one may be printed twice and is counted once."""
    found = {
        float(end): float(kbits) * 125 * (float(end) - float(start)) for start, end, kbits in _REPORT.findall(said)
    }
    return [IperfReport(end, octets) for end, octets in found.items()]


def received(recording: Recording, pair: str) -> Series:
    """Return the total bytes received by a pair's TCP stream, every tenth of a second.

    UsageError if the pair has no stream, or its program was not ended; InvalidInput if the recording is damaged.
    """
    note = _note(recording, STREAM, pair)
    told = reports(_said(recording, note, "port"))
    try:
        ends = [int(note.data["began"]) + round(each.end * _NS) for each in told]
    except (KeyError, TypeError, ValueError) as error:
        raise invalid(recording.folder.notes, "is damaged") from error
    octets = np.cumsum([round(each.octets) for each in told], dtype=np.uint64)
    return Series(name=f"{pair} received", ns=np.array(ends, np.int64), values=octets, clock=recording.clock)


def echoes(recording: Recording, pair: str) -> Echoes:
    """Return the pings of a pair; raises like ``received``."""
    said = _said(recording, _note(recording, ECHO, pair), "address")
    answers = {int(number): (stamp, ms) for stamp, number, ms in _ANSWER.findall(said)}
    times = Series(
        name=f"{pair} echo",
        ns=_monotonic(recording, [stamp for stamp, _ in answers.values()]),
        values=np.array([round(float(ms) * 1e6) for _, ms in answers.values()], np.uint64),
        clock=recording.clock,
        gauge=True,
    )
    silences = [stamp for stamp, number in _SILENCE.findall(said) if int(number) not in answers]
    return Echoes(times, _monotonic(recording, silences))


def answered(recording: Recording, pair: str, first: str, last: str = "") -> list[int]:
    """Return when pings of a pair were answered, in ns, from the phase ``first`` to ``last`` (default: ``first``)."""
    start, end = recording.phase(first).start, recording.phase(last or first).end
    return [ns for ns in echoes(recording, pair).times.ns.tolist() if start <= ns < end]


def longest_silence(recording: Recording, pair: str, first: str, last: str = "") -> float:
    """Return the longest time without an answer in these phases, their start and end included, in seconds."""
    start, end = recording.phase(first).start, recording.phase(last or first).end
    times = [start, *answered(recording, pair, first, last), end]
    return max(later - earlier for earlier, later in pairwise(times)) / _NS


def _note(recording: Recording, kind: str, pair: str) -> RecordedEvent:
    """Return the last note of this kind on a pair."""
    notes = [event for event in recording.events(kind="note") if event.data.get("text") == kind]
    noted = {str(note.data.get("pair")): note for note in notes}
    if pair not in noted:
        raise UsageError(f"{recording.name} has no {kind} of {pair}", suggest(pair, noted, "see rocelab record show"))
    return noted[pair]


def _said(recording: Recording, note: RecordedEvent, key: str) -> str:
    """Return the output of the last command for a note: in its node, with the note's ``key`` as its last argument."""
    for command in reversed(recording.commands):
        if command.node == note.node and command.argv[-1:] == (str(note.data.get(key)),):
            return command.stdout
    raise UsageError(
        f"{recording.name}: the traffic of {note.data.get('pair')} was not recorded", "the recording ends before"
    )


def _monotonic(recording: Recording, stamps: Sequence[str]) -> NDArray[np.int64]:
    """Convert times of day, in seconds with six decimals, to ns of CLOCK_MONOTONIC."""
    microseconds = [int(stamp.replace(".", "")) for stamp in stamps]
    return np.array(microseconds, np.int64) * 1000 - recording.realtime_offset
