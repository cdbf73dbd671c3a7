"""A command on a machine of its own, as far as a fabric can see: ``python -m tests.private_machine COMMAND...``.

It has its own network, processes, mounts and cgroups, and its own ``/run``, ``/etc``, ``/var/tmp`` and
``/sys/fs/bpf``. So sessions of tests/fabric run side by side, and each compares all of its machine before and after a
test. Everything that the command started ends with it. SIGTERM is sent to all processes there, which have time to
clean up. Only RDMA devices and BPF programs are visible on all machines of one kernel.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from lab.kernel.process import cgroup, libc

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLONE_NEWCGROUP: Final = 0x02000000
_CLONE_NEWIPC: Final = 0x08000000
_CLONE_NEWPID: Final = 0x20000000
_MS_PRIVATE: Final = 0x40000
_PR_SET_PDEATHSIG: Final = 1
_MEMBERS: Final = "cgroup.procs"
_MOUNTS: Final = Path("/proc/self/mountinfo")
_KEPT: Final = ("/run/frr", "/run/lock")
"""Folders that packages make at boot."""
_KERNEL: Final = {"/sys/fs/cgroup": "cgroup2", "/sys/fs/bpf": "bpf", "/sys/kernel/tracing": "tracefs"}
_CLEAN_UP: Final = 60
"""Seconds that everything has to end in after a signal."""


def main() -> int:
    """Run the command; its exit code, or 128 and the signal that ended it."""
    with own_cgroup() as group:
        libc.unshare(_CLONE_NEWPID)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = run_first(group, sys.argv[1:])
            finally:
                os._exit(code)
        signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
        signal.signal(signal.SIGINT, lambda *_: None)  # a terminal sends it to all
        return _exit_code(os.waitpid(pid, 0)[1])


@contextlib.contextmanager
def own_cgroup() -> Iterator[Path | None]:
    """A new cgroup, which is removed when nothing runs in it; None where no cgroup can be made."""
    group = cgroup_of(os.getpid())
    if group is None:
        yield None
        return
    group.mkdir()
    try:
        yield group
    finally:
        remove(group)


def cgroup_of(pid: int) -> Path | None:
    """The cgroup of the machine that the process ``pid`` has made; None where no cgroup can be made."""
    place = cgroup.place_for("")
    return None if place is None else place.parent / f"rocelab-tests-{pid}"


def remove(group: Path) -> None:
    """Remove a cgroup without processes, and those below it."""
    for folder, _, _ in os.walk(group, topdown=False):
        Path(folder).rmdir()


def run_first(group: Path | None, command: list[str]) -> int:
    """As the first process of the machine: make it, run the command, and reap orphans; the exit code."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    interrupted: list[int] = []

    def pass_on(*_: object) -> None:
        interrupted.append(signal.SIGTERM)
        os.kill(-1, signal.SIGTERM)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, lambda *_: interrupted.append(signal.SIGINT))
    make_machine(group)
    process = subprocess.Popen(command)
    ended = 0
    while ended != process.pid:
        ended, status = os.wait()
    process.returncode = _exit_code(status)
    if interrupted:
        await_orphans()
    return process.returncode


def await_orphans() -> None:
    """Wait until nothing else runs, but not for ever: the kernel ends what does not end now."""

    def give_up(*_: object) -> NoReturn:
        raise TimeoutError

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_CLEAN_UP)
    with contextlib.suppress(ChildProcessError, TimeoutError):
        while True:
            os.wait()


def make_machine(group: Path | None) -> None:
    """Move this process into namespaces of its own, and mount what they change."""
    if group is not None:
        (group / _MEMBERS).write_text("0")
        libc.unshare(_CLONE_NEWCGROUP)
    shared = " shared:" in next(line for line in _MOUNTS.read_text().splitlines() if line.split()[4] == "/")
    kept = {path: path.stat() for path in map(Path, _KEPT) if path.is_dir()}
    libc.unshare(libc.CLONE_NEWNS | libc.CLONE_NEWNET | _CLONE_NEWIPC)
    libc.mount("", "/", flags=libc.MS_REC | _MS_PRIVATE)
    uncover("/run/")
    libc.mount("proc", "/proc", "proc")
    libc.unmount("/sys")
    libc.mount("sysfs", "/sys", "sysfs")
    for target, kind in _KERNEL.items():
        with contextlib.suppress(OSError):  # a kernel may lack it, as the host does then
            libc.mount(kind, target, kind)
    libc.mount("tmpfs", "/run", "tmpfs")
    subprocess.run(["cp", "-a", "/etc/.", "/run"], check=True)
    libc.mount("/run", "/etc", flags=libc.MS_BIND)
    libc.mount("tmpfs", "/run", "tmpfs")
    libc.mount("tmpfs", "/var/tmp", "tmpfs")  # noqa: S108 - that of everybody is covered
    for path, before in kept.items():
        path.mkdir()
        os.chown(path, before.st_uid, before.st_gid)
        path.chmod(before.st_mode & 0o7777)
    if shared:  # as systemd has it
        libc.mount("", "/", flags=libc.MS_REC | libc.MS_SHARED)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if group is not None:
        hand_down(Path("/sys/fs/cgroup"))


def uncover(folder: str) -> None:
    """Unmount what the host has mounted below a folder. It would still be listed when another covers the folder.

    ``ip netns add`` leaves such a mount on a host: /run/netns.
    """
    targets = [line.split()[4] for line in _MOUNTS.read_text(encoding="ascii").splitlines()]
    for target in reversed([each for each in targets if each.startswith(folder)]):
        with contextlib.suppress(OSError):  # one that another covers
            libc.unmount(target.encode().decode("unicode_escape"))  # a blank is \040


def hand_down(root: Path) -> None:
    """Leave the machine's root cgroup, which then gives nodes the controllers that the host gives."""
    own = root / "tests"
    own.mkdir()
    (own / _MEMBERS).write_text("0")
    for controller in (root / "cgroup.controllers").read_text().split():
        (root / "cgroup.subtree_control").write_text(f"+{controller}")


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
