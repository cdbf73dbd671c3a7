"""Start commands in the guest: as programs of their own, or as forks of the resident rocelab."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Final, Protocol

from lab.errors import LabError
from lab.kernel.process import process
from lab.vm.calls.request import BOOT_ENVIRONMENT

if TYPE_CHECKING:
    from lab.vm.calls.request import GuestRequest

NOT_STARTED: Final = 127
_IMPORTER: Final = "lab.vm.guest.archived_modules"
_RESIDENT: Final = "lab.cli.resident"
_ANSWER: Final = 4096
_SEND_BUFFER: Final = 1 << 20
_BACKLOG: Final = 64


class GuestCommand(Protocol):
    """A started command."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when the command has ended."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to the command's process group."""
        ...

    def code(self) -> int:
        """Return the exit code of the ended command as shells do: 128 plus the number of a signal that ended it."""
        ...


class Program:
    """A command that is a program of its own."""

    def __init__(self, request: GuestRequest, streams: tuple[int, int, int]) -> None:
        # The session must take the terminal as its controlling terminal, which setsid(1) does.
        words = ["setsid", "--ctty", *request.argv] if request.terminal else request.argv
        self._process = process.start(
            words,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            within=process.Surroundings(
                request.directory, request.whole_environment, new_session=not request.terminal
            ),
        )
        self._end = os.pidfd_open(self._process.pid)

    def fileno(self) -> int:
        """Return its pidfd."""
        return self._end

    def signal(self, number: int) -> None:
        """Send a signal to its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def code(self) -> int:
        """Return its exit code."""
        os.close(self._end)
        return _as_shells_have_it(self._process.wait())


class Fork:
    """A rocelab command that the resident rocelab forks."""

    def __init__(self, resident: str, request: GuestRequest, streams: tuple[int, int, int]) -> None:
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            self._connection.connect(resident)
            socket.send_fds(self._connection, [request.to_json()], list(streams))
            if not self._connection.recv(_ANSWER):
                raise ConnectionResetError
        except OSError:
            self._connection.close()
            raise

    def fileno(self) -> int:
        """Return the connection to the resident process, which delivers the exit code."""
        return self._connection.fileno()

    def signal(self, number: int) -> None:
        """Request the resident process to send a signal to the command's process group."""
        with contextlib.suppress(OSError):
            self._connection.send(json.dumps({"signal": number}).encode())

    def code(self) -> int:
        """Return the exit code from the resident process; that of SIGKILL if the resident is gone."""
        with self._connection:
            told = self._connection.recv(_ANSWER)
        return _as_shells_have_it(int(json.loads(told)["exit"]) if told else -signal.SIGKILL)


class Launcher:
    """Starts commands, and keeps one resident rocelab of the callers' version."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resident: process.Process | None = None
        self._code = ""
        self._address = ""

    def start(self, request: GuestRequest, streams: tuple[int, int, int]) -> GuestCommand:
        """Start the requested command. Raises LabError or OSError if that fails."""
        if request.argv[0] == "rocelab" and request.environment.get("ROCELAB_RESIDENT") != "0":
            self.keep_resident(request.code)
            with contextlib.suppress(OSError):  # the resident broke while it loaded: a separate program shows why
                return Fork(self._address, request, streams)
        return Program(request, streams)

    def keep_resident(self, code: str) -> None:
        """Ensure that a resident process of this code runs. One of other code ends when its commands have ended.

        It inherits a socket that already listens, so that early callers wait until it has loaded.
        """
        with self._lock:
            if self._resident and self._resident.poll() is None and self._code == code:
                return
            self._dismiss()
            self._code, self._address = code, f"\0rocelab-resident-{os.urandom(8).hex()}"
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
                listener.bind(self._address)
                listener.listen(_BACKLOG)
                self._resident = process.start(
                    [sys.executable, "-P", "-m", _IMPORTER, code, _RESIDENT, str(listener.fileno())],
                    stdin=process.PIPE,
                    within=process.Surroundings("/", BOOT_ENVIRONMENT, keep=[listener.fileno()]),
                )

    def close(self) -> None:
        """Dismiss the resident process and wait for its end."""
        with self._lock:
            if resident := self._dismiss():
                resident.wait()

    def _dismiss(self) -> process.Process | None:
        """Close the resident's input: no further caller comes, and it ends after its last command."""
        resident, self._resident = self._resident, None
        if resident and resident.stdin:
            resident.stdin.close()
        return resident


def refusal(error: Exception) -> bytes:
    """Return one line that says why a command did not start."""
    return f"error: {error if isinstance(error, LabError) else repr(error)}\n".encode()


def _as_shells_have_it(returncode: int) -> int:
    return returncode if returncode >= 0 else 128 - returncode
