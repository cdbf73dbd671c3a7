"""Transfers of a run that came to an end: what was moved, when, and how long that, or each message of it, took."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.telemetry.store.recording_folder import invalid, read_lines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class Transfer:
    """One pair's, from its first message posted to its last one completed.

    ``seconds`` are by perftest's clock; ``ns``, of CLOCK_MONOTONIC, is when its first packet was seen, some 20 ms
    after it was sent at most.
    """

    ns: int
    src: str
    dst: str
    verb: str
    """write, read or send: a read fetches its data from ``dst``."""
    size: int
    """Bytes of a message."""
    qps: int
    messages: int
    """On all QPs together."""
    seconds: float
    times: tuple[float, ...] = ()
    """The seconds of each message, in their order, where they went one after the other."""

    @property
    def pair(self) -> str:
        """Who moved something to whom, ``h1:h4``, as it is asked for."""
        return f"{self.src}:{self.dst}"

    @property
    def end_ns(self) -> int:
        """When it ended, as exactly as it is known when it began."""
        return self.ns + round(self.seconds * _NS)

    @property
    def bytes(self) -> int:
        """Payload."""
        return self.size * self.messages

    @property
    def goodput_bps(self) -> float:
        """Payload, bit/s, on average."""
        return self.bytes * 8 / self.seconds

    @property
    def message_median(self) -> float | None:
        """Seconds of which half of the messages took no more; None where none was timed."""
        return float(np.median(self.times)) if self.times else None

    @property
    def message_max(self) -> float | None:
        """Seconds that the slowest message took; None where none was timed."""
        return max(self.times, default=None)

    @property
    def ends(self) -> NDArray[np.float64]:
        """Seconds from its beginning to the end of each message that was timed: the times of the series below."""
        found: NDArray[np.float64] = np.cumsum(np.asarray(self.times, np.float64))
        return found

    @property
    def goodputs(self) -> NDArray[np.float64]:
        """Payload in bit/s while each message that was timed was under way: a time series."""
        found: NDArray[np.float64] = self.size * 8 / np.asarray(self.times, np.float64)
        return found


def read_transfers(path: Path) -> tuple[Transfer, ...]:
    """Those in a file of a recording, in the order in which they ended; InvalidInput when it is damaged."""
    try:
        return tuple(_read(line) for line in read_lines(path))
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise invalid(path, "is damaged") from error


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
