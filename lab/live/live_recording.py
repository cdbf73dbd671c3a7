"""The recording that the live page starts and stops: a background recorder like that of ``rocelab record start``.

The commands run as processes of their own, wherever the fabric runs, and do not delay the page's updates.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

from lab.errors import OperationFailed, UsageError
from lab.kernel.process import process, wall_clock
from lab.telemetry.store.recording_folder import Folder, read_about

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.kernel.process.process import Process
    from lab.live.update_ring import UpdateRing

_PATIENCE: Final = 120.0
"""Seconds for a recording to be saved when the live view ends."""
_LONGEST_NAME: Final = 40


class LiveRecording:
    """The state of the recording, as the page shows it; all methods are called from one thread.

    At the end of the context, a command that still runs is ended.
    """

    def __init__(
        self,
        fabric: str,
        ring: UpdateRing,
        argv: Callable[[Sequence[str]], Sequence[str]],
        tell: Callable[[str], None],
    ) -> None:
        """``argv`` returns the command line of ``rocelab record WORDS...`` for this fabric.

        ``tell`` gets a line when a recording was saved, or could not be started or saved.
        """
        self._fabric, self._ring, self._argv, self._tell = fabric, ring, argv, tell
        self._running: tuple[Process, IO[bytes]] | None = None
        self._opened = ExitStack()
        self._name = ""
        self._state = ""
        self._folder = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def act(self, what: str) -> None:
        """Start or stop the recording; ignored if it is being started or stopped."""
        if what == "start" and self._state == "":
            self._name = f"{self._fabric[:_LONGEST_NAME]}-{wall_clock.stamp()}"
            self._launch("starting", "start", self._name)
        elif what == "stop" and self._state == "recording":
            self._launch("saving", "stop", self._name)

    def look(self) -> None:
        """Report the end of a command, if one has ended."""
        if self._running is None or self._running[0].poll() is None:
            return
        program, output = self._running
        self._running = None
        output.seek(0)
        said = output.read().decode(errors="replace")
        self._opened.close()
        if self._state == "starting":
            self._folder = "" if program.returncode else _folder(said)
            self._set(*(("recording",) if self._folder else ("", _complaint(said, self._state))))
        elif program.returncode and not _is_complete(self._folder):
            self._set("", _complaint(said, self._state))
        else:
            self._set("", f"saved: rocelab report {self._name}")

    def end(self) -> None:
        """Wait for the command that runs, and save a recording that is in progress."""
        self._finish()
        self.act("stop")
        self._finish()

    def _finish(self) -> None:
        """Wait until the command that runs has ended; it is killed if it takes too long."""
        if self._running is not None:
            with suppress(OperationFailed):
                process.wait(self._running[0], _PATIENCE)
            self.look()

    def _launch(self, state: str, *words: str) -> None:
        output = self._opened.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - closed with the stack
        argv = self._argv(words)
        program = self._opened.enter_context(
            process.ended(lambda: process.start(argv, stdout=output.fileno(), stderr=process.DEVNULL))
        )
        self._running = program, output
        self._set(state)

    def _set(self, state: str, line: str = "") -> None:
        self._state = state
        self._ring.tell(recording={"state": state, "name": self._name, "line": line})
        if line:
            self._tell(line)


def _folder(said: str) -> str:
    """Return the folder that ``record start`` printed as JSON, or "" without one."""
    with suppress(ValueError, LookupError, TypeError):
        return str(json.loads(said)["folder"])
    return ""


def _is_complete(folder: str) -> bool:
    """Whether a recording is complete: ``rocelab down``, or a command on another terminal, may have ended it."""
    with suppress(UsageError):
        return bool(read_about(Folder(Path(folder))).get("complete"))
    return False


def _complaint(said: str, doing: str) -> str:
    """Return the message of a failed command, which it printed as JSON."""
    try:
        error = json.loads(said)["error"]
        return f"{error['message']}: {error['remedy']}" if error.get("remedy") else str(error["message"])
    except (ValueError, LookupError, TypeError):
        return f"the recording failed while {doing}"
