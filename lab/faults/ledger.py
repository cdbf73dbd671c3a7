"""The faults of a fabric on disk: what is there, what was there before, and who looks after it.

A line is written before anything is changed and another when it is done, so that a fault can be healed however its
injection ended. The file is in the fabric's folder, readable by root alone, and goes with the fabric.
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
"""Of /proc/PID/stat behind the name: in clock ticks since the machine began (proc_pid_stat(5), field 22)."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that looks after a fault: when it is gone the fault is nobody's, and is healed."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Self:
        """The process that has this pid now."""
        return cls(pid, _started(pid))

    @classmethod
    def current(cls) -> Self:
        """The calling process."""
        return cls.of(os.getpid())

    @property
    def lives(self) -> bool:
        """Whether it still runs: a pid that was given to another began at another time."""
        return self.started != 0 and _started(self.pid) == self.started


@dataclass(frozen=True, slots=True)
class Entry:
    """A fault that is there, or was on its way in or out when somebody was ended."""

    number: int
    kind: str
    place: str
    parameters: Mapping[str, Any]
    before: Mapping[str, Any] = field(default_factory=dict)
    holder: Holder | None = None
    whole: bool = False
    """Whether its injection came to its end."""
    timing: str = ""
    """Of one that comes and goes, in words: the holder injects and heals it, each time as an entry of its own."""

    def __str__(self) -> str:
        return f"{self.kind} at {self.place}"


@dataclass(frozen=True, slots=True)
class Ledger:
    """The file, there or not. Who writes holds the fabric's lock."""

    path: Path

    @classmethod
    def of(cls, state: FabricState) -> Self:
        """The ledger of a fabric."""
        return cls(state.faults)

    def entries(self) -> tuple[Entry, ...]:
        """All faults that are not healed, in the order of their injection."""
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
        """Write down what is about to be changed, and number it."""
        numbered = replace(entry, number=1 + max((line["number"] for line in self._lines()), default=0))
        holder = {"pid": entry.holder.pid, "started": entry.holder.started} if entry.holder else None
        self._write(
            number=numbered.number, did=_BEGUN, kind=entry.kind, place=entry.place,
            parameters=dict(entry.parameters), before=dict(entry.before), holder=holder, timing=entry.timing,
        )  # fmt: skip
        return numbered

    def injected(self, entry: Entry) -> Entry:
        """It is done."""
        self._write(number=entry.number, did="injected")
        return replace(entry, whole=True)

    def healed(self, entry: Entry) -> None:
        """It is undone."""
        self._write(number=entry.number, did="healed")

    def _write(self, **line: Any) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            os.write(descriptor, (json.dumps(line) + "\n").encode())
        finally:
            os.close(descriptor)

    def _lines(self) -> list[dict[str, Any]]:
        """A torn last line promised nothing."""
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
