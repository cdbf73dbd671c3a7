"""lldpd in every node while a question is answered: start the daemons, ask them, end them.

A daemon enters only the network namespace of its node, whatever the backend of the fabric. Its socket and its
chroot are in a ``/run`` of the daemons' own. They end with the caller even if it is killed. By SIGKILL, interfaces
stay members of LLDP's multicast groups.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.packets import link_groups
from lab.kernel.process import process, signals, threads
from lab.routing.lldp.tied_programs import tied_programs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lab.kernel.packets.link_groups import LinkGroup
    from lab.kernel.process.netns import Namespace
    from lab.routing.lldp.tied_programs import TiedPrograms

_PACKAGE: Final = "lldpd"
_START_TIMEOUT: Final = 120.0
_POLL: Final = 0.02
_DESCRIPTORS: Final = 3
"""Open files for each node: the daemon's output, and those of a client."""
_SHOWN: Final = 80
"""Maximum number of characters of an answer that an error message contains."""
_CONFIGURATION: Final = """\
configure system hostname {node}
configure system chassisid {node}
configure system description {session}
configure system bond-slave-src-mac-type real
configure lldp portidsubtype ifname
configure lldp tx-interval 1
"""
"""By default, lldpd sends the machine's name, and MAC addresses for ports, each 30 s, and invents MACs for bonds."""


@dataclass(frozen=True, slots=True)
class LldpNeighbour:
    """A neighbour that lldpd sees on a port: the system name and the port id in its frames."""

    node: str
    port: str

    def __str__(self) -> str:
        return f"{self.node}:{self.port}"


class LldpSession:
    """The daemons of a fabric. They ignore frames of other LLDP daemons, which may run on the same ports."""

    def __init__(self, namespaces: Mapping[str, Namespace]) -> None:
        self._namespaces = namespaces
        self._session = f"rocelab-{secrets.token_hex(8)}"
        self._daemon, self._client = (process.find_tool(name, _PACKAGE) for name in ("lldpd", "lldpcli"))
        self._run = Path("/run")
        self._started: dict[str, tuple[process.Process, int]] = {}
        self._joined: dict[str, frozenset[LinkGroup]] = {}

    def start(self, programs: TiedPrograms, ports: Mapping[str, Sequence[str]]) -> None:
        """Start a daemon in each node, on these ports. Changes the namespaces of the calling thread."""
        programs.enter()
        self._run = programs.run_directory
        for node, names in ports.items():
            self._namespaces[node].enter()
            self._joined[node] = link_groups.joined_groups()
            output = os.memfd_create(f"{node}-lldpd", os.MFD_CLOEXEC)
            self._started[node] = programs.start(self._command(node, names), stderr=output), output

    def _command(self, node: str, ports: Sequence[str]) -> list[str]:
        file = self._run / f"{node}.conf"
        file.write_text(_CONFIGURATION.format(node=node, session=self._session), encoding="utf-8")
        # In the foreground; without LLDP-MED, the kernel's version and the machine's addresses.
        options = ["-d", "-i", "-k", "-m!*", "-Clo", f"-L{self._client}"]
        return [self._daemon, *options, f"-u/run/{node}.sock", f"-O/run/{node}.conf", f"-I{','.join(ports)}"]

    def neighbours(self, node: str) -> dict[str, list[LldpNeighbour]]:
        """Return the neighbours on each port of a node that has any; waits until its daemon answers.

        Raises OperationFailed if the daemon has ended, with its last line, or if lldpcli prints something else.
        """
        daemon, _ = self._started[node]
        socket = f"{node}.sock"
        # lldpcli may not enter /proc/PID/root any more when it has dropped root's rights: it starts in the folder.
        command = [self._client, "-u", socket, "-f", "json0", "show", "neighbors"]
        deadline = time.monotonic() + _START_TIMEOUT
        while True:
            if (self._run / socket).exists():
                done = process.run(command, check=False, directory=str(self._run))
                if done.returncode == 0:
                    return parse_neighbours(done.stdout, self._session, node)
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise OperationFailed(f"{node}: lldpd does not run: {self._last_words(node)}")
            time.sleep(_POLL)

    def _last_words(self, node: str) -> str:
        with open(self._started[node][1], encoding="utf-8", errors="replace", closefd=False) as output:
            output.seek(0)
            lines = output.read().splitlines()
        return lines[-1] if lines else "it printed nothing"

    def tidy(self) -> None:
        """Leave the multicast groups that the daemons joined, which lldpd never does; they must have ended."""
        for _, output in self._started.values():
            os.close(output)
        for node, before in self._joined.items():
            with contextlib.suppress(OSError, OperationFailed):  # the node is gone
                self._namespaces[node].inside(partial(_leave_all_but, before))


def _leave_all_but(groups: frozenset[LinkGroup]) -> None:
    link_groups.leave(link_groups.joined_groups() - groups)


@contextlib.contextmanager
def lldp_session(namespaces: Mapping[str, Namespace], ports: Mapping[str, Sequence[str]]) -> Iterator[LldpSession]:
    """Run lldpd in these nodes, on these ports of each, until the block ends.

    Raises EnvironmentLacks if lldpd is not installed or the caller is not root, OperationFailed if a node is gone.
    """
    process.allow_descriptors(_DESCRIPTORS * len(ports))
    session = LldpSession(namespaces)
    try:
        with tied_programs() as programs:
            threads.in_thread(partial(session.start, programs, ports))
            yield session
    finally:
        with signals.held():
            session.tidy()


def parse_neighbours(text: str, session: str, node: str) -> dict[str, list[LldpNeighbour]]:
    """Return the neighbours by port from lldpcli's format ``json0``, if ``session`` is their description.

    OperationFailed, with the first line of the text, if it has another form.
    """
    try:
        return _parsed(text, session)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        first = next(iter(text.splitlines()), "")[:_SHOWN] or "nothing"
        remedy = "reinstall the package lldpd"
        raise OperationFailed(f"{node}: lldpcli prints no neighbours: {first}", remedy) from error


def _parsed(text: str, session: str) -> dict[str, list[LldpNeighbour]]:
    found: dict[str, list[LldpNeighbour]] = {}
    entries = [each for part in json.loads(text).get("lldp", ()) for each in part.get("interface", ())]
    for entry in entries:
        chassis, port = entry["chassis"][0], entry["port"][0]
        if _value(chassis, "descr") == session:
            seen = LldpNeighbour(_value(chassis, "name"), _value(port, "id"))
            found.setdefault(entry["name"], []).append(seen)
    return found


def _value(part: Mapping[str, Sequence[Mapping[str, str]]], name: str) -> str:
    return part[name][0]["value"] if part.get(name) else ""
