"""Finished transfers of a run: their size and time, and the duration of each or of each message."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.telemetry.store.recording_folder import read_records

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class Transfer:
    """A transfer of one pair, from its first message posted to its last one completed.

    ``seconds`` are by perftest's clock. ``ns``, of CLOCK_MONOTONIC, is the time at which its first packet was seen,
    at most about 20 ms after it was sent.
    """

    ns: int
    src: str
    dst: str
    verb: str
    """write, read or send; a read fetches its data from ``dst``."""
    size: int
    """Bytes of a message."""
    qps: int
    messages: int
    """The total of all QPs."""
    seconds: float
    times: tuple[float, ...] = ()
    """The seconds of each message in order, if messages were sent one at a time."""

    @property
    def pair(self) -> str:
        """Source and destination, ``h1:h4``, as on the command line."""
        return f"{self.src}:{self.dst}"

    @property
    def end_ns(self) -> int:
        """The end time, with the accuracy of the start time."""
        return self.ns + round(self.seconds * _NS)

    @property
    def bytes(self) -> int:
        """The payload in bytes."""
        return self.size * self.messages

    @property
    def goodput_bps(self) -> float:
        """The average payload rate, in bit/s."""
        return self.bytes * 8 / self.seconds

    @property
    def message_median(self) -> float | None:
        """The median duration of a message, in seconds; None if messages were not timed."""
        return float(np.median(self.times)) if self.times else None

    @property
    def message_max(self) -> float | None:
        """The duration of the slowest message, in seconds; None if messages were not timed."""
        return max(self.times, default=None)

    @property
    def ends(self) -> NDArray[np.float64]:
        """Seconds from the start to the end of each timed message: the times of ``goodputs``."""
        found: NDArray[np.float64] = np.cumsum(np.asarray(self.times, np.float64))
        return found

    @property
    def goodputs(self) -> NDArray[np.float64]:
        """The payload rate during each timed message, in bit/s: a time series."""
        found: NDArray[np.float64] = self.size * 8 / np.asarray(self.times, np.float64)
        return found


def read_transfers(path: Path) -> tuple[Transfer, ...]:
    """Read the transfers of a recording, in the order of their ends; InvalidInput if the file is damaged."""
    return read_records(path, _read)


def _read(line: Mapping[str, Any]) -> Transfer:
    made = Transfer(
        ns=int(line["ns"]),
        src=str(line["src"]),
        dst=str(line["dst"]),
        verb=str(line["verb"]),
        size=int(line["size"]),
        qps=int(line["qps"]),
        messages=int(line["messages"]),
        seconds=float(line["seconds"]),
        times=tuple(map(float, line["times"])),
    )
    if not all(0 < each < math.inf for each in (made.seconds, *made.times)):
        raise ValueError(f"a transfer of {made.seconds} s")
    return made
