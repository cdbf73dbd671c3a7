"""What a recording is on disk: the files of its directory, and the rules by which they are read.

``rocelab docs recording`` tells people the same.
"""

from __future__ import annotations

import contextlib
import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.errors import InvalidInput, Problem, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

FORMAT: Final = "rocelab-recording"
VERSION: Final = 1
"""Raised when an older reader would read the files wrongly."""
_MOST_NS: Final = 1 << 62
_MOST_SECONDS: Final = 1e9
_SHOWN: Final = 40
"""Characters of a damaged value that an error shows."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The directory of one recording, there or not."""

    path: Path

    @property
    def about(self) -> Path:
        """Format, version, times, and whether it is complete: its being there makes the directory a recording."""
        return self.path / "recording.json"

    @property
    def log(self) -> Path:
        """The samples and events as they come; gone when the recording is complete."""
        return self.path / "log.raw"

    @property
    def tables(self) -> Path:
        """Counters as time series, in Parquet."""
        return self.path / "counters"

    @property
    def rows(self) -> Path:
        """Tables that grew, in Parquet."""
        return self.path / "rows"

    @property
    def events(self) -> Path:
        """What ports, kernel and routers told."""
        return self.path / "events.jsonl"

    @property
    def notes(self) -> Path:
        """Phases and notes of the caller."""
        return self.path / "notes.jsonl"

    @property
    def commands(self) -> Path:
        """Commands that the caller ran, with output and exit code."""
        return self.path / "commands.jsonl"

    @property
    def transfers(self) -> Path:
        """Transfers that came to an end, and how long each took."""
        return self.path / "transfers.jsonl"

    @property
    def captures(self) -> Path:
        """Packets, as pcapng."""
        return self.path / "captures"

    @property
    def terminal(self) -> Path:
        """Terminals, as asciicast v2."""
        return self.path / "terminal"

    @property
    def truth(self) -> Path:
        """What was injected, which no diagnosis may read."""
        return self.path / "truth" / "truth.jsonl"

    @property
    def topology(self) -> Path:
        """The fabric, as ``lab.model.store`` dumps it."""
        return self.path / "topology.json"

    def state(self, when: str) -> Path:
        """Links, routes, neighbours, FDB, configuration, qos ``before`` and ``after``."""
        return self.path / "state" / f"{when}.json"

    @property
    def configuration(self) -> Path:
        """The qos of the nodes' ports at the beginning of each phase, as far as it had changed since."""
        return self.path / "state" / "configuration.jsonl"

    @property
    def forwarding(self) -> Path:
        """Of a fabric with an overlay, what its nodes forward by as it begins and as each phase does."""
        return self.path / "state" / "forwarding.jsonl"

    def facts(self, what: str) -> Path:
        """``params`` or ``host``."""
        return self.path / f"{what}.json"


def invalid(path: Path, message: str, remedy: str = "record it again") -> InvalidInput:
    """One line about a file of a recording."""
    return InvalidInput(str(path), [Problem("", message, remedy)])


def read_about(folder: Folder) -> dict[str, Any]:
    """What ``recording.json`` says; UsageError when there is no recording, InvalidInput when it is not for us."""
    if not folder.path.is_dir():
        raise UsageError(f"no recording {folder.path}", "rocelab record ls lists the recordings")
    try:
        about = json.loads(folder.about.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise invalid(
            folder.path, "is no recording: it has no recording.json", "rocelab record start makes one"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise invalid(folder.about, "is damaged") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT or not isinstance(about.get("version"), int):
        raise invalid(folder.about, "is not rocelab's", "rocelab record start makes a recording")
    if about["version"] > VERSION:
        remedy = f"this rocelab reads up to version {VERSION}: use the one that wrote it"
        raise invalid(folder.path, f"is a recording of version {about['version']}", remedy)
    for name, is_right in _FIELDS.items():
        if not is_right(about.get(name)):
            raise invalid(folder.about, f"is damaged: {name} is {json.dumps(about.get(name))[:_SHOWN]}")
    return about


def _is_time(value: object) -> bool:
    return type(value) is int and abs(value) < _MOST_NS


def _is_length(value: object) -> bool:
    return type(value) in {int, float} and 0 <= value < _MOST_SECONDS  # type: ignore[operator] # a number by now


_FIELDS: Final[dict[str, Callable[[Any], bool]]] = {
    "fabric": lambda value: isinstance(value, str),
    "hz": lambda value: _is_length(value) and value > 0,
    "start_ns": _is_time,
    "realtime_offset_ns": _is_time,
    "wall_offset_ns": lambda value: value is None or _is_time(value),
    "seconds": lambda value: value is None or _is_length(value),
    "skipped": lambda value: value is None or _is_time(value),
    "why": lambda value: value is None or isinstance(value, str),
    "complete": lambda value: value is None or isinstance(value, bool),
}
"""What each field of ``recording.json`` must be."""


@contextlib.contextmanager
def damage_as_invalid(path: Path) -> Iterator[None]:
    """Raise InvalidInput about a recording that says what no recorder has written."""
    try:
        yield
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        struct.error,
    ) as error:
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise invalid(path, f"is damaged: {said}") from error


def wall_offset(about: Mapping[str, Any]) -> int:
    """How far the clock of whoever made a recording was ahead of CLOCK_MONOTONIC when it began, in ns.

    The VM's own clock is another one, in virtual time; recordings of older versions have that one alone.
    """
    noted = about.get("wall_offset_ns")
    return int(about["realtime_offset_ns"] if noted is None else noted)


def read_json(path: Path) -> Any:
    """What a file of a recording says, None without it; InvalidInput when it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise invalid(path, "is damaged") from error


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects in a file with one a line; a last line that is torn is left out, as its writer was killed."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return
    except OSError as error:
        raise invalid(path, f"cannot be read: {error.strerror}") from error
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                return
            raise invalid(path, f"line {number} is damaged") from error
        if not isinstance(found, dict) or not _is_time(found.get("ns")):
            raise invalid(path, f"line {number} has no time")
        yield found


def write_json(path: Path, data: Any) -> None:
    """Write a file of a recording at one stroke."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    try:
        fresh.write_text(json.dumps(data, indent=1, default=str) + "\n", encoding="utf-8")
        fresh.replace(path)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def append_line(path: Path, data: dict[str, Any]) -> None:
    """Append an object to a file with one a line; whole or not at all for whoever reads it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        file.write(json.dumps(data, default=str).encode() + b"\n")
