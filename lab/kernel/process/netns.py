"""Network namespaces under /run/netns, made in batches and without a process for each."""

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
"""Device and inode of a namespace: nobody else's for as long as it is there."""

NETNS_DIR: Final = Path("/run/netns")
_STATE: Final = Path("/run/rocelab")
_OUR_DIRECTORY: Final = _STATE / "made-netns"
_OUR_MOUNT: Final = _STATE / "mounted-netns"
"""There when the directory, and the mount on it, are ours: ``ip netns add`` makes the same and leaves them."""
_OUR_MOUNT_POINT: Final = _STATE / "made-mount-point"
"""Names a directory that programs in namespaces have mounts on, and that was made for that."""
_SELF: Final = "/proc/thread-self/ns/net"
_SO_NETNS_COOKIE: Final = 71
_AT_ONCE: Final = 64
"""Namespaces that are open at a time while they have no names."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A named network namespace, there or not, and the cgroup of the programs that are started in it."""

    name: str
    group: Path | None = None

    @property
    def path(self) -> Path:
        """Where its name is bound, as ``ip netns`` expects it."""
        return NETNS_DIR / self.name

    def exists(self) -> bool:
        """Whether the name is taken."""
        return self.path.exists()

    @property
    def place(self) -> Place | None:
        """Which namespace has the name now; None when it is free."""
        return _place_at(str(self.path))

    def enter(self) -> None:
        """Move the calling thread, which was made for this, into the namespace for good.

        OperationFailed when it is gone, EnvironmentLacks without the right to.
        """
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

    def inside(self, work: Callable[[], T]) -> T:
        """What ``work`` returns, done in the namespace; sockets and programs that it starts are there.

        A thread of its own does it. The caller's, which signals may interrupt anywhere, never leaves its namespace.
        """

        def body() -> T:
            self.enter()
            return work()

        return threads.in_thread(body)

    def run(
        self, argv: process.Argv, *, timeout: float | None = 60, check: bool = True, stdin: str | None = None
    ) -> process.Completed:
        """``process.run`` in the namespace."""
        return process.run(argv, timeout=timeout, check=check, stdin=stdin, place=self.inside)

    def start(
        self,
        argv: process.Argv,
        *,
        stdin: process.Stream = process.DEVNULL,
        stdout: process.Stream = process.DEVNULL,
        stderr: process.Stream = process.DEVNULL,
    ) -> process.Process:
        """``process.start`` in the namespace."""
        with cgroup.opened(self.group) as group:
            return self.inside(lambda: process.start(argv, stdin=stdin, stdout=stdout, stderr=stderr, group=group))


def create(names: Sequence[str], announce: Announce = lambda _cookies: None) -> None:
    """Make one namespace for each name; OperationFailed when a name is taken.

    ``announce`` is told the cookie of each namespace before it gets its name: with both, ``own`` knows it again.
    """
    with _shared_directory():
        for start in range(0, len(names), _AT_ONCE):
            chunk = names[start : start + _AT_ONCE]
            threads.in_thread(lambda chunk=chunk: _create_here(chunk, announce))  # type: ignore[misc]


def prepare() -> None:
    """Have the directory as ``create`` makes it, and takes it away, for who else is about to put names into it."""
    with locks.locked(_STATE):
        _share_directory()


@contextlib.contextmanager
def _shared_directory() -> Iterator[None]:
    """The directory while names are put into it; gone again when the first of them fails."""
    with locks.locked(_STATE):
        _share_directory()
        try:
            yield
        except BaseException:
            _remove_directory()
            raise


def _share_directory() -> None:
    """Set the directory up as ip-netns(8) does with its first namespace: shared, and a mount of its own.

    Otherwise the first ``ip netns add`` beside a fabric binds it over itself with all that is mounted in it, and what
    lies below that is busy for good.
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
    """Make a directory, which ``tidy`` removes again, for programs in namespaces to mount on; fine when it exists."""
    if directory.is_dir():
        return
    with locks.locked(_STATE):
        if not directory.is_dir():
            _OUR_MOUNT_POINT.write_text(str(directory), encoding="utf-8")
            directory.mkdir(mode=0o755)


def tidy() -> None:
    """Once no namespace has a name, take away what is ours of their directory; another's may have outlived ours."""
    if any(mark.exists() for mark in (_OUR_MOUNT, _OUR_DIRECTORY, _OUR_MOUNT_POINT)):
        with locks.locked(_STATE):
            _remove_directory()


def _remove_directory() -> None:
    """Once no namespace has a name in it, take away what is ours of the mount on it and, when it is empty, itself.

    Links to namespaces, as containerlab makes them, are in the directory below the mount, and stay.
    """
    entries = list(NETNS_DIR.iterdir()) if NETNS_DIR.exists() else []
    if not all(entry.is_symlink() for entry in entries):
        return
    if _OUR_MOUNT_POINT.exists():
        with contextlib.suppress(OSError):  # somebody else uses it, or it was not made
            Path(_OUR_MOUNT_POINT.read_text(encoding="utf-8")).rmdir()
        _OUR_MOUNT_POINT.unlink()
    for mark, remove in ((_OUR_MOUNT, partial(libc.unmount, NETNS_DIR, 0)), (_OUR_DIRECTORY, NETNS_DIR.rmdir)):
        if mark.exists() and not (entries and mark == _OUR_DIRECTORY):
            with contextlib.suppress(OSError):  # killed before it was made, or busy: somebody else's by now
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
    """Give names to namespaces that others have made, each by a process that lives in it; else as ``create``.

    OperationFailed when a process has ended or a name is taken.
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
    """Tell the cookies, then bind the names: to open namespaces, each with its cookie."""
    announce({name: cookie for name, cookie, _ in nameless})
    for name, cookie, namespace in nameless:
        _place(NETNS_DIR / name, cookie)
        libc.mount(f"/proc/self/fd/{namespace}", NETNS_DIR / name, flags=libc.MS_BIND)


def own_cookie() -> int:
    """The number of the calling thread's namespace, which no other has until the machine starts anew (Linux 5.14)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as any_socket:
        return int.from_bytes(any_socket.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8), sys.byteorder)


def _place(path: Path, cookie: int) -> None:
    """The file that a namespace is to be mounted on; it says from the first whose it is."""
    file = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, mode=0o444)
    try:
        os.write(file, str(cookie).encode())
        # With a descriptor it is linkat(2), which alone gives a name to a file without one (open(2), O_TMPFILE).
        os.link(f"/proc/self/fd/{file}", path, src_dir_fd=file, follow_symlinks=True)
    except FileExistsError as error:
        raise OperationFailed(f"namespace {path.name} exists", f"ip netns del {path.name}, if it is yours") from error
    finally:
        os.close(file)


def own(cookies: Mapping[str, int]) -> list[str]:
    """Those of the names that stand for the namespace with their cookie, or were to when somebody was killed."""
    return threads.in_thread(
        lambda: [name for name, cookie in cookies.items() if _cookie_at(NETNS_DIR / name) == cookie]
    )


def _cookie_at(path: Path) -> int:
    """The cookie that a name stands for, in whatever namespace that leaves the calling thread; 0 for none."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        libc.setns(file, libc.CLONE_NEWNET)
        return own_cookie()
    except OSError:  # no namespace
        said = os.read(file, 20)
        return int(said) if said.isdigit() else 0
    finally:
        os.close(file)


def delete(names: Iterable[str]) -> None:
    """Take the names away; the kernel frees each namespace with its last process. Missing names are fine.

    TCP connections that outlive their programs are ended first, or they would keep a namespace for minutes.
    """
    names = list(names)
    threads.in_thread(lambda: _end_connections(names))
    let_go(names)


def let_go(names: Iterable[str]) -> None:
    """Take names away from namespaces that others have, in which nothing ends by it. Missing names are fine."""
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
    """In whatever namespace that leaves the calling thread."""
    for name in names:
        with contextlib.suppress(OSError):  # it has gone, or was never mounted
            namespace = os.open(NETNS_DIR / name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                libc.setns(namespace, libc.CLONE_NEWNET)
            finally:
                os.close(namespace)
            tcp_connections.end_all()


def place_of(who: int | str) -> Place | None:
    """Which namespace a process, or ``thread-self``, is in; None when it has ended."""
    return _place_at(f"/proc/{who}/ns/net")


def _place_at(path: str) -> Place | None:
    try:
        state = os.stat(path)  # noqa: PTH116 - twice as fast as Path.stat, on every `down`
    except OSError:
        return None
    return state.st_dev, state.st_ino
