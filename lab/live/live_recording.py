"""The recording that the live page starts and stops: a background recorder like that of ``rocelab record start``.

The commands run as processes of their own, wherever the fabric runs, and do not delay the page's updates.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Final, Self

from lab.kernel.process import process, wall_clock

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

    def __init__(self, fabric: str, ring: UpdateRing, argv: Callable[[Sequence[str]], Sequence[str]]) -> None:
        """``argv`` returns the command line of ``rocelab record WORDS...`` for this fabric."""
        self._fabric, self._ring, self._argv = fabric, ring, argv
        self._running: tuple[Process, IO[bytes]] | None = None
        self._opened = ExitStack()
        self._name = ""
        self._state = ""
        self.folder = ""

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
        if program.returncode:
            self._set("", _complaint(said, self._state))
        elif self._state == "starting":
            self.folder = str(json.loads(said)["folder"])
            self._set("recording")
        else:
            self._set("", f"saved: rocelab report {self._name}")

    def end(self) -> str:
        """Wait for the command that runs, and save the recording; return its folder, or "" without one."""
        if self._running is not None:
            process.wait(self._running[0], _PATIENCE)
            self.look()
        if self._state != "recording":
            return ""
        self.act("stop")
        return self.folder if self.end_of_saving() else ""

    def end_of_saving(self) -> bool:
        """Wait until the recording is saved; return whether it was."""
        if self._running is None:
            return False
        code = process.wait(self._running[0], _PATIENCE)
        self.look()
        return code == 0

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


def _complaint(said: str, doing: str) -> str:
    """Return the message of a failed command, which it printed as JSON."""
    try:
        error = json.loads(said)["error"]
        return f"{error['message']}: {error['remedy']}" if error.get("remedy") else str(error["message"])
    except (ValueError, LookupError, TypeError):
        return f"the recording failed while {doing}"
