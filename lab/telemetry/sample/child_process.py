"""Child processes of a recorder: forks with imported modules, but none of the parent's descriptors.

The child ends when its parent ends, for any reason. They talk over one socket; closing it ends the child's work.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Any, Final

from lab.errors import ExpectedError, OperationFailed, UsageError
from lab.kernel.process import process, signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lab.errors import LabError

_LONGEST: Final = 1 << 20
_AT_ONCE: Final = 1e-3


class Control:
    """The child's end: receives requests of the parent and detects its end."""

    def __init__(self, end: socket.socket, parent: int) -> None:
        self._end = end
        self.descriptors = (end.fileno(), parent)

    def heard(self) -> dict[str, Any] | None:
        """Wait for the next request of the parent; None if the parent is gone."""
        watched = select.poll()
        for descriptor in self.descriptors:
            watched.register(descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in watched.poll()]
        message = self._end.recv(_LONGEST) if self.descriptors[0] in ready else b""
        return json.loads(message) if message else None

    def say(self, answer: dict[str, Any]) -> None:
        """Send an answer; ignored if the parent is gone."""
        with contextlib.suppress(OSError):
            self._end.send(json.dumps(answer).encode())


class ChildProcess:
    """The parent's end of a child that runs ``work``; ``keep`` are descriptors that stay open in the child."""

    def __init__(self, name: str, work: Callable[[Control], None], keep: Iterable[int] = ()) -> None:
        self._name = name
        self._unanswered = 0
        """Number of requests without an answer so far."""
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.pidfd_open(os.getpid())
        try:
            with signals.held():
                self.pid, mask = _fork()
                if not self.pid:
                    _be_child(Control(theirs, parent), work, {theirs.fileno(), parent, *keep}, mask)
        finally:
            os.close(parent)
            theirs.close()

    def ask(self, message: dict[str, Any], timeout: float = 60.0) -> dict[str, Any]:
        """Send a request and return the answer; OperationFailed if the child has ended, or does not answer in time.

        The child answers requests in order, so that late answers to earlier requests are recognised and skipped.
        """
        deadline = time.monotonic() + timeout
        try:
            self._end.settimeout(timeout)
            with contextlib.suppress(OSError):  # a failed child has sent its error and does not read any more
                self._end.send(json.dumps(message).encode())
                self._unanswered += 1
            while True:
                self._end.settimeout(max(0.0, deadline - time.monotonic()) or _AT_ONCE)
                said = self._heard()
                self._unanswered = max(0, self._unanswered - 1)
                if not said or not self._unanswered or "error" in json.loads(said):
                    break
        except TimeoutError:
            raise OperationFailed(f"{self._name} does not answer within {timeout:g} s") from None
        except OSError:
            said = b""
        if not said:
            raise OperationFailed(f"{self._name} has ended")
        answer: dict[str, Any] = json.loads(said)
        return answer

    def release(self) -> None:
        """Send a last message, which has no answer, and close the socket. Ignored if the child has ended."""
        with contextlib.suppress(OSError):
            self._end.send(json.dumps({"do": "go on"}).encode())
        self._end.close()

    def _heard(self) -> bytes:
        try:
            return self._end.recv(_LONGEST)
        except ConnectionResetError:  # raised once if the child ended with requests unread: its answer follows
            return self._end.recv(_LONGEST)

    def end(self) -> int:
        """Close the socket, wait until the child has ended, and return its exit code."""
        self._end.close()
        with contextlib.suppress(ChildProcessError):
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return 0


@contextlib.contextmanager
def lasting_child(
    name: str, work: Callable[[Control], None], end: Callable[[ChildProcess], object]
) -> Iterator[ChildProcess]:
    """Yield a child that goes on after the block, and after this process. ``end`` ends it if the block fails.

    It does so, too, if a signal interrupts this process while the child starts.
    """
    started: list[ChildProcess] = []
    try:
        with signals.held():
            started.append(ChildProcess(name, work))
        yield started[0]
    except BaseException:
        with signals.held():  # a second Ctrl-C must not interrupt the cleanup
            for child in started:
                end(child)
        raise


def failure(said: dict[str, Any]) -> LabError:
    """Convert a child's error answer to an exception."""
    return (UsageError if said["usage"] else OperationFailed)(said["message"], said["remedy"])


def _fork() -> tuple[int, set[signal.Signals | int]]:
    """Return what fork(2) does, and the signal mask before it.

    SIGTERM stays blocked in the child until ``_be_child``: a handler of the parent's would take it, and do nothing.
    """
    with warnings.catch_warnings():
        # The warning is about locks of other threads: the child only uses those of modules imported by now.
        warnings.simplefilter("ignore", DeprecationWarning)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            pid = os.fork()
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            raise
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return pid, mask


def _be_child(
    control: Control, work: Callable[[Control], None], keep: set[int], mask: set[signal.Signals | int]
) -> None:
    code = 1
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _close_all_but(keep)
        work(control)
        code = 0
    except ExpectedError as error:
        usage = isinstance(error, UsageError)
        control.say({"error": str(error), "message": error.message, "remedy": error.remedy, "usage": usage})
    except BaseException:  # noqa: BLE001 - it must not return into the parent's code
        said = traceback.format_exc().strip().splitlines()[-1]
        control.say({"error": said, "message": said, "remedy": "", "usage": False})
    finally:
        sys.stdout = sys.stderr = None
        os._exit(code)


def _close_all_but(keep: set[int]) -> None:
    """Close the parent's locks and terminals."""
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for stream in range(3):
        if stream not in keep:
            os.dup2(nowhere, stream)
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - closed meanwhile
        if int(entry) > 2 and int(entry) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(entry))


def allow(count: int) -> None:
    """Raise the limit on open files by ``count``, for this process and its children."""
    process.allow_descriptors(count)
