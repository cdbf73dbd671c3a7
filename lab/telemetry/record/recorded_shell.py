"""Record a shell on the caller's terminal: asciicast v2, asciinema's format.

Times are those of the recording, so that input can be compared with the counters.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import signal
import sys
import time
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TextIO

import pexpect

from lab.errors import OperationFailed
from lab.kernel.process import signals
from lab.telemetry.store.recording_folder import read_about, wall_offset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lab.telemetry.store.recording_folder import Folder

_NS: Final = 10**9
_CHUNK: Final = 4096
_NO_ESCAPE: Final = None
"""Disables pexpect's escape key: every key goes to the shell, and ``exit`` leaves it."""


class Cast:
    """A terminal recording, written line by line: readable even if its writer is killed."""

    def __init__(self, file: TextIO, start: int, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """``start`` is the origin of all times, by ``clock``, in ns."""
        self._file, self._start, self._clock = file, start, clock
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._size: list[object] | None = None

    def header(self, size: tuple[int, int], about: Mapping[str, Any], title: str) -> None:
        """Write the first line; ``size`` is rows and columns."""
        rows, columns = size
        began = (self._start + wall_offset(about)) // _NS
        self._line({"version": 2, "width": columns, "height": rows, "timestamp": began, "title": title})

    def output(self, data: bytes) -> bytes:
        """Record terminal output and return it unchanged; a character split between two reads follows later."""
        if self._size is not None:
            self._line(self._size)
            self._size = None
        if text := self._decoder.decode(data):
            self._line([self._now(), "o", text])
        return data

    def resized(self, rows: int, columns: int) -> None:
        """Note a new terminal size, for use in signal handlers: it is written before the next output."""
        self._size = [self._now(), "r", f"{columns}x{rows}"]

    def _now(self) -> float:
        return max(0, self._clock() - self._start) / _NS

    def _line(self, what: object) -> None:
        self._file.write(json.dumps(what, ensure_ascii=False) + "\n")
        self._file.flush()


def record_terminal(folder: Folder, argv: Sequence[str], environment: Mapping[str, str]) -> tuple[int, Path]:
    """Run a program on the caller's terminal until it ends; return its exit code, as in shells, and the file.

    OperationFailed if the recording is gone or the program does not start.
    """
    about = read_about(folder)
    with _new_file(folder) as file:
        cast = Cast(file, int(about["start_ns"]))
        cast.header(_size(), about, f"a terminal beside the recording {folder.path.resolve().name}")
        return _played(argv, environment, cast), folder.terminal / file.name


def _played(argv: Sequence[str], environment: Mapping[str, str], cast: Cast) -> int:
    try:
        child: Any = pexpect.spawn(argv[0], list(argv[1:]), env=environment, dimensions=_size())
    except pexpect.ExceptionPexpect as error:
        raise OperationFailed(f"{argv[0]} does not start: {error}") from error

    def follow(_: int) -> None:
        child.setwinsize(*_size())
        cast.resized(*_size())

    try:
        with signals.handled(follow, [signal.SIGWINCH]):
            child.interact(escape_character=_NO_ESCAPE, output_filter=cast.output)
            _show_rest(child, cast)
    finally:
        child.close(force=True)
    return int(child.exitstatus) if child.exitstatus is not None else 128 + int(child.signalstatus)


def _show_rest(child: Any, cast: Cast) -> None:
    """Show the remaining output: ``interact`` returns when the program ends, and may leave some unread."""
    with contextlib.suppress(pexpect.EOF, pexpect.TIMEOUT):
        while True:
            os.write(sys.stdout.fileno(), cast.output(child.read_nonblocking(_CHUNK, timeout=0)))


def _new_file(folder: Folder) -> TextIO:
    """Create the next free ``shell-N.cast``: several people may record shells of one fabric."""
    folder.terminal.mkdir(exist_ok=True)
    for number in count(1):
        try:
            return (folder.terminal / f"shell-{number}.cast").open("x", encoding="utf-8")
        except FileExistsError:
            continue
    raise AssertionError  # count has no end


def _size() -> tuple[int, int]:
    columns, rows = os.get_terminal_size(sys.stdout.fileno())
    return rows, columns
