"""Commands in the guest, started for a call: programs of their own, or forks of the resident rocelab."""

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
_ANSWER: Final = 4096
_SEND_BUFFER: Final = 1 << 20
_BACKLOG: Final = 64


class GuestCommand(Protocol):
    """A command that was started."""

    def fileno(self) -> int:
        """A descriptor that is readable when the command has ended."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to it and all that it has started in its process group."""
        ...

    def code(self) -> int:
        """Its exit code, once it has ended, as shells have it: 128 and the signal's number when one ended it."""
        ...


class Program:
    """A program of its own."""

    def __init__(self, request: GuestRequest, streams: tuple[int, int, int]) -> None:
        # With a terminal its session has to take possession of it, which setsid(1) does.
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
        """Its pidfd."""
        return self._end

    def signal(self, number: int) -> None:
        """Send a signal to its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def code(self) -> int:
        """Its exit code."""
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
        """The connection to the resident, on which the exit code comes."""
        return self._connection.fileno()

    def signal(self, number: int) -> None:
        """Have the resident send a signal to its process group."""
        with contextlib.suppress(OSError):
            self._connection.send(json.dumps({"signal": number}).encode())

    def code(self) -> int:
        """Its exit code, as the resident tells it; that of SIGKILL when the resident is gone."""
        with self._connection:
            told = self._connection.recv(_ANSWER)
        return _as_shells_have_it(int(json.loads(told)["exit"]) if told else -signal.SIGKILL)


class Launcher:
    """Starts commands, and keeps one resident rocelab whose code is the callers'."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resident: process.Process | None = None
        self._code = ""
        self._address = ""

    def start(self, request: GuestRequest, streams: tuple[int, int, int]) -> GuestCommand:
        """Start what is asked for; LabError or OSError when that cannot be."""
        if request.argv[0] == "rocelab" and request.environment.get("ROCELAB_RESIDENT") != "0":
            self.keep_resident(request.code)
            with contextlib.suppress(OSError):  # it broke while it loaded: the program of its own says why
                return Fork(self._address, request, streams)
        return Program(request, streams)

    def keep_resident(self, code: str) -> None:
        """See to it that a resident of this code runs; one of another ends when its commands have.

        It inherits a socket that listens already: who asks early waits until it has loaded.
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
                    [sys.executable, "-P", "-m", "lab.cli.resident", str(listener.fileno())],
                    stdin=process.PIPE,
                    within=process.Surroundings("/", BOOT_ENVIRONMENT, keep=[listener.fileno()]),
                )

    def close(self) -> None:
        """Let the resident go, and wait until it has."""
        with self._lock:
            if resident := self._dismiss():
                resident.wait()

    def _dismiss(self) -> process.Process | None:
        """Tell the resident, by the end of its input, that no more callers come."""
        resident, self._resident = self._resident, None
        if resident and resident.stdin:
            resident.stdin.close()
        return resident


def refusal(error: Exception) -> bytes:
    """One line on why a command did not start."""
    return f"error: {error if isinstance(error, LabError) else repr(error)}\n".encode()


def _as_shells_have_it(returncode: int) -> int:
    return returncode if returncode >= 0 else 128 - returncode
