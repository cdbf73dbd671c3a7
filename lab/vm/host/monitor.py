"""QEMU's monitor: commands and background jobs over QMP (QEMU Machine Protocol)."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections import deque
from typing import IO, TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from pathlib import Path

PATIENCE: Final = 60.0
"""Seconds without a message after which a monitor or a job is given up."""
_KEPT: Final = 64
"""Number of kept events that nothing has waited for yet."""
_POLL: Final = 0.001
_JOB: Final = "rocelab"
_NOT_UNDER_WAY: Final = frozenset({"none", "completed", "failed", "cancelled"})
"""Results of query-migrate before and after a migration (QEMU's MigrationStatus)."""


class Monitor:
    """A connection to the monitor of one QEMU, which accepts one connection at a time."""

    def __init__(self, connection: socket.socket, answers: IO[str]) -> None:
        self._connection = connection
        self._answers = answers
        self._events: deque[dict[str, Any]] = deque(maxlen=_KEPT)

    def execute(self, command: str, *, descriptor: int | None = None, **arguments: Any) -> Any:
        """Run a command, with an optional ``descriptor``, and return its result. OperationFailed if QEMU refuses.

        Arguments have their QMP names, with underscores instead of dashes.
        """
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        message = json.dumps({"execute": command, "arguments": named}).encode()
        try:
            socket.send_fds(self._connection, [message], [] if descriptor is None else [descriptor])
            while not {"return", "error"} & (answer := self._hear()).keys():
                self._events.append(answer)
        except OSError as error:
            raise OperationFailed(f"QEMU does not answer {command}", "rocelab vm down, then up again") from error
        if "error" in answer:
            raise OperationFailed(f"QEMU refuses {command}: {answer['error']['desc']}")
        return answer["return"]

    def job(self, command: str, **arguments: Any) -> None:
        """Run a command that starts a job, and wait for the job's end."""
        self.execute(command, job_id=_JOB, **arguments)
        self._await(command, "JOB_STATUS_CHANGE", {"concluded"}, id=_JOB)
        (job,) = (job for job in self.execute("query-jobs") if job["id"] == _JOB)
        self.execute("job-dismiss", id=_JOB)
        if "error" in job:
            raise OperationFailed(f"QEMU could not {command}: {job['error']}")

    def migrate(self, command: str, uri: str) -> None:
        """Run a command that sends or receives the VM's state, to its end. OperationFailed if the transfer fails."""
        self.execute("migrate-set-capabilities", capabilities=[{"capability": "events", "state": True}])
        self.execute(command, uri=uri)
        if self._await(command, "MIGRATION", {"completed", "failed"}) == "failed":
            raise OperationFailed(f"the VM's state did not go across: {self._failure()}")
        self._until("migration", self._is_settled)

    def _failure(self) -> str:
        """Return why a migration failed. A QEMU that cannot read a VM's state ends, often before it answers."""
        with contextlib.suppress(OperationFailed):
            if why := self.execute("query-migrate").get("error-desc"):
                return str(why)
        return "QEMU does not say why"

    def end_migration(self) -> None:
        """Cancel any migration and wait for its end, whichever connection began it."""
        self.execute("migrate_cancel")
        self._until("migration", self._is_settled)

    def end_job(self) -> None:
        """Cancel and dismiss any job of ``job``, whichever connection began it."""
        self._until("job", self._has_no_job)

    def _is_settled(self) -> bool:
        """Return whether QEMU has cleaned up after a migration. No event says so; until then QEMU refuses `cont`."""
        under_way = self.execute("query-migrate").get("status", "none") not in _NOT_UNDER_WAY
        return not under_way and self.execute("query-status")["status"] != "finish-migrate"

    def _has_no_job(self) -> bool:
        """Return whether the job is gone. Otherwise cancel it, or dismiss it if it has ended."""
        for job in self.execute("query-jobs"):
            if job["id"] == _JOB:
                # QEMU refuses this while the job changes its state.
                with contextlib.suppress(OperationFailed):
                    self.execute("job-dismiss" if job["status"] == "concluded" else "job-cancel", id=_JOB)
                return False
        return True

    def _until(self, what: str, ended: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not ended():
            if time.monotonic() > deadline:
                raise OperationFailed(f"QEMU did not end its {what}", "rocelab vm down, then up again")
            time.sleep(_POLL)

    def _await(self, command: str, event: str, ends: Container[str], **about: str) -> str:
        """Wait for an event of this name with a status in ``ends``, and return that. OperationFailed on timeout."""
        while True:
            try:
                told = self._events.popleft() if self._events else self._hear()
            except OSError as error:
                raise OperationFailed(f"QEMU did not end {command}", "rocelab vm down, then up again") from error
            data = told.get("data", {})
            if told.get("event") == event and data["status"] in ends and about.items() <= data.items():
                return str(data["status"])

    def _hear(self) -> dict[str, Any]:
        """Return QEMU's next message. Raises ConnectionResetError if QEMU is gone."""
        if not (line := self._answers.readline()):
            raise ConnectionResetError
        told: dict[str, Any] = json.loads(line)
        return told


@contextlib.contextmanager
def monitor(path: Path) -> Iterator[Monitor]:
    """Connect to the monitor at a socket. Raises OperationFailed if no QEMU answers."""
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
