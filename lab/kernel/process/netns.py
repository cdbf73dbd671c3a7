"""Network namespaces under /run/netns: created in batches, without a process for each."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel.netlink import tcp_connections
from lab.kernel.process import cgroup, libc, locks, netns_teardown, process, threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

T = TypeVar("T")
Announce: TypeAlias = "Callable[[Mapping[str, int]], None]"
Place: TypeAlias = tuple[int, int]
"""Device and inode number of a namespace: unique while the namespace exists."""

NETNS_DIR: Final = Path("/run/netns")
_STATE: Final = Path("/run/rocelab")
_OUR_DIRECTORY: Final = _STATE / "made-netns"
_OUR_MOUNT: Final = _STATE / "mounted-netns"
"""Markers: rocelab created the directory, and the mount on it. ``ip netns add`` makes the same and leaves them."""
_OUR_MOUNT_POINT: Final = _STATE / "made-mount-point"
"""Contains the path of a mount point that rocelab created for programs in namespaces."""
_SELF: Final = "/proc/thread-self/ns/net"
_SO_NETNS_COOKIE: Final = 71
_AT_ONCE: Final = 64
"""Namespaces that are open at the same time before they get names."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A named network namespace, which may not exist, and the cgroup of the programs started in it."""

    name: str
    group: Path | None = None

    @property
    def path(self) -> Path:
        """The path on which the namespace is mounted, as ``ip netns`` expects it."""
        return NETNS_DIR / self.name

    def exists(self) -> bool:
        """Return whether the name is in use."""
        return self.path.exists()

    @property
    def place(self) -> Place | None:
        """The namespace that has the name now; None if the name is unused."""
        return _place_at(str(self.path))

    def enter(self) -> None:
        """Move the calling thread into the namespace permanently. Call it only in a thread created for this.

        Raises OperationFailed if the namespace is gone, and EnvironmentLacks without the permission.
        """
        try:
            target = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise OperationFailed(f"namespace {self.name} is gone", "rocelab down, then rocelab up") from error
        try:
            libc.setns(target, libc.CLONE_NEWNET)
        except PermissionError as error:
            raise EnvironmentLacks(f"namespace {self.name} cannot be entered", "run as root") from error
        except OSError as error:
            if error.errno != errno.EINVAL:  # the name is left, as an ordinary file
                raise
            raise OperationFailed(f"namespace {self.name} is gone", "rocelab down, then rocelab up") from error
        finally:
            os.close(target)

    def answers(self) -> bool:
        """Return whether the namespace can be entered. Raises EnvironmentLacks without the permission."""
        try:
            self.inside(lambda: None)
        except OperationFailed:
            return False
        return True

    def inside(self, work: Callable[[], T]) -> T:
        """Run ``work`` in the namespace and return its result. Sockets and programs that it creates belong there.

        It runs in its own thread. The calling thread, which signals may interrupt anywhere, never changes namespace.
        """

        def body() -> T:
            self.enter()
            return work()

        return threads.in_thread(body)

    def run(
        self, argv: process.Argv, *, timeout: float | None = 60, check: bool = True, stdin: str | None = None
    ) -> process.Completed:
        """Run a program in the namespace, as ``process.run`` does."""
        return process.run(argv, timeout=timeout, check=check, stdin=stdin, place=self.inside)

    def start(
        self,
        argv: process.Argv,
        *,
        stdin: process.Stream = process.DEVNULL,
        stdout: process.Stream = process.DEVNULL,
        stderr: process.Stream = process.DEVNULL,
    ) -> process.Process:
        """Start a program in the namespace and in its cgroup, as ``process.start`` does."""
        with cgroup.opened(self.group) as group:
            return self.inside(lambda: process.start(argv, stdin=stdin, stdout=stdout, stderr=stderr, group=group))


def create(names: Sequence[str], announce: Announce = lambda _cookies: None) -> None:
    """Create a namespace for each name. Raises OperationFailed if a name is in use.

    ``announce`` gets the cookie of each namespace before the namespace gets its name. ``own`` identifies it by both.
    """
    with _shared_directory():
        for start in range(0, len(names), _AT_ONCE):
            chunk = names[start : start + _AT_ONCE]
            threads.in_thread(lambda chunk=chunk: _create_here(chunk, announce))  # type: ignore[misc]


def prepare() -> None:
    """Set up the directory as ``create`` does, for another program that is about to create namespaces in it."""
    with locks.locked(_STATE):
        _share_directory()


@contextlib.contextmanager
def _shared_directory() -> Iterator[None]:
    """Set up the directory while names are added to it; an error before the first name removes it again."""
    with locks.locked(_STATE):
        _share_directory()
        try:
            yield
        except BaseException:
            _remove_directory()
            raise


def _share_directory() -> None:
    """Set up the directory as ip-netns(8) does with its first namespace: a shared mount of its own.

    Otherwise the first ``ip netns add`` next to a fabric bind-mounts the directory, with all mounts in it, over
    itself. The mounts below then stay busy permanently.
    """
    if not NETNS_DIR.exists():
        _OUR_DIRECTORY.touch()
        NETNS_DIR.mkdir(mode=0o755)
    try:
        libc.mount("", NETNS_DIR, "none", libc.MS_SHARED | libc.MS_REC)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _OUR_MOUNT.touch()
        libc.mount(NETNS_DIR, NETNS_DIR, "none", libc.MS_BIND | libc.MS_REC)
        libc.mount("", NETNS_DIR, "none", libc.MS_SHARED | libc.MS_REC)


def make_mount_point(directory: Path) -> None:
    """Create a directory as a mount point for programs in namespaces, if missing. ``tidy`` removes it again."""
    if directory.is_dir():
        return
    with locks.locked(_STATE):
        if not directory.is_dir():
            _OUR_MOUNT_POINT.write_text(str(directory), encoding="utf-8")
            directory.mkdir(mode=0o755)


def tidy() -> None:
    """Remove rocelab's part of the directory once it contains no namespaces, not even those of other programs."""
    if any(mark.exists() for mark in (_OUR_MOUNT, _OUR_DIRECTORY, _OUR_MOUNT_POINT)):
        with locks.locked(_STATE):
            _remove_directory()


def _remove_directory() -> None:
    """If no namespace is left, remove rocelab's mount on the directory, and the directory itself if it is empty.

    Links to namespaces, as containerlab makes them, are in the directory below the mount, and stay.
    """
    entries = list(NETNS_DIR.iterdir()) if NETNS_DIR.exists() else []
    if not all(entry.is_symlink() for entry in entries):
        return
    if _OUR_MOUNT_POINT.exists():
        with contextlib.suppress(OSError):  # in use by another program, or never created
            Path(_OUR_MOUNT_POINT.read_text(encoding="utf-8")).rmdir()
        _OUR_MOUNT_POINT.unlink()
    for mark, remove in ((_OUR_MOUNT, partial(libc.unmount, NETNS_DIR, 0)), (_OUR_DIRECTORY, NETNS_DIR.rmdir)):
        if mark.exists() and not (entries and mark == _OUR_DIRECTORY):
            with contextlib.suppress(OSError):  # killed before it was created, or in use by another program
                remove()
            mark.unlink()


def _create_here(names: Sequence[str], announce: Announce) -> None:
    with contextlib.ExitStack() as stack:
        nameless: list[tuple[str, int, int]] = []
        for name in names:
            libc.unshare(libc.CLONE_NEWNET)
            namespace = os.open(_SELF, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, namespace)
            nameless.append((name, own_cookie(), namespace))
        _name(nameless, announce)


def adopt(processes: Mapping[str, int], announce: Announce) -> None:
    """Name namespaces that other programs created, each identified by a process in it; otherwise as ``create``.

    Raises OperationFailed if a process has ended or a name is in use.
    """
    with _shared_directory():
        process.allow_descriptors(len(processes))
        threads.in_thread(lambda: _adopt_here(processes, announce))


def _adopt_here(processes: Mapping[str, int], announce: Announce) -> None:
    with contextlib.ExitStack() as stack:
        nameless: list[tuple[str, int, int]] = []
        for name, pid in processes.items():
            try:
                namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise OperationFailed(f"process {pid}, for {name}, has ended") from error
            stack.callback(os.close, namespace)
            libc.setns(namespace, libc.CLONE_NEWNET)
            nameless.append((name, own_cookie(), namespace))
        _name(nameless, announce)


def _name(nameless: Sequence[tuple[str, int, int]], announce: Announce) -> None:
    """Announce the cookies of open namespaces, then mount each namespace on its name."""
    announce({name: cookie for name, cookie, _ in nameless})
    for name, cookie, namespace in nameless:
        _place(NETNS_DIR / name, cookie)
        libc.mount(f"/proc/self/fd/{namespace}", NETNS_DIR / name, flags=libc.MS_BIND)


def own_cookie() -> int:
    """Return the cookie of the calling thread's namespace: unique until the machine reboots (Linux 5.14)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as any_socket:
        return int.from_bytes(any_socket.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8), sys.byteorder)


def _place(path: Path, cookie: int) -> None:
    """Create the file that a namespace is mounted on. It contains the cookie from the moment it exists."""
    file = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, mode=0o444)
    try:
        os.write(file, str(cookie).encode())
        # With a descriptor this is linkat(2), the only way to name an O_TMPFILE file (open(2)).
        os.link(f"/proc/self/fd/{file}", path, src_dir_fd=file, follow_symlinks=True)
    except FileExistsError as error:
        raise OperationFailed(f"namespace {path.name} exists", f"ip netns del {path.name}, if it is yours") from error
    finally:
        os.close(file)


def own(cookies: Mapping[str, int]) -> list[str]:
    """Return the names whose namespace, or file left by a killed command, has the given cookie."""
    return threads.in_thread(
        lambda: [name for name, cookie in cookies.items() if _cookie_at(NETNS_DIR / name) == cookie]
    )


def _cookie_at(path: Path) -> int:
    """Return the cookie of a name's namespace, or 0. Changes the calling thread's namespace."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        libc.setns(file, libc.CLONE_NEWNET)
        return own_cookie()
    except OSError:  # not mounted: the file contains the cookie
        said = os.read(file, 20)
        return int(said) if said.isdigit() else 0
    finally:
        os.close(file)


def delete(names: Iterable[str]) -> None:
    """Delete names; the kernel frees each namespace with its last process. Missing names are fine.

    TCP connections that outlive their programs would keep a namespace for minutes, and are ended first.
    """
    names = list(names)
    threads.in_thread(lambda: _end_connections(names))
    let_go(names)


def let_go(names: Iterable[str]) -> None:
    """Delete names of namespaces that belong to other programs; nothing in them ends. Missing names are fine."""
    with netns_teardown.ending():
        for name in names:
            path = NETNS_DIR / name
            try:
                libc.unmount(path)
            except OSError as error:
                if error.errno not in {errno.EINVAL, errno.ENOENT}:
                    raise
            path.unlink(missing_ok=True)
    tidy()


def _end_connections(names: Iterable[str]) -> None:
    """End all TCP connections in the namespaces. Changes the calling thread's namespace."""
    for name in names:
        with contextlib.suppress(OSError):  # the namespace is gone, or was never mounted
            namespace = os.open(NETNS_DIR / name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                libc.setns(namespace, libc.CLONE_NEWNET)
            finally:
                os.close(namespace)
            tcp_connections.end_all()


def place_of(who: int | str) -> Place | None:
    """Return the namespace of a process, or of ``thread-self``; None if the process has ended."""
    return _place_at(f"/proc/{who}/ns/net")


def _place_at(path: str) -> Place | None:
    try:
        state = os.stat(path)  # noqa: PTH116 - twice as fast as Path.stat, on every `down`
    except OSError:
        return None
    return state.st_dev, state.st_ino
