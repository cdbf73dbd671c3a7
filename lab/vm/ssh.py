"""Commands in the guest: one authenticated connection, kept open, that every call shares."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from lab.vm.recipe import Image

CALL = "/usr/local/lib/rocelab/call"
"""The guest's helper that runs one command and leaves its process group's id for signals."""
FORWARDED_ENVIRONMENT = ("COLORTERM", "FORCE_COLOR", "NO_COLOR", "PYTEST_ADDOPTS", "ROCELAB_*")
LOST = 255
"""Exit code of the ssh client when the connection, not the command, failed."""


@dataclass(frozen=True)
class Connection:
    """How to reach one running guest."""

    image: Image
    port: int
    control: Path
    """Socket of the shared connection."""

    def argv(self, *options: str) -> list[str]:
        """``ssh`` as far as the host name: this guest's key and host key, none of the user's own settings."""
        settings = (
            f"ControlPath={self.control}",
            f"UserKnownHostsFile={_quoted(self.image.known_hosts)}",
            f"IdentityFile={_quoted(self.image.key)}",
            *("HostKeyAlias=rocelab-vm", "GlobalKnownHostsFile=none", "StrictHostKeyChecking=yes"),
            *("IdentitiesOnly=yes", "IdentityAgent=none", "PreferredAuthentications=publickey", "BatchMode=yes"),
            *("HostKeyAlgorithms=ssh-ed25519", "KexAlgorithms=curve25519-sha256", "Compression=no"),
            *("LogLevel=ERROR", "EscapeChar=none", "ServerAliveInterval=15", "ServerAliveCountMax=8"),
            *(f"SendEnv={name}" for name in FORWARDED_ENVIRONMENT),
        )
        words = [word for setting in settings for word in ("-o", setting)]
        return ["ssh", "-F", "none", *words, "-p", str(self.port), *options, "root@127.0.0.1"]

    def open_argv(self) -> list[str]:
        """Open the shared connection and leave it in the background."""
        return self.argv("-o", "ControlMaster=yes", "-o", "ControlPersist=yes", "-f", "-N")

    def close_argv(self) -> list[str]:
        """Close the shared connection."""
        return self.argv("-O", "exit")

    def call_argv(self, call: str, directory: str, command: list[str], *, terminal: bool) -> list[str]:
        """Run ``command`` under the id ``call`` in the guest's ``directory``; each word arrives as it is."""
        remote = shlex.join([CALL, call, directory, *command])
        return [*self.argv("-tt" if terminal else "-T"), "--", remote]

    def signal_argv(self, call: str, signal_name: str) -> list[str]:
        """Send a signal to the process group of the running ``call``."""
        pid_file = shlex.quote(f"/run/rocelab-calls/{call}")
        return [*self.argv("-T"), "--", f'kill -s {shlex.quote(signal_name)} -- "-$(cat {pid_file})"']


def new_call() -> str:
    """An id no other call has."""
    return f"{os.getpid()}-{os.urandom(4).hex()}"


def _quoted(path: Path) -> str:
    """A path inside an ssh option, where a space ends the value and a percent sign begins a token."""
    return f'"{str(path).replace("%", "%%")}"'
