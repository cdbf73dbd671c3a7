"""What a fabric leaves on disk while it lives: one directory with its journal, its topology and its nodes' files.

The journal is written before anything is made, so that ``down`` can finish whatever was begun, however it ended.
It is the only undo there is: a failed ``up``, Ctrl-C and ``kill -9`` are all mended by playing it backwards.

::

    /run/rocelab/fabrics/<fabric>/journal.jsonl    one line for each batch of things that may exist
                                  topology.json    the resolved topology
                                  qos.json         nodes whose ports were changed since; absent when none was
                                  changing.json    nodes whose ports are being changed; absent when none are
                                  cgroup           link to the cgroup of its programs, where there is one
                                  cleared.npz      where counters were cleared; absent when none was
                                  faults.jsonl     faults that were injected, and healed; for root alone
                                  lab/             what containerlab was given, where nodes are containers
                                  recorders/       recorders in the background, a file for each
                                  settings.json    ports as they were before a scenario has set them; for root alone
                                  players/         a file for each process that plays a scenario; for root alone
                                  challenge/       what was hidden for somebody to find; for root alone
                                  nodes/<node>/    configuration, sockets, pid files and logs of its daemons
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from lab.errors import EnvironmentLacks, FabricBusy, InvalidInput, Problem, UsageError
from lab.kernel.process import files, locks
from lab.model import store
from lab.model.qos.qos_store import dump_node, restore_node
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.kernel.process.locks import Waiting
    from lab.model.qos.port import NodeQos
    from lab.model.topology import Topology

STATE_ROOT: Final = Path("/run/rocelab")
FABRICS: Final = STATE_ROOT / "fabrics"
_EXAMPLE: Final = Path("topologies/clos-2x4.yaml")
_RDMA_SINCE: Final = (7, 1)
"""The first Linux whose RDMA devices in software work in namespaces."""


class JournalKind(StrEnum):
    """What a line of the journal is about; the order of making is the order of this list."""

    BACKEND = "backend"
    OWNER = "owner"
    DATAPLANE = "dataplane"
    GROUP = "group"
    LAB = "lab"
    NAMESPACE = "namespace"
    RDMA_DEVICE = "rdma-device"


@dataclass(frozen=True, slots=True)
class FabricState:
    """The directory of one fabric, there or not."""

    name: str

    @property
    def directory(self) -> Path:
        """Everything the fabric has on disk."""
        return FABRICS / self.name

    @property
    def journal(self) -> Path:
        """What was made, or was about to be; there for as long as anything of the fabric may be."""
        return self.directory / "journal.jsonl"

    @property
    def _ready(self) -> Path:
        return self.directory / "ready"

    @property
    def cleared(self) -> Path:
        """Where it is kept what ports had counted when they were cleared."""
        return self.directory / "cleared.npz"

    @property
    def faults(self) -> Path:
        """Where it is kept what was broken on purpose; absent when nothing was."""
        return self.directory / "faults.jsonl"

    def node_directory(self, node: str) -> Path:
        """Where a node's daemons keep their files."""
        return self.directory / "nodes" / node

    @property
    def lab(self) -> Path:
        """Of the lab that a fabric's nodes are containers of: its files, or what was found of it; else absent."""
        return self.directory / "lab"

    @property
    def groups(self) -> Path:
        """A link to the cgroup that has one for each node's programs; absent where the machine has none for us."""
        return self.directory / "cgroup"

    @property
    def recorders(self) -> Path:
        """A file for each recorder that runs in the background."""
        return self.directory / "recorders"

    @property
    def changing(self) -> Path:
        """The names of nodes whose ports are being changed, or were by somebody who was killed; mostly absent."""
        return self.directory / "changing.json"

    @property
    def settings(self) -> Path:
        """Ports as they were before a scenario has set them; absent when none has."""
        return self.directory / "settings.json"

    @property
    def players(self) -> Path:
        """A file for each process that plays a scenario here; absent when none ever has."""
        return self.directory / "players"

    @property
    def challenge(self) -> Path:
        """What ``rocelab scenario break`` has hidden here; absent when nothing is."""
        return self.directory / "challenge"

    def exists(self) -> bool:
        """Whether anything of the fabric may be there."""
        return self.journal.exists()

    def begin(self, backend: str) -> None:
        """Open the journal: who plays the fabric, and a word by which it knows its own for as long as it lives."""
        self.record(JournalKind.BACKEND, [backend])
        self.record(JournalKind.OWNER, [secrets.token_hex(8)])

    @property
    def owner(self) -> str:
        """The word that marks what this fabric made, where names alone prove nothing; "" before ``begin``."""
        return "".join(self.recorded(JournalKind.OWNER)[:1])

    def record(self, kind: JournalKind, names: Sequence[str] | Mapping[str, int]) -> None:
        """Write down, in one append, what is about to be made, and where there is one the proof that it is ours."""
        kept = dict(names) if isinstance(names, Mapping) else list(names)
        with self.journal.open("a", encoding="utf-8") as journal:
            journal.write(json.dumps({"kind": kind, "names": kept}) + "\n")

    def recorded(self, kind: JournalKind) -> tuple[str, ...]:
        """All names of one kind, in the order of making."""
        return tuple(name for names in self._lines(kind) for name in names)

    def proofs(self, kind: JournalKind) -> dict[str, int]:
        """The names of one kind that were recorded with a proof, and the proofs."""
        return {
            name: proof for names in self._lines(kind) if isinstance(names, dict) for name, proof in names.items()
        }

    def _lines(self, kind: JournalKind) -> Iterator[list[str] | dict[str, int]]:
        """What each line of the journal names; a torn last line promised nothing and is skipped."""
        with contextlib.suppress(FileNotFoundError):
            for line in self.journal.read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(json.JSONDecodeError):
                    entry = json.loads(line)
                    if entry["kind"] == kind:
                        yield entry["names"]

    @property
    def ready(self) -> bool:
        """Whether ``up`` came to its end."""
        return self._ready.exists()

    def mark_ready(self) -> None:
        """``up`` has come to its end."""
        self._ready.touch()

    def save_topology(self, topology: Topology) -> None:
        """Keep the topology for the commands to come."""
        (self.directory / "topology.json").write_text(store.dump(topology), encoding="utf-8")

    def load_topology(self) -> Topology:
        """The topology that the fabric was built from; UsageError when it is gone."""
        try:
            return store.restore((self.directory / "topology.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise self._gone() from None

    def save_qos(self, nodes: Mapping[str, NodeQos]) -> None:
        """Keep the QoS of nodes that were changed, in place of what was kept before, at one stroke."""
        with files.replaced(self.directory / "qos.json") as fresh:
            fresh.write_text(json.dumps({name: dump_node(node) for name, node in nodes.items()}), encoding="utf-8")

    def load_qos(self) -> dict[str, NodeQos]:
        """The QoS of the nodes that were changed since the fabric was built."""
        try:
            text = (self.directory / "qos.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        try:
            return {name: restore_node(node) for name, node in json.loads(text).items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            damaged = Problem("", "is damaged", "bring the fabric down and up again")
            raise InvalidInput(f"<stored qos of {self.name}>", [damaged]) from error

    def node_count(self) -> int:
        """How many nodes were begun."""
        return len(self.recorded(JournalKind.NAMESPACE))

    @contextlib.contextmanager
    def locked(self, waiting: Waiting | None = None) -> Iterator[None]:
        """Keep all other commands from changing or reading the fabric.

        While one does ``waiting`` is told which; without it that is Busy.
        """
        _make_root(self.directory)
        try:
            with locks.locked(self.directory, waiting=waiting or self._busy):
                yield
        finally:
            remove_empty_roots()

    @contextlib.contextmanager
    def reading(self, waiting: Waiting | None = None) -> Iterator[None]:
        """Keep other commands from changing the fabric, and wait as above; UsageError when it is gone."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locks.locked(self.directory, shared=True, waiting=waiting or self._busy))
            except FileNotFoundError:
                raise self._gone() from None
            yield

    def _busy(self, holder: str) -> NoReturn:
        raise FabricBusy(f"fabric {self.name} is in use by {holder}", "wait for it to end")

    def _gone(self) -> UsageError:
        return UsageError(f"fabric {self.name} is gone", "rocelab ls lists what runs")

    def is_locked(self) -> bool:
        """Whether a command is changing the fabric right now."""
        return bool(locks.holder_of(self.directory, changing=True))

    def forget(self) -> None:
        """Remove the files, the journal last: until it is gone, ``down`` can be repeated."""
        self._ready.unlink(missing_ok=True)
        for folder in (self.directory / "nodes", self.lab, self.recorders, self.players, self.challenge):
            shutil.rmtree(folder, ignore_errors=True)
        for name in ("topology.json", "qos.json", "qos.json.new", "cleared.npz", "cleared.npz.new", self.groups.name,
                     self.changing.name, f"{self.changing.name}.new", self.faults.name, self.settings.name,
                     f"{self.settings.name}.new"):  # fmt: skip
            (self.directory / name).unlink(missing_ok=True)
        self.journal.unlink(missing_ok=True)


def _make_root(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    except FileNotFoundError:
        return  # another's last fabric took the folder of all away meanwhile; its lock makes it again
    except PermissionError as error:
        raise EnvironmentLacks(f"{directory} cannot be written", "run as root, or in the VM with --vm") from error
    except OSError as error:
        raise EnvironmentLacks(f"{directory}: {error.strerror}", "free space or mend /run") from error


def remove_empty_roots() -> None:
    """Take away the folders of all fabrics where there is none: who was killed while he made them has left these."""
    with contextlib.suppress(OSError):
        FABRICS.rmdir()
        STATE_ROOT.rmdir()


def all_fabrics() -> list[FabricState]:
    """Every fabric on this machine, whole or in pieces, by name."""
    with contextlib.suppress(FileNotFoundError):
        return [FabricState(entry.name) for entry in sorted(FABRICS.iterdir()) if entry.is_dir()]
    return []


def _rdma_needs_the_vm(release: str) -> bool:
    """Whether ``rocelab --vm`` is how a fabric gets RDMA: inside the VM, and on a kernel older than Linux 7.1.

    rocelab doctor tries what the kernel can do; this is for an error message, which must not take that long.
    """
    version = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    return version < _RDMA_SINCE or "ROCELAB_IN_VM" in os.environ


def find_fabric(name: str | None) -> FabricState:
    """The fabric called ``name``, or the only one when no name is given; UsageError lists what there is."""
    known = [state.name for state in all_fabrics() if state.exists()]
    if name is None and len(known) == 1:
        return FabricState(known[0])
    if name in known:
        return FabricState(name)
    if not known:
        what = "no fabric runs" if name is None else f"no fabric {name}: none runs"
        there = " --vm" if _rdma_needs_the_vm(os.uname().release) else ""
        build = f"rocelab{there} up {_EXAMPLE} builds one"
        raise UsageError(what, build if _EXAMPLE.is_file() else f"rocelab examples copy {_EXAMPLE}, then {build}")
    if name is None:
        raise UsageError(f"{len(known)} fabrics run", f"say which with --fabric: {', '.join(known)}")
    raise UsageError(f"no fabric {name}", suggest(name, known, f"there is {', '.join(known)}"))
