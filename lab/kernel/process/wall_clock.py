"""The caller's time of day, also inside the VM, whose own clock runs slower in virtual time.

The guest's clock counts instructions. It falls behind the host's while the guest works, and resumes from a checkpoint
with the checkpoint's time. The guest's clock is never set, because captures and recordings measure with it. Instead,
the guest records pairs of times at the begin and end of each command: CLOCK_MONOTONIC and the caller's clock. The
time of day between two pairs is interpolated.
"""

from __future__ import annotations

import contextlib
import threading
import time
from bisect import bisect
from datetime import datetime
from pathlib import Path
from typing import Final

PAIRS: Final = Path("/run/rocelab-wall-clock")
"""In the VM: a line for each pair, seconds of CLOCK_MONOTONIC and seconds since 1970 by the caller's clock."""
CALLED_AT: Final = "ROCELAB_CALLED_AT"
"""In the environment of a command in the VM: when it was sent, by the caller's clock, in seconds since 1970."""
LAST_ENDED_AT: Final = "ROCELAB_LAST_ENDED_AT"
"""In the environment, too: when the previous command ended, by the caller's clock; absent for the first command."""
_MOST: Final = 1 << 16
"""Bytes of that file above which its older half is dropped: about 900 commands."""
_lock = threading.Lock()


def note(boot_seconds: float, wall: float) -> None:
    """Record that CLOCK_MONOTONIC was ``boot_seconds`` when the caller's clock was ``wall``. Ignores OSError."""
    line = f"{boot_seconds:.3f} {wall:.3f}\n"
    with _lock, contextlib.suppress(OSError):
        text = PAIRS.read_text(encoding="ascii") if PAIRS.exists() else ""
        if len(text) > _MOST:
            text = text[text.index("\n", _MOST // 2) + 1 :]
        new = PAIRS.with_suffix(".new")
        new.write_text(text + line, encoding="ascii")
        new.rename(PAIRS)


def seconds_at(boot_seconds: float) -> float:
    """Return a time of CLOCK_MONOTONIC by the caller's clock, in seconds since 1970."""
    pairs = _pairs()
    if not pairs:
        return time.time() - time.monotonic() + boot_seconds
    index = bisect(pairs, boot_seconds, key=lambda pair: pair[0])
    if index == 0:
        return pairs[0][1] - (pairs[0][0] - boot_seconds)
    boot, wall = pairs[index - 1]
    if index == len(pairs):
        return wall + boot_seconds - boot
    next_boot, next_wall = pairs[index]
    return wall + (boot_seconds - boot) * (next_wall - wall) / (next_boot - boot)


def now() -> float:
    """Return the caller's time, in seconds since 1970."""
    return seconds_at(time.monotonic())


def date_at(boot_seconds: float) -> datetime:
    """Return a time of CLOCK_MONOTONIC as a date in the caller's time zone."""
    return date_of(seconds_at(boot_seconds))


def date_of(seconds: float) -> datetime:
    """Return seconds since 1970 as a date in the caller's time zone."""
    return datetime.fromtimestamp(seconds).astimezone()


def stamp() -> str:
    """Return the caller's time as a part of a file name: 20261127-201500."""
    return f"{date_of(now()):%Y%m%d-%H%M%S}"


def time_zone() -> str:
    """Return this machine's time zone as a value of TZ that any machine understands (POSIX.1-2017, section 8.3)."""
    east = datetime.now().astimezone().utcoffset()
    minutes = round(east.total_seconds() / 60) if east else 0
    hours, rest = divmod(abs(minutes), 60)
    name, west = ("-", "+") if minutes < 0 else ("+", "-")
    return f"<{name}{hours:02}{rest:02}>{west}{hours}:{rest:02}"


def _pairs() -> list[tuple[float, float]]:
    """Return the recorded pairs in the order of CLOCK_MONOTONIC; none outside the VM."""
    try:
        lines = PAIRS.read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    pairs = {float(boot): float(wall) for boot, wall in map(str.split, lines)}
    return sorted(pairs.items())
