"""The fault ledger of a fabric: active faults, the state before each, and its holder.

A line is written before each change and another when it is done. So a fault can be healed however its injection
ended. The file is in the fabric's folder, readable by root only, and is removed with the fabric.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.backends.fabric_state import FabricState

_BEGUN: Final = "begun"
_MODE: Final = 0o600
_START_TIME: Final = 19
"""Index of the start time (clock ticks since boot) after the name in /proc/PID/stat: proc_pid_stat(5), field 22."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that a fault depends on. When it is gone, the fault is abandoned and will be healed."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Self:
        """Return the process that has this pid now."""
        return cls(pid, _started(pid))

    @classmethod
    def current(cls) -> Self:
        """Return the calling process."""
        return cls.of(os.getpid())

    @property
    def lives(self) -> bool:
        """Whether the process still runs. A reused pid has a different start time."""
        return self.started != 0 and _started(self.pid) == self.started


@dataclass(frozen=True, slots=True)
class Entry:
    """A fault that is active, or whose injection or healing was interrupted."""

    number: int
    kind: str
    place: str
    parameters: Mapping[str, Any]
    before: Mapping[str, Any] = field(default_factory=dict)
    holder: Holder | None = None
    whole: bool = False
    """Whether the injection was completed."""
    timing: str = ""
    """The timing of a timed fault, as text. Its holder injects it repeatedly, each time as a separate entry."""

    def __str__(self) -> str:
        return f"{self.kind} at {self.place}"


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger file, which may not exist yet. Writers must hold the fabric's lock."""

    path: Path

    @classmethod
    def of(cls, state: FabricState) -> Self:
        """Return the ledger of a fabric."""
        return cls(state.faults)

    def entries(self) -> tuple[Entry, ...]:
        """Return all faults that are not healed, in the order of injection."""
        found: dict[int, Entry] = {}
        for line in self._lines():
            number = line.pop("number")
            match line.pop("did"):
                case "begun":
                    holder = line.pop("holder")
                    whole = bool(line["timing"])
                    found[number] = Entry(
                        number=number, holder=Holder(**holder) if holder else None, whole=whole, **line
                    )
                case "injected":
                    found[number] = replace(found[number], whole=True)
                case "healed":
                    found.pop(number, None)
        return tuple(found.values())

    def begin(self, entry: Entry) -> Entry:
        """Record a fault that is about to be injected, and return its entry with a number."""
        numbered = replace(entry, number=1 + max((line["number"] for line in self._lines()), default=0))
        holder = {"pid": entry.holder.pid, "started": entry.holder.started} if entry.holder else None
        self._write(
            number=numbered.number, did=_BEGUN, kind=entry.kind, place=entry.place,
            parameters=dict(entry.parameters), before=dict(entry.before), holder=holder, timing=entry.timing,
        )  # fmt: skip
        return numbered

    def injected(self, entry: Entry) -> Entry:
        """Record that the injection is complete."""
        self._write(number=entry.number, did="injected")
        return replace(entry, whole=True)

    def healed(self, entry: Entry) -> None:
        """Record that the fault is healed."""
        self._write(number=entry.number, did="healed")

    def _write(self, **line: Any) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            os.write(descriptor, (json.dumps(line) + "\n").encode())
        finally:
            os.close(descriptor)

    def _lines(self) -> list[dict[str, Any]]:
        """Return the lines of the file. An incomplete last line is ignored: its change had not begun."""
        with contextlib.suppress(FileNotFoundError):
            text = self.path.read_text(encoding="utf-8")
            return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        return []


def _started(pid: int) -> int:
    try:
        text = Path("/proc", str(pid), "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    state, *words = text.rpartition(")")[2].split()
    return 0 if state in {"Z", "X"} else int(words[_START_TIME - 1])
