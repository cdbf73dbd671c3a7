"""The records of a user's VMs, and whether each VM's process still runs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.errors import OperationFailed, UsageError
from lab.vm.calls.frames import PORTS
from lab.vm.host.qemu import CACHE, Accel, Share, Time
from lab.vm.image.recipe import Image, cache_root

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_STARTTIME = 19
"""Index of the start time among the fields of /proc/PID/stat after the command's name (proc(5), field 22)."""


@dataclass(frozen=True)
class RunningVm:
    """A started VM, as recorded in the state folder."""

    pid: int
    pid_started: int
    """Start time of the process in clock ticks since boot: a reused pid has another one."""
    accel: Accel
    time: Time
    cpus: int
    memory_mib: int
    image: Image
    kernel: str
    shares: tuple[Share, ...]
    started: float
    """Seconds since the epoch."""
    boot_seconds: float
    checkpoint: str = ""
    """The checkpoint that it resumed from; "" if it booted."""
    tsc_khz: int | None = None
    """As in ``Guest``."""
    user: tuple[int, int] | None = None
    """As in ``Guest``."""

    @property
    def guest_cache(self) -> Path:
        """The host folder of the guest's caches and of the files of calls."""
        return next(share.path for share in self.shares if share.tag == CACHE)

    @property
    def uptime(self) -> float:
        """Seconds since it was started."""
        return max(0.0, time.time() - self.started)

    def alive(self) -> bool:
        """Return whether the process still runs and is the one that was started."""
        return process_start(self.pid) == self.pid_started

    def to_json(self) -> str:
        """Return the JSON that ``from_json`` reads."""
        data = asdict(self)
        data["image"] = str(self.image.folder)
        data["shares"] = [asdict(share) | {"path": str(share.path)} for share in self.shares]
        return json.dumps(data, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> RunningVm:
        """Return the record that ``to_json`` encoded. Raises OperationFailed for anything else."""
        try:
            data: dict[str, Any] = json.loads(text)
            data["accel"], data["time"] = Accel(data["accel"]), Time(data["time"])
            data["image"] = Image(Path(data["image"]))
            data["user"] = tuple(data["user"]) if data["user"] else None
            data["shares"] = tuple(Share(**share | {"path": Path(share["path"])}) for share in data["shares"])
            return cls(**data)
        except (ValueError, KeyError, TypeError) as error:
            raise OperationFailed(f"the VM's state file is damaged: {error}", "rocelab vm down") from error


@dataclass(frozen=True)
class StateFolder:
    """The folder of a VM's state files."""

    path: Path

    @property
    def record(self) -> Path:
        """The ``RunningVm`` record."""
        return self.path / "vm.json"

    @property
    def pid_file(self) -> Path:
        """QEMU's pid file, which exists before the record."""
        return self.path / "qemu.pid"

    @property
    def console(self) -> Path:
        """The output of the guest's serial console."""
        return self.path / "console.log"

    @property
    def monitor(self) -> Path:
        """Socket of QEMU's monitor."""
        return self.path / "monitor"

    @property
    def ports(self) -> tuple[Path, ...]:
        """Sockets of the ports for calls."""
        return tuple(map(self.port, range(PORTS)))

    def port(self, number: int) -> Path:
        """Return the socket of one port; its lock is beside it."""
        return self.path / f"call-{number}"

    @property
    def lock(self) -> Path:
        """The lock that is held while the VM is started or stopped."""
        return self.path / "lock"

    @property
    def frozen(self) -> Path:
        """Exists while the VM is paused, without its shares, to be saved."""
        return self.path / "frozen"

    @property
    def untouched(self) -> Path:
        """Name of the checkpoint that equals the VM's state, or the token of the one command run since."""
        return self.path / "untouched"

    @property
    def call_ended(self) -> Path:
        """The end of the last command in the VM, by the caller's clock, in seconds since 1970."""
        return self.path / "call-ended"

    @property
    def kvm_verdict(self) -> Path:
        """The result of the KVM probe, with the boot id of the host."""
        return self.path / "kvm.json"

    def create(self) -> None:
        """Create the folder, accessible only to this user. Raises OperationFailed if it belongs to another user."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.path.stat().st_uid != os.geteuid():
            raise OperationFailed(
                f"{self.path} belongs to another user", "set XDG_RUNTIME_DIR to a folder of your own"
            )

    def running(self) -> RunningVm | None:
        """Return the running VM, or None."""
        try:
            running = RunningVm.from_json(self.record.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return running if running.alive() else None


def state_folder(name: str = "") -> StateFolder:
    """Return the state folder of the VM with this name; of the default VM without a name.

    It is ``$ROCELAB_VM_STATE``; by default /run/rocelab/vm for root, and below ``$XDG_RUNTIME_DIR`` or the cache for
    others. A name is appended to it. Raises UsageError for an invalid name.
    """
    usual = _usual_folder()
    if not name:
        return StateFolder(usual)
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a VM", "use up to 31 lower-case letters, digits and dashes")
    return StateFolder(usual.with_name(f"{usual.name}-{name}"))


def all_running() -> dict[str, RunningVm]:
    """Return the running VMs of this user, by name."""
    usual = _usual_folder()
    folders = [usual, *usual.parent.glob(f"{usual.name}-*")]
    found = {}
    for folder in sorted(folders):
        with contextlib.suppress(OperationFailed):  # a record of another version
            if running := StateFolder(folder).running():
                found[folder.name.removeprefix(usual.name).removeprefix("-")] = running
    return found


def _usual_folder() -> Path:
    if chosen := os.environ.get("ROCELAB_VM_STATE"):
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/run/rocelab/vm")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "rocelab/vm" if runtime else cache_root().with_name("vm-state")


def parse_start(stat: str) -> int:
    """Return the start time in the text of /proc/PID/stat; the command's name may contain spaces and parentheses."""
    return int(stat.rpartition(")")[2].split()[_STARTTIME])


def process_start(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot; None if there is none, or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if stat.rpartition(")")[2].split()[0] == "Z" else parse_start(stat)
