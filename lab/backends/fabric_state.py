"""The state of a fabric on disk: one directory with its journal, its topology and its nodes' files.

Each object is written to the journal before it is created. So ``down`` can clean up after a failed ``up``, Ctrl-C or
``kill -9``: it removes everything in the journal. There is no other undo.

::

    /run/rocelab/fabrics/<fabric>/journal.jsonl    one line for each batch of objects that may exist
                                  topology.json    the resolved topology
                                  baseline.json    the state of all nodes that ``up`` or ``adopt`` left
                                  qos.json         nodes whose ports were changed since ``up``; absent if none
                                  changing.json    nodes whose ports are being changed; absent if none
                                  cgroup           link to the cgroup of its programs; absent if there is none
                                  cleared.npz      baselines of cleared counters; absent if none
                                  faults.jsonl     faults that were injected and healed; readable by root only
                                  lab/             input of containerlab, or the facts of an adopted lab
                                  job_steps.jsonl  the steps of the last training job; absent if none
                                  recorders/       one file for each recorder in the background
                                  digest_key       the key of digests of passwords; readable by root only
                                  settings.json    ports before a scenario changed them; readable by root only
                                  players/         one file for each process that runs a scenario; root only
                                  challenge/       the fault that ``scenario break`` has hidden; root only
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
_KEY: Final = 32
"""Bytes of the key of digests."""
_RDMA_SINCE: Final = (7, 1)
"""The first Linux version whose rxe devices work in namespaces."""


class JournalKind(StrEnum):
    """The kind of object in a line of the journal; objects are created in the order of this list."""

    BACKEND = "backend"
    OWNER = "owner"
    DATAPLANE = "dataplane"
    GROUP = "group"
    LAB = "lab"
    NAMESPACE = "namespace"
    POD = "pod"
    RDMA_DEVICE = "rdma-device"


@dataclass(frozen=True, slots=True)
class FabricState:
    """The directory of one fabric, which may not exist."""

    name: str

    @property
    def directory(self) -> Path:
        """The directory with all files of the fabric."""
        return FABRICS / self.name

    @property
    def journal(self) -> Path:
        """The journal of objects that may exist; it exists as long as any of them may."""
        return self.directory / "journal.jsonl"

    @property
    def _ready(self) -> Path:
        return self.directory / "ready"

    @property
    def baseline(self) -> Path:
        """The state of all nodes when the fabric was built or adopted; see ``lab.audit``."""
        return self.directory / "baseline.json"

    @property
    def cleared(self) -> Path:
        """The counter values of ports when they were cleared."""
        return self.directory / "cleared.npz"

    @property
    def faults(self) -> Path:
        """The injected faults; absent if there were none."""
        return self.directory / "faults.jsonl"

    def node_directory(self, node: str) -> Path:
        """Return the directory for the files of a node's daemons."""
        return self.directory / "nodes" / node

    @property
    def lab(self) -> Path:
        """The files of containerlab, or the facts of an adopted lab; absent for namespaces."""
        return self.directory / "lab"

    @property
    def groups(self) -> Path:
        """A link to the fabric's cgroup, which has one child for each node; absent without usable cgroups."""
        return self.directory / "cgroup"

    @property
    def recorders(self) -> Path:
        """The directory with one file for each recorder in the background."""
        return self.directory / "recorders"

    @property
    def job_steps(self) -> Path:
        """The steps of the last training job, as far as all ranks have ended them, JSON lines; absent if none."""
        return self.directory / "job_steps.jsonl"

    @property
    def changing(self) -> Path:
        """The names of nodes whose ports are being changed; left behind if that command was killed."""
        return self.directory / "changing.json"

    @property
    def settings(self) -> Path:
        """The configuration of ports before a scenario changed them; absent if none did."""
        return self.directory / "settings.json"

    @property
    def players(self) -> Path:
        """The directory with one file for each process that runs a scenario here; absent if none ever did."""
        return self.directory / "players"

    @property
    def challenge(self) -> Path:
        """The fault that ``rocelab scenario break`` has hidden here; absent if there is none."""
        return self.directory / "challenge"

    def exists(self) -> bool:
        """Return whether any part of the fabric may exist."""
        return self.journal.exists()

    def begin(self, backend: str) -> None:
        """Open the journal with the backend's name, and a random owner token that identifies the fabric's objects.

        Also create the key of digests.
        """
        self.record(JournalKind.BACKEND, [backend])
        self.record(JournalKind.OWNER, [secrets.token_hex(8)])
        descriptor = os.open(self._digest_key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY))

    @property
    def _digest_key(self) -> Path:
        return self.directory / "digest_key"

    @property
    def digest_key(self) -> bytes:
        """The key of digests of this fabric's secrets; empty for a fabric of a version without such a key."""
        with contextlib.suppress(FileNotFoundError):
            return self._digest_key.read_bytes()
        return b""

    @property
    def owner(self) -> str:
        """The token that marks objects of this fabric when a name is not unique; "" before ``begin``."""
        return "".join(self.recorded(JournalKind.OWNER)[:1])

    def record(self, kind: JournalKind, names: Sequence[str] | Mapping[str, int]) -> None:
        """Write objects to the journal, in one append, before they are created.

        A mapping also holds the proof of ownership of each object, such as a namespace's cookie.
        """
        kept = dict(names) if isinstance(names, Mapping) else list(names)
        with self.journal.open("a", encoding="utf-8") as journal:
            journal.write(json.dumps({"kind": kind, "names": kept}) + "\n")

    def recorded(self, kind: JournalKind) -> tuple[str, ...]:
        """Return all names of one kind, in the order of creation."""
        return tuple(name for names in self._lines(kind) for name in names)

    def proofs(self, kind: JournalKind) -> dict[str, int]:
        """Return the names of one kind that were recorded with a proof, and the proofs."""
        return {
            name: proof for names in self._lines(kind) if isinstance(names, dict) for name, proof in names.items()
        }

    def _lines(self, kind: JournalKind) -> Iterator[list[str] | dict[str, int]]:
        """Yield the names in each line of the journal.

        An incomplete last line is ignored: the creation of its objects had not begun.
        """
        with contextlib.suppress(FileNotFoundError):
            for line in self.journal.read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(json.JSONDecodeError):
                    entry = json.loads(line)
                    if entry["kind"] == kind:
                        yield entry["names"]

    @property
    def ready(self) -> bool:
        """Whether ``up`` has completed."""
        return self._ready.exists()

    def mark_ready(self) -> None:
        """Record that ``up`` has completed."""
        self._ready.touch()

    def save_topology(self, topology: Topology) -> None:
        """Store the topology for later commands."""
        (self.directory / "topology.json").write_text(store.dump(topology), encoding="utf-8")

    def load_topology(self) -> Topology:
        """Return the topology that the fabric was built from; UsageError if the fabric is gone."""
        try:
            return store.restore((self.directory / "topology.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise self._gone() from None

    def save_qos(self, nodes: Mapping[str, NodeQos]) -> None:
        """Store the QoS of changed nodes; the file is replaced atomically."""
        with files.replaced(self.directory / "qos.json") as fresh:
            fresh.write_text(json.dumps({name: dump_node(node) for name, node in nodes.items()}), encoding="utf-8")

    def qos_stamp(self) -> tuple[int, int] | None:
        """Return a value that changes with each ``save_qos``; None before the first one."""
        try:
            found = (self.directory / "qos.json").stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def load_qos(self) -> dict[str, NodeQos]:
        """Return the QoS of the nodes that were changed since the fabric was built; InvalidInput if damaged."""
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
        """Return the number of nodes whose creation began."""
        return len(self.recorded(JournalKind.NAMESPACE))

    @contextlib.contextmanager
    def locked(self, waiting: Waiting | None = None) -> Iterator[None]:
        """Hold the exclusive lock of the fabric: other commands can neither change nor read it.

        If another command holds the lock, call ``waiting`` with its name, then wait; FabricBusy without ``waiting``.
        """
        _make_root(self.directory)
        try:
            with locks.locked(self.directory, waiting=waiting or self._busy):
                yield
        finally:
            remove_empty_roots()

    @contextlib.contextmanager
    def reading(self, waiting: Waiting | None = None) -> Iterator[None]:
        """Hold the shared lock of the fabric: other commands cannot change it.

        Waits as ``locked`` does. UsageError if the fabric is gone.
        """
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
        """Return whether a command holds the exclusive lock now."""
        return bool(locks.holder_of(self.directory, changing=True))

    def forget(self) -> None:
        """Remove the files, the journal last: as long as it exists, ``down`` can be repeated."""
        self._ready.unlink(missing_ok=True)
        for folder in (self.directory / "nodes", self.lab, self.recorders, self.players, self.challenge):
            shutil.rmtree(folder, ignore_errors=True)
        for name in ("topology.json", self.baseline.name, f"{self.baseline.name}.new", "qos.json", "qos.json.new",
                     "cleared.npz", "cleared.npz.new", self.groups.name, self._digest_key.name, self.changing.name,
                     f"{self.changing.name}.new", self.faults.name, self.settings.name,
                     f"{self.settings.name}.new", self.job_steps.name,
                     f"{self.job_steps.name}.new"):  # fmt: skip
            (self.directory / name).unlink(missing_ok=True)
        self.journal.unlink(missing_ok=True)


def _make_root(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    except FileNotFoundError:
        return  # the parent was removed with the last other fabric meanwhile; taking the lock creates it again
    except PermissionError as error:
        raise EnvironmentLacks(f"{directory} cannot be written", "run as root, or in the VM with --vm") from error
    except OSError as error:
        raise EnvironmentLacks(f"{directory}: {error.strerror}", "free space, or repair /run") from error


def remove_empty_roots() -> None:
    """Remove the parent directories if there is no fabric, for example those left by a killed ``up``."""
    with contextlib.suppress(OSError):
        FABRICS.rmdir()
        STATE_ROOT.rmdir()


def all_fabrics() -> list[FabricState]:
    """Return every fabric on this machine, complete or not, sorted by name."""
    with contextlib.suppress(FileNotFoundError):
        return [FabricState(entry.name) for entry in sorted(FABRICS.iterdir()) if entry.is_dir()]
    return []


def rdma_needs_the_vm(release: str) -> bool:
    """Return whether a fabric with RDMA needs ``rocelab --vm``: inside the VM, or on a kernel older than Linux 7.1.

    Unlike ``rocelab doctor``, this does not probe the kernel: an error message must not take that long.
    """
    version = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    return version < _RDMA_SINCE or "ROCELAB_IN_VM" in os.environ


def find_fabric(name: str | None) -> FabricState:
    """Return the fabric called ``name``, or the only one without a name; UsageError lists the fabrics."""
    known = [state.name for state in all_fabrics() if state.exists()]
    if name is None and len(known) == 1:
        return FabricState(known[0])
    if name in known:
        return FabricState(name)
    if not known:
        what = "no fabric runs" if name is None else f"no fabric {name}: none runs"
        there = " --vm" if rdma_needs_the_vm(os.uname().release) else ""
        build = f"rocelab{there} up {_EXAMPLE} builds one"
        raise UsageError(what, build if _EXAMPLE.is_file() else f"rocelab examples copy {_EXAMPLE}, then {build}")
    if name is None:
        raise UsageError(f"{len(known)} fabrics run", f"say which with --fabric: {', '.join(known)}")
    raise UsageError(f"no fabric {name}", suggest(name, known, f"there is {', '.join(known)}"))
