"""Record a running fabric while the caller drives it.

::

    with Recorder.begin(Path("recordings/incast"), fabric, captures=["h1--leaf1"]) as recorder:
        recorder.phase("baseline")
        ...
        recorder.phase("inject")

Processes of the recorder's own take samples and capture packets: a busy caller delays neither. A sample is taken at
the beginning of each phase, so that growth in a phase is exact.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from lab.errors import OperationFailed, UsageError, writing
from lab.kernel.process import signals, wall_clock
from lab.model import store
from lab.model.qos.qos_store import dump_node
from lab.model.values.link_selection import choose_links
from lab.telemetry.record.audit_record import audit_record
from lab.telemetry.record.finish import finish
from lab.telemetry.record.forwarding_state import forwarding_of
from lab.telemetry.record.host_facts import host_facts
from lab.telemetry.record.node_state import state_of
from lab.telemetry.sample.sampler_setup import capturing, sampling
from lab.telemetry.store import recording_folder as files
from lab.telemetry.store.recording_folder import Folder, RecordKind
from lab.wire.pcapng import MAX_SNAPLEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lab.audit.audited import FabricAudit
    from lab.backends.backend import Fabric
    from lab.kernel.process.process import Completed
    from lab.model.qos.port import NodeQos
    from lab.telemetry.sample.child_process import ChildProcess

DEFAULT_HZ: Final = 20.0
MOST_HZ: Final = 200.0
_NS: Final = 10**9
_READABLE: Final = "the data before that time is readable"


@dataclass
class Recorder:
    """A recording in progress; start it with ``begin``, end it with ``end`` or as a context manager."""

    folder: Folder
    fabric: Fabric
    about: dict[str, Any]
    with_state: bool
    _sampler: ChildProcess
    _others: list[ChildProcess] = field(default_factory=list)
    _ended: bool = False
    _configured: dict[str, NodeQos] = field(default_factory=dict)
    _forwards: dict[str, Any] = field(default_factory=dict)
    _audit: FabricAudit | None = None
    """The state at the start; None if it was not asked for."""
    _new: Sequence[Path] = ()
    """The folders that did not exist before, the innermost first."""

    @classmethod
    def begin(  # noqa: PLR0913 - options of a recording
        cls,
        path: Path,
        fabric: Fabric,
        *,
        hz: float = DEFAULT_HZ,
        captures: Sequence[str] = (),
        snaplen: int = MAX_SNAPLEN,
        parameters: Mapping[str, Any] | None = None,
        state: bool = True,
        audited: bool = False,
    ) -> Self:
        """Record a fabric into a directory, created if needed; ``captures`` are links as in ``rocelab capture``.

        ``snaplen`` bytes of each packet are kept. With ``state``, the state of all nodes is kept before and after;
        with ``audited``, all of their settings, too. Returns once samples are being taken. UsageError if the
        directory is not empty, OperationFailed if it cannot be written. On any failure nothing is left in it.
        """
        if not 0 < hz <= MOST_HZ:
            raise UsageError(f"{hz:g} samples per second are out of range", f"use up to {MOST_HZ:g}")
        choose_links(fabric.topology, captures)
        folder, new = _made(path)
        with _removed_on_failure(path, new):
            begun = cls._begin(folder, fabric, hz, captures, snaplen, parameters or {}, state, audited)
            begun._new = new  # noqa: SLF001 - its own class
            return begun

    @classmethod
    def _begin(  # noqa: PLR0913, PLR0917 - options of a recording
        cls,
        folder: Folder,
        fabric: Fabric,
        hz: float,
        captures: Sequence[str],
        snaplen: int,
        parameters: Mapping[str, Any],
        state: bool,
        audited: bool,
    ) -> Self:
        start = time.monotonic_ns()
        about: dict[str, Any] = {
            "format": files.FORMAT, "version": files.VERSION, "fabric": fabric.name, "hz": hz, "complete": False,
            "start_ns": start, "realtime_offset_ns": time.time_ns() - time.monotonic_ns(),
            "wall_offset_ns": round((wall_clock.now() - time.monotonic()) * 10**9),
        }  # fmt: skip
        try:
            _describe(folder, fabric, about, parameters)
            if state:
                files.write_json(folder.state("before"), state_of(fabric))
            forwards = forwarding_of(fabric) if state else {}
            audit, audit_line = audit_record(fabric) if audited else (None, {})
            with ExitStack() as undo:
                sampler = sampling(folder, fabric, hz)
                undo.callback(sampler.end)
                others = [capturing(folder, fabric, captures, snaplen)] if captures else []
                for other in others:
                    undo.callback(other.end)
                about["start_ns"] = _answer(folder, sampler, "mark")["ns"]
                if forwards:
                    files.append_line(folder.forwarding, {"ns": about["start_ns"], "nodes": forwards})
                if audit_line:
                    files.append_line(folder.audit, {"ns": about["start_ns"], **audit_line})
                files.write_json(folder.about, about)
                undo.pop_all()
        except OSError as error:
            raise _failed(folder, _reason(error)) from error
        return cls(folder, fabric, about, state, sampler, others, _forwards=forwards, _audit=audit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        """Finish the recording even if the block failed or was interrupted, and record the reason."""
        try:
            self.end(why="" if error is None else f"{type(error).__name__}: {error}")
        except OperationFailed:
            if error is None:
                raise

    def phase(self, name: str) -> int:
        """Begin a phase, which ends the previous one. Return the time of the sample between them."""
        began = self._note("phase", name=name)
        if self.with_state:
            self._keep_configuration(began)
            self._keep_forwarding(began)
        return began

    def note(self, text: str, **data: Any) -> int:
        """Record a note, and return its time."""
        return self._note("note", text=text, **data)

    def command(self, node: str, argv: Sequence[str], result: Completed, *, began: int) -> None:
        """Record a finished command of a node ("" for none); it ``began`` at this time of CLOCK_MONOTONIC in ns."""
        self.record(
            RecordKind.COMMAND, ns=began, end_ns=time.monotonic_ns(), node=node, argv=[str(word) for word in argv],
            exit_code=result.returncode, stdout=result.stdout or "", stderr=result.stderr or "",
        )  # fmt: skip

    def record(self, record_kind: RecordKind, /, *, ns: int | None = None, **data: Any) -> int:
        """Add a record of a time, by default now (ns of CLOCK_MONOTONIC), and return the time.

        OperationFailed if it cannot be written.
        """
        at = time.monotonic_ns() if ns is None else ns
        try:
            files.append_line(self.folder.records(record_kind), {"ns": at, **data})
        except OSError as error:
            raise _failed(self.folder, _reason(error)) from error
        return at

    def rest(self) -> None:
        """Pause until ``wake``: no samples, and no events of ports, kernel and routers."""
        _answer(self.folder, self._sampler, "rest")

    def wake(self) -> None:
        """Resume recording after ``rest``."""
        _answer(self.folder, self._sampler, "wake")

    @property
    def sampler_pid(self) -> int:
        """The PID of the sampler."""
        return self._sampler.pid

    def is_live(self) -> bool:
        """Whether it still records; False if the fabric is gone, or the disk is full."""
        said = self._sampler.ask({"do": "look"})
        return not said["gone"] and not said["failure"]

    def end(self, why: str = "") -> None:
        """Take the last sample and finish the recording; no effect if it has ended.

        OperationFailed if it could not be finished; what was recorded until then remains readable.
        """
        if self._ended:
            return
        self._ended = True
        with signals.held():
            try:
                said = self._finished_sampling()
                for other in self._others:
                    if other.end():
                        why = why or "the capture ended before its time"
                if self.with_state and not said["gone"]:
                    files.write_json(self.folder.state("after"), state_of(self.fabric))
                    if self._audit is not None:
                        self.record(RecordKind.AUDIT, **audit_record(self.fabric, self._audit)[1])
                why = why or ("the fabric was taken down" if said["gone"] else "")
                finish(self.folder, {**self.about, "why": why, "skipped": said["skipped"]})
            except OSError as error:
                raise _failed(self.folder, _reason(error)) from error

    def discard(self) -> None:
        """End the recording, and remove it; no effect if it has ended."""
        if self._ended:
            return
        self._ended = True
        with signals.held():
            for child in (self._sampler, *self._others):
                child.end()
            _remove(self.folder.path, self._new)

    def _finished_sampling(self) -> dict[str, Any]:
        try:
            return _answer(self.folder, self._sampler, "end")
        except OperationFailed:
            for other in self._others:
                other.end()
            raise
        finally:
            self._sampler.end()

    def _note(self, kind: str, **data: Any) -> int:
        return self.record(
            RecordKind.NOTE, ns=int(_answer(self.folder, self._sampler, "mark")["ns"]), kind=kind, **data
        )

    def _keep_configuration(self, ns: int) -> None:
        """Record the port configuration of nodes whose configuration changed since it was recorded last.

        A line without nodes states that nothing changed. A missing line states nothing.
        """
        now = self.fabric.state.load_qos()
        changed = {name: dump_node(node) for name, node in now.items() if self._configured.get(name) != node}
        self._configured = now
        self.record(RecordKind.CONFIGURATION, ns=ns, nodes=changed)

    def _keep_forwarding(self, ns: int) -> None:
        """Record the forwarding state of an overlay's nodes whose state changed since it was recorded last."""
        now = forwarding_of(self.fabric)
        changed = {name: node for name, node in now.items() if self._forwards.get(name) != node}
        self._forwards = now
        if now:
            self.record(RecordKind.FORWARDING, ns=ns, nodes=changed)


def _made(path: Path) -> tuple[Folder, list[Path]]:
    """Return an empty folder, and what is new of it and its parents, the innermost first.

    UsageError if it has files, or cannot be made.
    """
    with writing(path, "name another folder"):
        new = [folder for folder in (path, *path.parents) if not folder.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError:
            for folder in new:
                with suppress(OSError):  # the innermost was not made
                    folder.rmdir()
            raise
        if any(path.iterdir()):
            raise UsageError(f"{path} is not empty", "use a new directory for each recording")
    return Folder(path), new


@contextmanager
def _removed_on_failure(path: Path, new: Sequence[Path]) -> Iterator[None]:
    """Remove what a recording that did not begin has left."""
    try:
        yield
    except BaseException as error:
        _remove(path, new)
        if isinstance(error, OperationFailed) and error.remedy == _READABLE:
            raise OperationFailed(error.message, "nothing was recorded; name another folder") from error
        raise


def _remove(path: Path, new: Sequence[Path]) -> None:
    """Remove everything in the folder of a recording, and new folders: its name is free again.

    A folder that was there before stays, empty: it can be a mount point, or a link.
    """
    with suppress(OSError):
        for each in [*path.iterdir()]:
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink()
        for folder in new:
            folder.rmdir()


def _describe(folder: Folder, fabric: Fabric, about: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    files.write_json(folder.about, about)
    folder.topology.write_text(store.dump(fabric.topology), encoding="utf-8")
    files.write_json(folder.facts("params"), parameters)
    files.write_json(folder.facts("host"), host_facts())


def _answer(folder: Folder, sampler: ChildProcess, what: str) -> dict[str, Any]:
    said = sampler.ask({"do": what})
    if "error" in said:
        raise OperationFailed(f"recording {folder.path}: {said['error']}")
    if said["failure"]:
        raise _failed(folder, said["failure"])
    return said


def _reason(error: OSError) -> str:
    """Return what the kernel says: PyArrow writes a sentence around it."""
    return os.strerror(error.errno) if error.errno else str(error)


def _failed(folder: Folder, reason: str) -> OperationFailed:
    """Return the error of a recording that cannot be written, after a note of the reason in the recording."""
    files.note_failure(folder.about, reason)
    return OperationFailed(f"recording {folder.path}: {reason}", _READABLE)
