"""Render the commands of a recording as a terminal session: asciicast v2, asciinema's format.

The session is not recorded, but rendered from ``commands.jsonl``: a command appears when it began, its whole output
when it ended. A phase is a marker.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

from lab.telemetry.store.recording_folder import read_lines, wall_offset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lab.telemetry.store.recording_folder import Folder

_NS: Final = 10**9
WIDTH: Final = 120
"""Columns, wide enough for most output; players wrap longer lines."""
HEIGHT: Final = 30


def write_cast(folder: Folder, about: Mapping[str, Any]) -> Path | None:
    """Write ``terminal/commands.cast`` if there were commands; OSError if the disk is full."""
    commands = list(read_lines(folder.commands))
    if not commands:
        return None
    start = int(about["start_ns"])
    header = {
        "version": 2, "width": WIDTH, "height": HEIGHT,
        "timestamp": (start + wall_offset(about)) // _NS,
        "title": f"commands of {folder.path.resolve().name}, rendered from commands.jsonl",
    }  # fmt: skip
    events = sorted([*_phases(folder), *_told(commands)], key=lambda event: event[0])
    folder.terminal.mkdir(exist_ok=True)
    file = folder.terminal / "commands.cast"
    with file.open("w", encoding="utf-8") as cast:
        cast.write(json.dumps(header) + "\n")
        cast.writelines(
            json.dumps([max(0, ns - start) / _NS, kind, text], ensure_ascii=False) + "\n" for ns, kind, text in events
        )
    return file


def _phases(folder: Folder) -> Iterator[tuple[int, str, str]]:
    for note in read_lines(folder.notes):
        if note.get("kind") == "phase" and note.get("name"):
            yield note["ns"], "m", str(note["name"])


def _told(commands: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str, str]]:
    """Yield the terminal's output by time; a command that ends after another was typed has its line repeated."""
    moments = [(int(each["ns"]), False, number) for number, each in enumerate(commands)]
    moments += [(int(each["end_ns"]), True, number) for number, each in enumerate(commands)]
    last = -1
    for ns, ended, number in sorted(moments, key=lambda moment: (moment[0], moment[1])):
        command = commands[number]
        typed = _typed(command) if number != last else ""
        last = number
        yield ns, "o", typed + (_output(command) if ended else "")


def _typed(command: Mapping[str, Any]) -> str:
    return f"\x1b[1m{command['node']}$ {shlex.join(map(str, command['argv']))}\x1b[0m\r\n"


def _output(command: Mapping[str, Any]) -> str:
    said = f"{command['stdout']}{command['stderr']}"
    if said and not said.endswith("\n"):
        said += "\n"
    if command["exit_code"]:
        said += f"[exit code {command['exit_code']}]\n"
    return said.replace("\r\n", "\n").replace("\n", "\r\n")
