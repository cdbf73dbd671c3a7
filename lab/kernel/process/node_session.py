"""A program in a node: with the node's network, hostname, /sys, /etc and own directories."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError
from lab.kernel.process import cgroup, libc, netns, netns_files, process, threads, tuning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lab.kernel.process.netns import Namespace

_SYS: Final = Path("/sys")


@dataclass(frozen=True)
class NodeSession:
    """The environment of a program in a node.

    It has its own mounts, as ``ip netns exec`` makes them: the namespace's /sys, and the files of /etc/netns.
    """

    namespace: Namespace
    hostname: str
    directories: Mapping[Path, Path | None]
    """Directories to mount over; each shows the entries of another directory, or is empty (None)."""
    kept: Sequence[Path] = ()
    """Directories of the machine's own /sys that stay visible."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables added to the caller's environment."""

    def interact(self, argv: process.Argv, *, is_shell: bool = False) -> int:
        """Run a program on the caller's terminal, and return its exit code as ``process.interact`` does.

        Raises EnvironmentLacks if there is no such program, and UsageError if it cannot be run.
        """
        for directory in self.directories:
            netns.make_mount_point(directory)
        environment = {**os.environ, **self.environment}
        try:
            with cgroup.opened(self.namespace.group) as group:
                return process.interact(argv, group, is_shell=is_shell, place=self._place, environment=environment)
        except OSError as error:
            raise UsageError(f"{argv[0]} cannot be run: {error.strerror}", "name a program") from error

    def start(
        self,
        argv: process.Argv,
        *,
        stdin: process.Stream = process.DEVNULL,
        stdout: process.Stream = process.DEVNULL,
        stderr: process.Stream = process.DEVNULL,
        within: process.Surroundings | None = None,
    ) -> process.Process:
        """Start a program in the node and in its cgroup, as ``process.start`` does: away from the terminal.

        The directories to mount over must exist. Raises EnvironmentLacks if there is no such program.
        """
        with cgroup.opened(self.namespace.group) as group:
            return self._place(
                lambda: process.start(argv, stdin=stdin, stdout=stdout, stderr=stderr, within=within, group=group)
            )

    def _place(self, work: Callable[[], process.Process]) -> process.Process:
        def body() -> process.Process:
            self.namespace.enter()
            _own_hostname(self.hostname)
            tuning.own_mounts()
            self._mount_sys()
            self._mount_files()
            self._mount_directories()
            return work()

        return threads.in_thread(body)

    def _mount_sys(self) -> None:
        with contextlib.ExitStack() as stack:
            opened = {}
            for directory in filter(Path.is_dir, self.kept):
                opened[directory] = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                stack.callback(os.close, opened[directory])
            libc.mount("sysfs", _SYS, "sysfs")
            for directory, descriptor in opened.items():
                if directory.is_dir():
                    libc.mount(f"/proc/self/fd/{descriptor}", directory, flags=libc.MS_BIND)

    def _mount_files(self) -> None:
        """Mount the node's own files over those of /etc, as ip-netns(8) does."""
        folder = netns_files.FOLDER / self.namespace.name
        for file in folder.iterdir() if folder.is_dir() else ():
            with contextlib.suppress(OSError):  # this machine's /etc has no such file
                libc.mount(file, Path("/etc", file.name), flags=libc.MS_BIND)

    def _mount_directories(self) -> None:
        """Fill the directories with links, not bind mounts: a container's mounts cannot be bound here."""
        for target, source in self.directories.items():
            entries = list(source.iterdir()) if source is not None else []
            libc.mount("tmpfs", target, "tmpfs")
            for entry in entries:
                (target / entry.name).symlink_to(entry)


def with_hostname(hostname: str, work: Callable[[], process.Process]) -> process.Process:
    """Start a program outside the node, but with the node's hostname: vtysh shows it in its prompt."""

    def body() -> process.Process:
        _own_hostname(hostname)
        return work()

    return threads.in_thread(body)


def _own_hostname(hostname: str) -> None:
    """Give the calling thread, and the programs that it starts, a hostname of their own."""
    libc.unshare(libc.CLONE_NEWUTS)
    socket.sethostname(hostname)
