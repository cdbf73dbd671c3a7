"""QEMU's monitor: commands and background jobs over QMP (QEMU Machine Protocol)."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import IO, TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE: Final = 60.0
"""Seconds until a monitor or a job that says nothing is given up."""
_POLL: Final = 0.01
_JOB: Final = "rocelab"


class Monitor:
    """A connection to the monitor of one QEMU, which has one caller at a time."""

    def __init__(self, connection: socket.socket, answers: IO[str]) -> None:
        self._connection = connection
        self._answers = answers

    def execute(self, command: str, *, descriptor: int | None = None, **arguments: Any) -> Any:
        """Run a command and return what it returns; ``descriptor`` goes along. OperationFailed when QEMU refuses.

        Arguments are named as QMP does, with underscores for its dashes.
        """
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        message = json.dumps({"execute": command, "arguments": named}).encode()
        try:
            socket.send_fds(self._connection, [message], [] if descriptor is None else [descriptor])
            while not {"return", "error"} & (answer := json.loads(self._answers.readline() or "null") or {}).keys():
                if not answer:
                    raise ConnectionResetError
        except OSError as error:
            raise OperationFailed(f"QEMU does not answer {command}", "rocelab vm down, then up again") from error
        if "error" in answer:
            raise OperationFailed(f"QEMU refuses {command}: {answer['error']['desc']}")
        return answer["return"]

    def job(self, command: str, **arguments: Any) -> None:
        """Run a command that is a job, to the job's end."""
        self.execute(command, job_id=_JOB, **arguments)
        deadline = time.monotonic() + PATIENCE
        while job := next((job for job in self.execute("query-jobs") if job["id"] == _JOB), None):
            if job["status"] == "concluded":
                self.execute("job-dismiss", id=_JOB)
                if "error" in job:
                    raise OperationFailed(f"QEMU could not {command}: {job['error']}")
                return
            if time.monotonic() > deadline:
                raise OperationFailed(f"QEMU did not end {command} within {PATIENCE:g} s")
            time.sleep(_POLL)

    def migration(self) -> None:
        """Wait for the migration that has begun; OperationFailed when it fails."""
        deadline = time.monotonic() + PATIENCE
        while (told := self.execute("query-migrate")).get("status") != "completed":
            if told.get("status") == "failed" or time.monotonic() > deadline:
                why = told.get("error-desc", f"{told} after {PATIENCE:g} s")
                raise OperationFailed(f"the VM's state did not go across: {why}")
            time.sleep(_POLL)


@contextlib.contextmanager
def monitor(path: Path) -> Iterator[Monitor]:
    """The monitor at a socket; OperationFailed when nobody is there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE)
        try:
            connection.connect(str(path))
            with connection.makefile("r", encoding="utf-8") as answers:
                answers.readline()
                connected = Monitor(connection, answers)
                connected.execute("qmp_capabilities")
                yield connected
        except OSError as error:
            raise OperationFailed(f"no QEMU answers at {path}", "rocelab vm down, then up again") from error
