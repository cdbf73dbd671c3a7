"""The layout of a recording on disk: the files of its directory, and how they are read.

The page ``rocelab docs recording`` describes the same layout.
"""

from __future__ import annotations

import contextlib
import json
import stat
import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lab.errors import InvalidInput, Problem, UsageError
from lab.units import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

_Record = TypeVar("_Record")
FORMAT: Final = "rocelab-recording"
VERSION: Final = 1
"""The version of the format: raised when an older reader would misread the files."""
_MOST_NS: Final = 1 << 62
_MOST_SECONDS: Final = 1e9
_MOST_TEXT: Final = 1 << 29
"""Maximum size of a file that is read as text at once, in bytes."""
_SHOWN: Final = 40
"""Maximum number of characters of a damaged value in an error message."""


class RecordKind(StrEnum):
    """The kinds of records that callers add. A value is the kind's file, JSON lines, in the recording's directory."""

    NOTE = "notes.jsonl"
    """Phases and notes."""
    COMMAND = "commands.jsonl"
    """Commands run by the caller, with output and exit code."""
    TRANSFER = "transfers.jsonl"
    """Finished transfers, and the duration of each."""
    JOB_STEP = "job_steps.jsonl"
    """Steps of training jobs, of each rank; ``rows/job_steps.parquet`` has them in a complete recording."""
    JOB_REQUEST = "job_requests.jsonl"
    """Requests of ``rocelab job transfer``; ``rows/job_requests.parquet`` has them in a complete recording."""
    JOB = "jobs.jsonl"
    """Finished training jobs: their size, and the QPs of their ranks with peers and paths."""
    TRUTH = "truth/truth.jsonl"
    """Injected faults; diagnosis must not read it."""
    CONFIGURATION = "state/configuration.jsonl"
    """Changes of the ports' QoS, when they happened, and as found at the beginning of each phase."""
    SYSCTLS = "state/sysctls.jsonl"
    """The sysctls of switches that choose among equal-cost paths: at the start, and their changes."""
    FORWARDING = "state/forwarding.jsonl"
    """In a fabric with an overlay: the nodes' forwarding state at the start, and its changes at each phase."""
    AUDIT = "state/audit.jsonl"
    """All settings of all nodes at the start (``lab.audit``), and those of changed nodes at the end."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The directory of one recording, whether or not it exists."""

    path: Path

    @property
    def about(self) -> Path:
        """Format, version, times, and whether it is complete. A directory with this file is a recording."""
        return self.path / "recording.json"

    @property
    def log(self) -> Path:
        """Samples and events while recording; deleted when the recording is complete."""
        return self.path / "log.raw"

    @property
    def tables(self) -> Path:
        """Counters as time series, in Parquet."""
        return self.path / "counters"

    @property
    def rows(self) -> Path:
        """Row tables, in Parquet."""
        return self.path / "rows"

    @property
    def events(self) -> Path:
        """Events of ports, kernel and routers."""
        return self.path / "events.jsonl"

    @property
    def notes(self) -> Path:
        """The caller's phases and notes."""
        return self.records(RecordKind.NOTE)

    @property
    def commands(self) -> Path:
        """Commands run by the caller, with output and exit code."""
        return self.records(RecordKind.COMMAND)

    @property
    def transfers(self) -> Path:
        """Finished transfers, and the duration of each."""
        return self.records(RecordKind.TRANSFER)

    @property
    def job_steps(self) -> Path:
        """Steps of training jobs, of each rank."""
        return self.records(RecordKind.JOB_STEP)

    def appended_rows(self, table: str) -> Path:
        """Rows of a table that commands append, for example ``job_steps``."""
        return self.path / f"{table}.jsonl"

    @property
    def jobs(self) -> Path:
        """Finished training jobs, with the QPs of their ranks."""
        return self.records(RecordKind.JOB)

    @property
    def captures(self) -> Path:
        """Captured packets, as pcapng."""
        return self.path / "captures"

    @property
    def terminal(self) -> Path:
        """Terminal sessions, as asciicast v2."""
        return self.path / "terminal"

    @property
    def truth(self) -> Path:
        """Injected faults; diagnosis must not read it."""
        return self.records(RecordKind.TRUTH)

    @property
    def topology(self) -> Path:
        """The fabric, as written by ``lab.model.store``."""
        return self.path / "topology.json"

    def state(self, when: str) -> Path:
        """Links, routes, neighbours, FDB, configuration and QoS, ``before`` or ``after`` the recording."""
        return self.path / "state" / f"{when}.json"

    @property
    def configuration(self) -> Path:
        """Changes of the ports' QoS, when they happened, and as found at the beginning of each phase."""
        return self.records(RecordKind.CONFIGURATION)

    @property
    def sysctls(self) -> Path:
        """The sysctls of switches that choose among equal-cost paths: at the start, and their changes."""
        return self.records(RecordKind.SYSCTLS)

    @property
    def forwarding(self) -> Path:
        """In a fabric with an overlay: the nodes' forwarding state at the start, and its changes at each phase."""
        return self.records(RecordKind.FORWARDING)

    @property
    def audit(self) -> Path:
        """All settings of all nodes at the start (``lab.audit``), and those of changed nodes at the end."""
        return self.records(RecordKind.AUDIT)

    def records(self, kind: RecordKind) -> Path:
        """The path of the records of a kind."""
        return self.path / kind.value

    def facts(self, what: str) -> Path:
        """The path of ``params`` or ``host``."""
        return self.path / f"{what}.json"


def invalid(path: Path, message: str, remedy: str = "record it again") -> InvalidInput:
    """Return an error about a file of a recording."""
    return InvalidInput(str(path), [Problem("", message, remedy)])


def read_about(folder: Folder) -> dict[str, Any]:
    """Read ``recording.json``; UsageError without a recording, InvalidInput if it is damaged or unsupported."""
    if folder.path.is_file():
        raise UsageError(f"{folder.path} is a file, and no recording", "name a folder: rocelab record ls lists them")
    if not folder.path.is_dir():
        raise UsageError(f"no recording {folder.path}", "rocelab record ls lists the recordings")
    _require_files([folder.about])
    try:
        about = json.loads(folder.about.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise invalid(
            folder.path, "is not a recording: it has no recording.json", "rocelab record start makes one"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise invalid(folder.about, "is damaged") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT or not isinstance(about.get("version"), int):
        raise invalid(folder.about, "is not rocelab's", "rocelab record start makes a recording")
    if about["version"] > VERSION:
        remedy = f"this rocelab reads up to version {VERSION}: use the one that wrote it"
        raise invalid(folder.path, f"is a recording of version {about['version']}", remedy)
    required = {**_FIELDS, "tables": _are_tables} if about.get("complete") else _FIELDS
    for name, is_right in required.items():
        if not is_right(about.get(name)):
            raise invalid(folder.about, f"is damaged: {name} is {json.dumps(about.get(name))[:_SHOWN]}")
    _require_files(entry for place in ("*", "*/*") for entry in folder.path.glob(place))
    return about


def _require_files(paths: Iterable[Path]) -> None:
    """Raise InvalidInput on FIFOs, devices and sockets: reading one could block, or never end.

    The same for JSON that is too large: sparse files declare any size.
    """
    for path in paths:
        with contextlib.suppress(OSError):  # a missing file has its own error, and a recorder renames files
            found = path.stat()
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
                raise invalid(path, "is not a regular file", "remove it")
            if found.st_size > _MOST_TEXT and path.suffix in {".json", ".jsonl"}:
                raise invalid(path, f"has {format_size(found.st_size)}: at most {format_size(_MOST_TEXT)} are read")


def _is_time(value: object) -> bool:
    return type(value) is int and abs(value) < _MOST_NS


def _is_length(value: object) -> bool:
    return type(value) in {int, float} and 0 <= value < _MOST_SECONDS  # type: ignore[operator] # a number by now


def _are_tables(value: object) -> bool:
    """Return whether ``tables`` is as in ``CounterTables``: for each table its keys, and which columns are gauges."""
    return isinstance(value, dict) and all(
        isinstance(table, dict)
        and isinstance(table.get("keys"), list)
        and all(isinstance(key, str) for key in table["keys"])
        and isinstance(table.get("columns"), dict)
        and all(isinstance(gauge, bool) for gauge in table["columns"].values())
        for table in value.values()
    )


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
"""A check for each field of ``recording.json``."""


@contextlib.contextmanager
def damage_as_invalid(path: Path) -> Iterator[None]:
    """Raise InvalidInput on content that no recorder writes."""
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
    """Return the recording host's clock minus CLOCK_MONOTONIC at the beginning, in ns.

    The VM has a clock of its own, in virtual time. Recordings of older versions only note that one.
    """
    noted = about.get("wall_offset_ns")
    return int(about["realtime_offset_ns"] if noted is None else noted)


def read_json(path: Path) -> Any:
    """Read a JSON file of a recording; None if it does not exist, InvalidInput if it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise invalid(path, "is damaged") from error


def read_facts(path: Path) -> Mapping[str, Any]:
    """Read a JSON file that contains an object; empty if it does not exist, InvalidInput if it is damaged."""
    found = read_json(path)
    if not isinstance(found, dict | None):
        raise invalid(path, "is damaged: it contains no object")
    return found or {}


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON-lines file. An incomplete last line is ignored: its writer was killed."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    except OSError as error:
        raise invalid(path, f"cannot be read: {error.strerror}") from error
    yield from parse_lines(text, path)


def parse_lines(text: str, path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of JSON lines as ``read_lines`` does; errors name ``path``."""
    lines = text.split("\n")
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


def read_records(path: Path, parse: Callable[[Mapping[str, Any]], _Record]) -> tuple[_Record, ...]:
    """Return the records of a JSON-lines file as values of one type; InvalidInput if one of them is damaged."""
    try:
        return tuple(map(parse, read_lines(path)))
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise invalid(path, "is damaged") from error


def write_json(path: Path, data: Any) -> None:
    """Write a file of a recording atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    try:
        fresh.write_text(json.dumps(data, indent=1, default=str) + "\n", encoding="utf-8")
        fresh.replace(path)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def note_failure(about: Path, why: str) -> None:
    """Add the reason of a failure to the description of a recording; does nothing if even that fails.

    It is changed in place: a full disk has no room for another file. If it has no room for the reason either, the
    description stays as it was.
    """
    with contextlib.suppress(OSError, ValueError), about.open("r+b", buffering=0) as file:
        old = file.read()
        data = json.loads(old)
        if isinstance(data, dict):
            new = json.dumps({**data, "why": why}).encode() + b"\n"
            file.seek(0)
            written = file.write(new)
            if written < len(new):
                file.seek(0)
                written = file.write(old)
            file.truncate(written)


def append_line(path: Path, data: dict[str, Any]) -> None:
    """Append an object to a JSON-lines file, in a single write."""
    append_lines(path, [data])


def append_lines(path: Path, every: Iterable[dict[str, Any]]) -> None:
    """Append objects to a JSON-lines file, each in a single write, so that other writers' lines stay whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        for data in every:
            file.write(json.dumps(data, default=str).encode() + b"\n")
