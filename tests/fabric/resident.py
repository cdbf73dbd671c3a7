"""Forks of a process that has imported rocelab: what a command does without what Python needs to start.

A fork can be trapped (tests/fabric/injected.py) by ``ROCELAB_TEST_TRAP=CALL:N:MOMENT:WHAT`` in its environment.
"""

from __future__ import annotations

import atexit
import functools
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

from lab.cli.app import main as run_command
from lab.cli.resident import Resident, run, warm_up
from lab.vm.calls.request import GuestRequest
from lab.vm.guest.launch import Fork
from tests.fabric.injected import trapped

ROOT: Final = Path(__file__).parents[2]
TRAP: Final = "ROCELAB_TEST_TRAP"
_ADDRESS: Final = "ROCELAB_TEST_RESIDENT"
"""Where one listens that a parent has started for many sessions of pytest (tests/forks.py)."""
_KILLED: Final = 128
_LONGEST: Final = 1 << 20
"""Bytes of each stream that ``Begun.so_far`` reads."""
_MARK: Final = "STARTED_BY_TESTS"
os.environ.setdefault(_MARK, os.urandom(8).hex())
MARK: Final = f"{_MARK}={os.environ[_MARK]}"
"""In the environment of all that our commands start, however late it ends and whatever its parent is by then."""


class Begun:
    """``rocelab words...`` that runs; a context manager, which kills it when it still does in the end."""

    def __init__(self, *words: str, trap: str = "") -> None:
        given = {"ROCELAB_IN_VM": "", **os.environ, **({TRAP: trap} if trap else {})}
        request = GuestRequest(("rocelab", *words), str(ROOT), given, None, "")
        self._words, self._done = words, False
        self._said = [os.fdopen(os.memfd_create(name), "w+", encoding="utf-8") for name in ("out", "err")]
        with Path(os.devnull).open("rb") as nothing:
            out, err = (stream.fileno() for stream in self._said)
            self._fork = Fork(address(), request, (nothing.fileno(), out, err))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._done:
            self.kill()
        for stream in self._said:
            stream.close()

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the command and what it has started."""
        self._fork.signal(number)

    def so_far(self) -> str:
        """Its standard output and error until now, one after the other."""
        return "".join(os.pread(stream.fileno(), _LONGEST, 0).decode(errors="replace") for stream in self._said)

    def is_over(self, timeout: float = 0.0) -> bool:
        """Whether it has ended within so many seconds."""
        return bool(select.select([self._fork], [], [], timeout)[0])

    def end(self, timeout: float) -> subprocess.CompletedProcess[str]:
        """Wait for its end; a signal that ended it is a negative code, as subprocess has it."""
        if not self.is_over(timeout):
            raise subprocess.TimeoutExpired(self._words, timeout)
        code, self._done = self._fork.code(), True
        for stream in self._said:
            stream.seek(0)
        out, err = (stream.read() for stream in self._said)
        return subprocess.CompletedProcess(self._words, _KILLED - code if code > _KILLED else code, out, err)


def ended(*words: str, timeout: float, trap: str = "") -> subprocess.CompletedProcess[str]:
    """Run ``rocelab words...`` to its end."""
    with Begun(*words, trap=trap) as begun:
        return begun.end(timeout)


@functools.cache
def address() -> str:
    """Where the resident listens, which is started for the first who asks and ends with this process."""
    if known := os.environ.get(_ADDRESS):
        return f"\0{known}"
    name, listener = _listening()
    with listener:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fabric.resident", str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            cwd=ROOT,
        )
    atexit.register(process.communicate)  # its input ends, and so does it
    return f"\0{name}"


def _listening() -> tuple[str, socket.socket]:
    """An abstract address, and a socket that listens there."""
    name = f"rocelab-tests-{os.urandom(8).hex()}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"\0{name}")
    listener.listen()
    return name, listener


def fork_for_children() -> None:
    """Fork one for all processes that this one starts, from what this one has imported: ``warm_up`` comes first."""
    name, listener = _listening()
    its_input, ours = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(ours)
        os.dup2(its_input, 0)
        os.close(its_input)
        try:
            serve(listener)
        finally:
            os._exit(0)
    os.close(its_input)
    listener.close()
    os.environ[_ADDRESS] = name
    atexit.register(_ended, pid, ours)


def _ended(pid: int, its_input: int) -> None:
    """End its input, and so it."""
    os.close(its_input)
    os.waitpid(pid, 0)


def serve(listener: socket.socket) -> None:
    """Serve until the input ends, and in a child run the command."""
    request = Resident(listener).serve()
    if request is not None:
        wanted = request.environment.pop(TRAP, "")
        run(request, functools.partial(trapped, wanted) if wanted else run_command)


def main() -> None:
    """Load and serve."""
    warm_up()
    serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
