"""Network namespaces under /run/netns, made in batches and without a process for each.

A thread of ours is moved, never the process: everything here leaves its caller where it was.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel import libc, process, signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T = TypeVar("T")

NETNS_DIR: Final = Path("/run/netns")
_SELF: Final = "/proc/thread-self/ns/net"


def in_thread(work: Callable[[], T]) -> T:
    """Run ``work`` in a thread of its own, whose namespaces end with it, and hand on its result or error.

    Signals wait for its end: the caller must not start to undo what the thread is still doing.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again, in the caller's thread
            failure.append(error)

    worker = threading.Thread(target=body)
    with signals.held():
        worker.start()
        worker.join()
    if failure:
        raise failure[0]
    return outcome[0]


@dataclass(frozen=True, slots=True)
class Namespace:
    """A named network namespace, there or not."""

    name: str

    @property
    def path(self) -> Path:
        """Where its name is bound, as ``ip netns`` expects it."""
        return NETNS_DIR / self.name

    def exists(self) -> bool:
        """Whether the name is taken."""
        return self.path.exists()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """The calling thread, and the programs and sockets it starts, are in the namespace meanwhile."""
        home = os.open(_SELF, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._enter()
            try:
                yield
            finally:
                libc.setns(home, libc.CLONE_NEWNET)
        finally:
            os.close(home)

    def _enter(self) -> None:
        try:
            target = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise OperationFailed(f"namespace {self.name} is gone", "rocelab down, then rocelab up") from error
        try:
            libc.setns(target, libc.CLONE_NEWNET)
        except PermissionError as error:
            raise EnvironmentLacks(f"namespace {self.name} cannot be entered", "run as root") from error
        finally:
            os.close(target)

    def run(
        self, argv: process.Argv, *, timeout: float | None = 60, check: bool = True, stdin: str | None = None
    ) -> process.Completed:
        """``process.run`` in the namespace."""
        with self.entered():
            return process.run(argv, timeout=timeout, check=check, stdin=stdin)

    def start(
        self,
        argv: process.Argv,
        *,
        stdin: process.Stream = process.DEVNULL,
        stdout: process.Stream = process.DEVNULL,
        stderr: process.Stream = process.DEVNULL,
    ) -> process.Process:
        """``process.start`` in the namespace."""
        with self.entered():
            return process.start(argv, stdin=stdin, stdout=stdout, stderr=stderr)


def create(names: Sequence[str]) -> None:
    """Make one namespace for each name; OperationFailed when a name is taken."""
    NETNS_DIR.mkdir(mode=0o755, exist_ok=True)
    in_thread(lambda: _create_here(names))


def _create_here(names: Iterable[str]) -> None:
    for name in names:
        path = NETNS_DIR / name
        try:
            path.touch(mode=0o444, exist_ok=False)
        except FileExistsError as error:
            raise OperationFailed(f"namespace {name} exists", f"ip netns del {name}, if it is yours") from error
        libc.unshare(libc.CLONE_NEWNET)
        libc.mount(_SELF, path, flags=libc.MS_BIND)


def delete(names: Iterable[str]) -> None:
    """Take the names away; the kernel frees each namespace with its last process. Missing names are fine."""
    for name in names:
        path = NETNS_DIR / name
        try:
            libc.unmount(path)
        except OSError as error:
            if error.errno not in {errno.EINVAL, errno.ENOENT}:
                raise
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        NETNS_DIR.rmdir()


def processes_in(names: Iterable[str]) -> dict[int, str]:
    """Process ids, and the namespace each is in, of everything that runs in the named namespaces."""
    wanted: dict[tuple[int, int], str] = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            state = (NETNS_DIR / name).stat()
            wanted[state.st_dev, state.st_ino] = name
    found: dict[int, str] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - twice as fast as Path.iterdir, on every `down`
        if entry.isdigit():
            with contextlib.suppress(OSError):
                state = os.stat(f"/proc/{entry}/ns/net")  # noqa: PTH116 - as above
                if name_of := wanted.get((state.st_dev, state.st_ino)):
                    found[int(entry)] = name_of
    return found
