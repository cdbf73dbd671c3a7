"""FRR's daemons: find them, start them in a namespace, signal them, and locate their sockets."""

from __future__ import annotations

import os
import shutil
import struct
import threading
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel.netlink.routes import multicast_interfaces
from lab.kernel.process import cgroup, libc, netns, process, threads, tuning
from lab.kernel.process.files import read_theirs
from lab.routing.frr_config.render_segments import REACH, SCRIPT, TOOLS, reach_script

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.kernel.process.netns import Namespace
    from lab.routing.frr_config.render import RouterConfig

DAEMON_DIRECTORIES: Final = (Path("/usr/lib/frr"), Path("/usr/libexec/frr"))
_OWN: Final = (Path("/run"), Path("/var/tmp"), Path("/etc/frr"))  # noqa: S108 - compiled into FRR
_REPLACES: Final = "--v6-rr-semantics"
"""Replaces IPv6 routes in one step, as IPv4 routes. By default, zebra deletes an IPv6 route and adds the new one: the
switch has none for a moment (FRR's manual, Zebra, "Invoking zebra").
"""
_SOCKETS: Final = Path("/run/frr")
_MANAGER: Final = "mgmtd"
_MANAGED: Final = ("staticd",)
"""Daemons that mgmtd configures, if FRR has it; they reject a configuration file."""
_OF_MANAGER: Final = Path("/etc/frr/zebra.conf")
"""The file from which mgmtd (FRR 10) configures VRFs in zebra, which no longer reads them from its own file.

The file is in the router's own mounts.
"""
OLDEST: Final = (8, 4)
NO_ROUTER: Final[Mapping[Path, Path | None]] = {_SOCKETS: None}
"""``Router.in_node`` for nodes without a router: hides the sockets of a router of the machine itself."""
_START_TIMEOUT: Final = 120.0
_MULTICAST: Final = "pimd"
_POLL: Final = 0.02
_ASKED: Final = ("tc", "bridge")
_SCRIPTING: Final = "--enable-scripting"
_NET_ADMIN: Final = struct.pack("<5I", 0x02000001, 1 << 12, 0, 0, 0)
"""struct vfs_cap_data of <linux/capability.h>: revision 2, effective; CAP_NET_ADMIN permitted, none inheritable."""


def find_daemons() -> Path:
    """Return the directory of FRR's daemons; raise EnvironmentLacks if FRR is not installed."""
    for directory in DAEMON_DIRECTORIES:
        if (directory / "bgpd").exists():
            return directory
    raise EnvironmentLacks("FRR not found", "apt-get install frr")


def version() -> tuple[int, ...]:
    """Return FRR's version, like (10, 3)."""
    said = process.run([find_daemons() / "bgpd", "--version"]).stdout
    words = said.split("version ", 1)[-1].split()
    return tuple(int(part) for part in words[0].split("-")[0].split(".") if part.isdigit())


def check() -> None:
    """Raise EnvironmentLacks if FRR is missing or too old for the configuration that rocelab renders."""
    found = version()
    if found < OLDEST:
        have, want = (".".join(map(str, numbers)) for numbers in (found, OLDEST))
        raise EnvironmentLacks(f"FRR {have} is too old", f"install {want} or newer, or use --vm")


def check_scripting() -> None:
    """Raise EnvironmentLacks if FRR runs no scripts; zebra needs one to program designated forwarders."""
    if _SCRIPTING not in process.run([find_daemons() / "zebra", "--version"]).stdout:
        raise EnvironmentLacks("bonds: this FRR is built without scripts (Lua)", "use --vm")


@cache
def _has_bfd_control() -> bool:
    """Return whether bfdd has a control socket: FRR 8.4 needs a path for it, and 10.3 has no such option."""
    return "--bfdctl" in process.run([find_daemons() / "bfdd", "--help"]).stdout


def _has_manager() -> bool:
    """Return whether this FRR has mgmtd, which configures other daemons (10.0)."""
    return (find_daemons() / _MANAGER).exists()


class Launches:
    """Programs that start in several threads, and can be killed all at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._launchers: list[process.Process] = []
        self._given_up = False

    def add(self, launcher: process.Process) -> None:
        """Register a program; kill it immediately after ``give_up``."""
        with self._lock:
            self._launchers.append(launcher)
            if self._given_up:
                launcher.kill()

    @property
    def given_up(self) -> bool:
        """Whether ``give_up`` was called."""
        return self._given_up

    def give_up(self) -> None:
        """Kill all programs, and those registered later; cleaning up after them is left to the undo."""
        with self._lock:
            self._given_up = True
            for launcher in self._launchers:
                launcher.kill()


@dataclass(frozen=True, slots=True)
class Router:
    """The daemons of one switch: their namespace and their directory.

    User ``frr`` owns the directory and could place links there, so root writes to it only once.
    """

    name: str
    namespace: Namespace
    directory: Path

    def write(self, config: RouterConfig) -> None:
        """Write the configuration, readable for the daemons, which run as user ``frr``."""
        self.directory.mkdir(parents=True)
        texts = dict(config.files)
        if not _has_manager():
            texts["zebra"] += config.managed
        for daemon, text in texts.items():
            (self.directory / f"{daemon}.conf").write_text(text, encoding="utf-8")
        shutil.chown(self.directory, "frr", "frr")

    def start(self, config: RouterConfig, launches: Launches) -> None:
        """Start the daemons one by one; each listens before the next one starts."""
        threads.in_thread(lambda: self._start(config, launches))

    def _start(self, config: RouterConfig, launches: Launches) -> None:
        binaries = find_daemons()
        manager = [_MANAGER] if _has_manager() else []
        self.namespace.enter()
        with cgroup.opened(self.namespace.group) as group:
            self._part_from_host()
            if manager and config.managed:
                _OF_MANAGER.write_text(config.managed, encoding="utf-8")
            if config.script:
                _install(config.script, reach_script(str(self.directory)))
            for daemon in (*manager, *config.files):
                self._launch(self._command(binaries, daemon), daemon, group, launches)
            if config.late:
                self._await_multicast(launches)
                self._configure(config.late, "its IGMP joins", launches)
            self._configure(config.own, "its lines of frr", launches)

    def _configure(self, lines: Sequence[str], what: str, launches: Launches) -> None:
        """Pass lines to the daemons by vtysh; raise OperationFailed if a line is rejected."""
        if not lines:
            return
        with os.fdopen(os.memfd_create(f"{self.name}-vtysh"), "r+", errors="replace") as printed:
            shell = process.start(self.vtysh("configure terminal", *lines), stdout=printed, stderr=printed)
            launches.add(shell)  # a daemon may never answer vtysh
            code = process.wait(shell, _START_TIMEOUT)
            printed.seek(0)
            said = " ".join(printed.read().split()) or "vtysh says nothing"
        if code:
            raise OperationFailed(f"{self.name}: FRR does not take {what}: {said}", "correct the topology")

    def _await_multicast(self, launches: Launches) -> None:
        """Wait until pimd routes by ``lo`` in the calling thread's namespace.

        pimd crashes if groups are configured earlier.
        """
        deadline = time.monotonic() + _START_TIMEOUT
        while "lo" not in multicast_interfaces():
            ended = netns.place_of(self.pids()[_MULTICAST]) is None  # the namespace has no name in these mounts
            if launches.given_up or ended or time.monotonic() > deadline:
                raise OperationFailed(f"{self.name}: {_MULTICAST} does not route by lo", self.last_words(_MULTICAST))
            time.sleep(_POLL)

    def _part_from_host(self) -> None:
        """Give the calling thread, and the daemons that it starts, their own /run, /var/tmp and /etc/frr.

        FRR 10's daemons find each other in /run/frr, which the host's own router may use. They read the files in
        /etc/frr, and leave a directory in /var/tmp when they are killed. The mounts end with the daemons.
        """
        tuning.own_mounts()
        kept = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for directory in filter(Path.is_dir, _OWN):
                libc.mount("tmpfs", directory, "tmpfs")
            self.directory.mkdir(parents=True)
            libc.mount(f"/proc/self/fd/{kept}", self.directory, flags=libc.MS_BIND)
        finally:
            os.close(kept)
        _SOCKETS.mkdir()
        shutil.chown(_SOCKETS, "frr", "frr")

    def _launch(self, command: list[str], daemon: str, group: int | None, launches: Launches) -> None:
        # A daemon keeps its output open: a pipe would never reach its end, and a file in its directory may be a link.
        with os.fdopen(os.memfd_create(f"{self.name}-{daemon}"), "r+", errors="replace") as printed:
            launcher = process.start(command, stdout=printed, stderr=printed, group=group, within=_surroundings())
            launches.add(launcher)
            # FRR's parent process checks its child when their socket closes, which is before the child has exited. So
            # it also returns 0 for a daemon that is exiting. A daemon that started has written its pid.
            if process.wait(launcher, _START_TIMEOUT) != 0 or not self._pid_file(daemon).is_file():
                printed.seek(0)
                said = printed.readline().strip() or "it printed nothing"
                raise OperationFailed(f"{self.name}: {daemon} did not start: {said}", self.last_words(daemon))

    def _command(self, binaries: Path, daemon: str) -> list[str]:
        command = [
            str(binaries / daemon),
            "--daemon",
            "--profile=datacenter",
            f"--pid_file={self._pid_file(daemon)}",
            f"--socket={self.directory}/zserv.api",
            f"--vty_socket={self.directory}",
            "--vty_port=0",
            f"--log=file:{self._log(daemon)}",
            "--log-level=warnings",
        ]
        if not (daemon == _MANAGER or (daemon in _MANAGED and _has_manager())):
            command.append(f"--config_file={self.directory / daemon}.conf")
        if daemon == "zebra":
            command.append(_REPLACES)
        if daemon == "bfdd" and _has_bfd_control():
            command.append(f"--bfdctl={self.directory}/bfdd.sock")
        return command

    def _pid_file(self, daemon: str) -> Path:
        return self.directory / f"{daemon}.pid"

    def _log(self, daemon: str) -> Path:
        return self.directory / f"{daemon}.log"

    def last_words(self, daemon: str) -> str:
        """Return the last line of a daemon's log."""
        lines = read_theirs(self._log(daemon)).splitlines()
        return f"its log ends with: {lines[-1]}" if lines else "its log is empty"

    def pids(self) -> dict[str, int]:
        """Return the process ids of the daemons from their pid files."""
        said = {path.stem: read_theirs(path).strip() for path in sorted(self.directory.glob("*.pid"))}
        return {daemon: int(pid) for daemon, pid in said.items() if pid.isdecimal()}

    def lives(self, daemon: str) -> bool:
        """Return whether a daemon exists, running or stopped."""
        return self._is(self.pids().get(daemon, 0))

    def signal(self, daemon: str, number: Signals) -> None:
        """Send a daemon a signal, if it runs; after SIGKILL, wait for its end."""
        pid = self.pids().get(daemon, 0)
        if number is Signals.SIGKILL:
            process.kill([pid] if self._is(pid) else [], meant=self._is)
        elif self._is(pid):
            process.send([pid], number, meant=self._is)

    def _is(self, pid: int) -> bool:
        """Return whether the process exists and belongs to this router."""
        return pid > 0 and self.namespace.place is not None and netns.place_of(pid) == self.namespace.place

    def start_again(self, daemon: str) -> None:
        """Restart a daemon that has ended; it reads its original configuration file. Does nothing if it runs.

        Another daemon of the router must run, because the new one joins its mounts.
        """
        if self.lives(daemon):
            return
        beside = next((pid for name, pid in self.pids().items() if name != daemon and self._is(pid)), None)
        if beside is None:
            raise OperationFailed(f"{self.name}: no daemon runs", "rocelab down, then rocelab up")
        enter = [process.find_tool("nsenter", "util-linux"), f"--target={beside}", "--mount", "--"]
        self._pid_file(daemon).unlink(missing_ok=True)
        with cgroup.opened(self.namespace.group) as group:
            command = [*enter, *self._command(find_daemons(), daemon)]
            self.namespace.inside(lambda: self._launch(command, daemon, group, Launches()))

    @property
    def in_node(self) -> Mapping[Path, Path | None]:
        """The directory where FRR's tools look for sockets, and the one to show programs in the node there."""
        return {_SOCKETS: self.directory}

    def terminal(self, daemon: str) -> Path:
        """Return the daemon's vty socket."""
        return self.directory / f"{daemon}.vty"

    def vtysh(self, *commands: str) -> list[str]:
        """Return the command line of vtysh on this router, with the commands given or interactive."""
        shell = process.find_tool("vtysh", "frr")
        return [shell, "--vty_socket", str(self.directory), *(word for c in commands for word in ("-c", c))]

    def ask(self, *commands: str) -> process.Completed:
        """Run commands in vtysh, and return its result whatever the exit code.

        vtysh runs outside the node, because the sockets of the daemons are files. A program run inside with Docker
        would keep the node's namespace and links alive: Docker keeps the connection of an ended program for over half
        a minute.
        """
        return process.run(self.vtysh(*commands), check=False)


def _install(script: str, reach: str) -> None:
    """Install a script for zebra in the router's own mounts, with tools that have the capabilities it needs.

    zebra has these capabilities itself, but programs that it starts do not inherit them (capabilities(7)).
    """
    folder = Path(TOOLS)
    folder.mkdir()
    (folder / f"{SCRIPT}.lua").write_text(script, encoding="utf-8")
    (folder / REACH).write_text(reach, encoding="utf-8")
    (folder / REACH).chmod(0o755)
    for name in _ASKED:
        tool = folder / name
        shutil.copy(process.find_tool(name, "iproute2"), tool)
        shutil.chown(tool, "root", "frr")
        tool.chmod(0o750)
        os.setxattr(tool, "security.capability", _NET_ADMIN)


def _surroundings() -> process.Surroundings:
    """Return the surroundings of daemons, which outlive their caller: / as directory keeps no file system busy.

    Marks in the environment are removed, because they belong to programs that end with their caller.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROCELAB_")}
    return process.Surroundings("/", kept)
