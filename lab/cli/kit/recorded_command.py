"""Adds commands that act on a running fabric to the recordings of that fabric.

A recorder runs in its own process. A command itself appends a line to ``commands.jsonl`` of the recording when it
ends: its arguments, begin and end, exit code, and output. The output of programs in nodes goes directly to the user's
terminal, and is not recorded.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, TypeAlias

from lab.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from lab.backends.fabric_state import FabricState

_Kind: TypeAlias = Literal["COMMAND", "TRUTH", "TRANSFER", "JOB_STEP", "JOB_REQUEST", "JOB"]
_MOST: Final = 100_000
"""Characters of output that are recorded."""
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""A control sequence of a terminal (ECMA-48 clause 5.4), as used for colours."""


class _Command:
    """The running command of this process; there is one at a time."""

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv
        self.states: list[FabricState] = []
        self.folders: list[Path] = []
        self.output: list[str] = []

    def note(self, state: FabricState) -> None:
        """Record that the command acts on a fabric; its active recordings will contain the command."""
        if state not in self.states:
            self.states.append(state)
        fresh = [folder for folder in _recorded_into(state) if folder not in self.folders]
        if fresh and not self.folders:
            sys.stdout = _Copy(sys.stdout, self.output)
        self.folders += fresh


class _Copy:
    """A stream that passes text on, and keeps a copy."""

    def __init__(self, stream: TextIO, kept: list[str]) -> None:
        self._stream, self._kept, self._left = stream, kept, _MOST

    def write(self, text: str) -> int:
        """Write text, and keep a copy of it."""
        self._kept.append(text[: self._left])
        self._left = max(0, self._left - len(text))
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Running:
    """Holds the recorded command of this process, or None."""

    command: _Command | None = None

    @classmethod
    def take(cls) -> _Command | None:
        """Return the command, and reset it to None."""
        command, cls.command = cls.command, None
        return command


def about(state: FabricState) -> None:
    """Record that the running command acts on this fabric."""
    if _Running.command is not None:
        _Running.command.note(state)


def keep(argv: list[str]) -> None:
    """Record the running command, as ``argv``, in recordings of the fabric on which it acts."""
    _Running.command = _Command(argv)


@contextlib.contextmanager
def recorded() -> Iterator[None]:
    """Run a command in this context; it is recorded if it calls ``keep`` and ``about``."""
    _Running.command = None
    began, stdout = time.monotonic_ns(), sys.stdout
    code = 1
    try:
        yield
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise
    finally:
        made, sys.stdout = _Running.take(), stdout
        if made is not None:
            _append(made, began, code)


def _append(made: _Command, began: int, code: int) -> None:
    for state in made.states:
        made.note(state)
    output = printable(_ESCAPE.sub("", "".join(made.output)))
    line = {
        "ns": began, "end_ns": time.monotonic_ns(), "node": "", "argv": made.argv, "exit_code": code,
        "stdout": output, "stderr": "",
    }  # fmt: skip
    for folder in made.folders:
        _to(folder, "COMMAND", line)


def injected(state: FabricState, ns: int, did: str, kind: str, place: str, parameters: dict[str, str]) -> None:
    """Write to the ground truth of the fabric's recordings that a fault was injected or healed (``did``) at ``ns``.

    An injection has its effects before it ends, so that ``ns`` is the time when it began.
    """
    line = {"ns": ns, "did": did, "kind": kind, "place": place, "parameters": parameters}
    for folder in _recorded_into(state):
        _to(folder, "TRUTH", line)


def transferred(state: FabricState, transfers: Iterable[dict[str, Any]]) -> None:
    """Write finished transfers to the fabric's recordings, each with the fields of ``Transfer``."""
    _every(state, "TRANSFER", transfers)


def stepped(state: FabricState, steps: Sequence[dict[str, Any]]) -> None:
    """Write steps of a training job to the fabric's recordings, and to its state as those of the last job.

    Each has the columns of ``job_steps``, and ``ns``. A job's first step takes the place of the job before.
    """
    from lab.kernel.process.files import replaced  # noqa: PLC0415 - needed only for jobs
    from lab.telemetry.store.recording_folder import append_lines  # noqa: PLC0415

    _every(state, "JOB_STEP", steps)
    if not state.job_steps.parent.is_dir():
        return  # the fabric is gone, and so is its folder: a job has no lock
    with contextlib.suppress(OSError):  # a full disk
        if steps[0]["step"] > 1:
            append_lines(state.job_steps, steps)
            return
        with replaced(state.job_steps) as fresh:
            fresh.unlink(missing_ok=True)  # of a job that was killed
            append_lines(fresh, steps)


def requested(state: FabricState, requests: Iterable[dict[str, Any]]) -> None:
    """Write requests of a transfer to the fabric's recordings: the columns of ``job_requests``, and ``ns``."""
    _every(state, "JOB_REQUEST", requests)


def described(state: FabricState, job: dict[str, Any]) -> None:
    """Write a finished training job to the fabric's recordings: the fields of ``JobDescription``, and ``ns``."""
    _every(state, "JOB", [job])


def _every(state: FabricState, kind: _Kind, lines: Iterable[dict[str, Any]]) -> None:
    folders = _recorded_into(state)
    kept = list(lines) if folders else []
    for folder in folders:
        _to(folder, kind, *kept)


def is_recorded(state: FabricState) -> bool:
    """Return whether a recording of the fabric is being made; a live view is none."""
    from lab.backends import recorders  # noqa: PLC0415 - for commands about a fabric

    return bool(recorders.running(state))


def _recorded_into(state: FabricState) -> list[Path]:
    """Return the folders of the active recordings and live views of a fabric."""
    from lab.backends import recorders  # noqa: PLC0415 - for commands about a fabric

    return recorders.folders(state)


def _to(recording: Path, kind: _Kind, *lines: dict[str, Any]) -> None:
    """Append lines to a recording; errors are ignored, because the command itself has succeeded."""
    from lab.telemetry.store.recording_folder import (  # noqa: PLC0415 - needed only for recordings
        Folder,
        RecordKind,
        append_lines,
    )

    folder = Folder(recording)
    with contextlib.suppress(OSError):
        if folder.about.exists():
            append_lines(folder.records(RecordKind[kind]), lines)
