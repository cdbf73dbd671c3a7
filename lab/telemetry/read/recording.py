"""A recording, read: what was counted, what happened, what was done. Without root, on any machine, any time later.

::

    recording = Recording.open(Path("recordings/incast"))
    recording.port("leaf1:swp3").rx_pause(priority=3).during("inject").delta()
    recording.events(kind="xoff_sent", node="leaf1", during="inject")
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

from lab.errors import UsageError
from lab.kernel.process import wall_clock
from lab.model import store
from lab.model.qos.qos_store import restore_node
from lab.model.values.suggest import suggest
from lab.telemetry.read.counter_tables import CounterTables
from lab.telemetry.read.row_series import RowTable
from lab.telemetry.read.series import RecordingClock, RecordingPhase
from lab.telemetry.read.transfers import Transfer, read_transfers
from lab.telemetry.read.views import DeviceView, PortView
from lab.telemetry.sample import queue_pairs
from lab.telemetry.store.log_store import LogStore
from lab.telemetry.store.recording_folder import (
    Folder,
    damage_as_invalid,
    invalid,
    read_about,
    read_json,
    read_lines,
    wall_offset,
)
from lab.telemetry.store.row_tables import RowSchema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from lab.model.qos.port import NodeQos
    from lab.model.topology import Topology
    from lab.telemetry.read.series import Series
    from lab.telemetry.store.row_tables import RowColumns

_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """Something that happened, at ``ns`` of CLOCK_MONOTONIC, ``seconds`` into the recording.

    ``source`` is who told of it: port, kernel, routing, caller, recorder. ``data`` are the fields of its kind.
    """

    ns: int
    seconds: float
    source: str
    kind: str
    node: str = ""
    interface: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedCommand:
    """A command that the caller ran: where, its words, what it printed and its exit code; times as of events."""

    ns: int
    end_ns: int
    node: str
    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """The command as it is typed, behind the node that it ran in."""
        typed = " ".join(self.argv)
        return f"{self.node}$ {typed}" if self.node else f"$ {typed}"


class Recording:
    """A recording; make it with ``open``. What it has not got is a UsageError, what is damaged InvalidInput."""

    def __init__(
        self, folder: Folder, about: Mapping[str, Any], counted: CounterTables, log: LogStore | None
    ) -> None:
        self.folder = folder
        self._about = about
        self._counted = counted
        self._log = log
        counted.clock = self.clock

    @classmethod
    def open(cls, path: Path) -> Self:
        """The recording in a directory, also one whose recorder was killed.

        UsageError when there is none; InvalidInput when it is damaged, somebody else's, or of a newer version.
        """
        folder = Folder(path)
        about = read_about(folder)
        if about.get("complete"):
            from lab.telemetry.store.parquet import ParquetStore  # noqa: PLC0415 - pyarrow, which a log does without

            try:
                return cls(
                    folder, about, CounterTables(about["tables"], ParquetStore(folder.tables), folder.tables), None
                )
            except (OSError, ValueError, KeyError, TypeError) as error:
                said = str(error).partition("\n")[0]
                raise invalid(folder.tables, f"is damaged: {said}") from error
        try:
            log = LogStore(folder.log)
        except OSError as error:
            raise invalid(folder.log, f"cannot be read: {error.strerror}") from error
        return cls(folder, about, CounterTables(described(log), log, folder.log), log)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.folder.path.resolve().name

    @property
    def fabric(self) -> str:
        """Whose it is."""
        return str(self._about.get("fabric", ""))

    @property
    def incomplete(self) -> bool:
        """Whether its recorder was killed, or could not finish it: it goes up to some moment, and there ends."""
        return not self._about.get("complete")

    @property
    def why(self) -> str:
        """Why it ended otherwise than by its recorder's wish; "" when it did not."""
        return str(self._about.get("why", "")) or ("its recorder was killed" if self.incomplete else "")

    @property
    def hz(self) -> float:
        """Samples in a second, as asked for."""
        return float(self._about["hz"])

    @property
    def skipped(self) -> int | None:
        """Samples that were due and not taken, because the machine was busy; None where nobody counted them."""
        found = self._about.get("skipped")
        return None if found is None else int(found)

    @property
    def realtime_offset(self) -> int:
        """How far the clock of its machine, by which captures are stamped, was ahead of CLOCK_MONOTONIC, in ns."""
        return int(self._about["realtime_offset_ns"])

    @property
    def began(self) -> datetime:
        """When it began, by the clock of whoever made it: in the VM, the machine's own clock is another."""
        return wall_clock.date_of((self.clock.start + wall_offset(self._about)) / _NS)

    @property
    def time(self) -> str:
        """The time in which its seconds count: "host", or "virtual" in the VM; "" where it was not noted."""
        return str(self.host.get("time", ""))

    @cached_property
    def clock(self) -> RecordingClock:
        """When it began, and its phases: each ends where the next begins, the last with the recording."""
        named = [note for note in self._notes if note.get("kind") == "phase"]
        if any(not isinstance(note.get("name"), str) for note in named):
            raise invalid(self.folder.notes, "is damaged: a phase has no name")
        ends = [int(note["ns"]) for note in named[1:]]
        times = self._counted.samples["ns"]
        last = int(times[-1]) if len(times) else int(self._about["start_ns"])
        phases: dict[str, RecordingPhase] = {}
        for note, end in zip(named, [*ends, last], strict=bool(named)):
            if note["name"]:
                phases[note["name"]] = RecordingPhase(note["name"], int(note["ns"]), max(end, int(note["ns"])))
        return RecordingClock(int(self._about["start_ns"]), phases)

    @property
    def phases(self) -> tuple[RecordingPhase, ...]:
        """In the order of time."""
        return tuple(self.clock.phases.values())

    def phase(self, name: str) -> RecordingPhase:
        """The phase of this name; UsageError lists those that there are."""
        return self.clock.phase(name)

    def window(self, phase: str = "", begin: float | None = None, until: float | None = None) -> RecordingPhase:
        """A phase, or the part from some second to another: without any of them the whole recording.

        UsageError for a phase that it does not have, or for seconds in which there is nothing.
        """
        if phase:
            if phase not in self.clock.phases:
                have = ", ".join(self.clock.phases) or "none"
                raise UsageError(f"{self.name} has no phase {phase}", f"its phases: {have}")
            return self.clock.phases[phase]
        start, end = self.clock.start, self.clock.start + int(self.seconds * _NS)
        first = start if begin is None else start + int(begin * _NS)
        last = end if until is None else start + int(until * _NS)
        given = begin is not None or until is not None
        if given and (not start <= first < last or first >= end):
            raise UsageError(
                f"{self.name} has nothing from {(first - start) / _NS:g} to {(last - start) / _NS:g} s",
                f"it is {self.seconds:.1f} s long",
            )
        return RecordingPhase("", first, min(last, end))

    @property
    def seconds(self) -> float:
        """How long it is."""
        times = self.samples["ns"]
        return (int(times[-1]) - self.clock.start) / _NS if len(times) else 0.0

    @property
    def samples(self) -> Mapping[str, Any]:
        """``ns`` of each sample, ``due`` when it should have been, ``took`` how long it took."""
        return self._counted.samples

    @property
    def counted(self) -> CounterTables:
        """All counters, by table, for whoever takes them as they are."""
        return self._counted

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of all ports of which anything was recorded."""
        return tuple(f"{node}:{interface}" for node, interface in self._port_keys)

    def port(self, name: str) -> PortView:
        """A port by its name, ``leaf1:swp3``."""
        key = tuple(name.split(":"))
        if key not in self._port_keys:
            raise UsageError(f"{self.name} has no port {name}", suggest(name, self.ports, "rocelab record show"))
        return PortView(name, (key[0], key[1]), self._counted)

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of all RDMA devices, as ``h1:eth1``."""
        return tuple(f"{key[0]}:{key[1]}" for key in self._counted.keys("rdma"))

    def rdma(self, name: str) -> DeviceView:
        """An RDMA device by its interface, ``h1:eth1``, by its own name, or by its host, ``h1``, which has only one.

        UsageError where there is none, and where the host has several.
        """
        found = [
            tuple(map(str, key))
            for key in self._counted.keys("rdma")
            if name in {key[0], f"{key[0]}:{key[1]}", key[2]}
        ]
        if len(found) == 1:
            return DeviceView(name, "rdma", found[0], self._counted)
        if found:
            raise UsageError(
                f"{name} has {len(found)} RDMA devices in {self.name}",
                f"name one of {', '.join(f'{host}:{interface}' for host, interface, _ in found)}",
            )
        remedy = suggest(name, self.devices, f"there is {', '.join(self.devices) or 'none'}")
        raise UsageError(f"{self.name} has no RDMA device {name}", remedy)

    def pool(self, node: str) -> DeviceView:
        """The buffer that the ports of a node share: ``pool_used`` and ``pool_watermark``, in bytes."""
        if (node,) not in self._counted.keys("nodes"):
            raise UsageError(f"{self.name} has no buffer of {node}", "it is that of fabrics with lossless ports")
        return DeviceView(node, "nodes", (node,), self._counted)

    @property
    def grown(self) -> tuple[str, ...]:
        """The names of the tables that grew: rows of things that appeared and went; none in older recordings."""
        return tuple(self._row_schemas if self._log is None else self._log.row_tables)

    def table(self, name: str) -> RowTable:
        """A table that grew, such as ``queue_pairs``: a series for each thing. UsageError when there is none."""
        if name not in self.grown:
            remedy = suggest(name, self.grown, f"there is {', '.join(self.grown) or 'none'}")
            raise UsageError(f"{self.name} has no table {name}", remedy)
        return RowTable(self._row_columns(name), self.clock)

    def delta(self, counter: str, port: str, phase: str | RecordingPhase | None = None) -> int:
        """By how much a counter of a port grew, in a phase or all the time."""
        return self._during(counter, port, phase).delta()

    def rate(self, counter: str, port: str, phase: str | RecordingPhase | None = None) -> float:
        """By how much a counter of a port grew in a second, on average."""
        return self._during(counter, port, phase).rate()

    def events(
        self,
        *,
        kind: str = "",
        source: str = "",
        node: str = "",
        interface: str = "",
        during: str | RecordingPhase | None = None,
    ) -> list[RecordedEvent]:
        """What happened, by time; only what is asked for."""
        phase = self.clock.phase(during) if isinstance(during, str) else during
        return [
            event
            for event in self._events
            if (not kind or event.kind == kind)
            and (not source or event.source == source)
            and (not node or event.node == node)
            and (not interface or event.interface == interface)
            and (phase is None or phase.start <= event.ns <= phase.end)
        ]

    @cached_property
    def commands(self) -> tuple[RecordedCommand, ...]:
        """The commands that the caller ran, in their order."""
        try:
            return tuple(map(_command, read_lines(self.folder.commands)))
        except (TypeError, ValueError, KeyError) as error:
            raise invalid(self.folder.commands, "is damaged") from error

    @cached_property
    def _transfers(self) -> tuple[Transfer, ...]:
        return read_transfers(self.folder.transfers)

    def transfers(self, during: str | RecordingPhase | None = None) -> tuple[Transfer, ...]:
        """What was moved and came to an end, in the order in which it did; only what began in a phase."""
        phase = self.clock.phase(during) if isinstance(during, str) else during
        return tuple(each for each in self._transfers if phase is None or phase.start <= each.ns <= phase.end)

    @property
    def captures(self) -> tuple[Path, ...]:
        """The files with packets."""
        return tuple(sorted(self.folder.captures.glob("*.pcapng")))

    @property
    def terminals(self) -> tuple[Path, ...]:
        """The terminals that were recorded, as asciicast v2."""
        return tuple(sorted(self.folder.terminal.glob("*.cast")))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What the run was asked for with."""
        return read_json(self.folder.facts("params")) or {}

    @property
    def host(self) -> Mapping[str, Any]:
        """Where it was made: kernel, CPU, kind of time, versions."""
        return read_json(self.folder.facts("host")) or {}

    @cached_property
    def topology(self) -> Topology:
        """The fabric."""
        try:
            return store.restore(self.folder.topology.read_text(encoding="utf-8"), str(self.folder.topology))
        except (OSError, UnicodeDecodeError) as error:
            raise invalid(self.folder.topology, "cannot be read") from error

    def state(self, when: str) -> Mapping[str, Any]:
        """By node: links, routes, neighbours, FDB, FRR's configuration and qos, ``before`` and ``after``.

        UsageError where it was not kept, as of a recording that was killed.
        """
        found = read_json(self.folder.state(when))
        if found is None:
            raise UsageError(f"{self.name} has no state {when}", "it has that of before, and of after once finished")
        return dict(found)

    def qos(self, when: str = "before") -> Mapping[str, NodeQos]:
        """What each node's ports were to do; empty for a fabric of plain links."""
        try:
            return {name: restore_node(node["qos"]) for name, node in self.state(when).items() if node.get("qos")}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise invalid(self.folder.state(when), "is damaged") from error

    def qos_at(self, ns: int) -> tuple[Mapping[str, NodeQos], bool]:
        """What each node's ports were to do at a moment, and whether that is known.

        It is known where a phase has begun before; otherwise this is what was found at the recording's beginning.
        UsageError as of ``state``.
        """
        found = dict(self.qos())
        try:
            lines = [line for line in read_lines(self.folder.configuration) if line["ns"] <= ns]
            for line in lines:
                found.update({name: restore_node(node) for name, node in line["nodes"].items()})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise invalid(self.folder.configuration, "is damaged") from error
        return found, bool(lines)

    def forwarding_at(self, ns: int) -> Mapping[str, Mapping[str, Any]]:
        """What the nodes of an overlay forwarded by at a moment, as ``lab.telemetry.record.forwarding_state`` has it.

        Empty of a fabric without one, and where it was not kept.
        """
        found: dict[str, Mapping[str, Any]] = {}
        try:
            for line in read_lines(self.folder.forwarding):
                found.update(line["nodes"] if line["ns"] <= ns else {})
        except (ValueError, KeyError, TypeError) as error:
            raise invalid(self.folder.forwarding, "is damaged") from error
        return found

    def truth(self) -> list[Mapping[str, Any]]:
        """What was injected: for judging a diagnosis, never for making one."""
        return list(read_lines(self.folder.truth))

    def _during(self, counter: str, port: str, phase: str | RecordingPhase | None) -> Series:
        series = self.port(port).counter(counter)
        return series if phase is None else series.during(phase)

    @cached_property
    def _port_keys(self) -> Sequence[tuple[Any, ...]]:
        return [key for table in ("ports", "interfaces") for key in self._counted.keys(table)]

    @cached_property
    def _row_schemas(self) -> dict[str, RowSchema]:
        """Those of a recording that is complete."""
        with damage_as_invalid(self.folder.about):
            schemas = [RowSchema.from_data(data) for data in self._about.get("rows") or ()]
        return {schema.table: schema for schema in schemas}

    def _row_columns(self, name: str) -> RowColumns:
        if self._log is not None:
            return self._log.row_tables[name]
        from lab.telemetry.store.row_parquet import read_row_table  # noqa: PLC0415 - pyarrow, as in ``open``

        path = self.folder.rows / f"{name}.parquet"
        try:
            with damage_as_invalid(path):
                return read_row_table(self.folder.rows, self._row_schemas[name])
        except (OSError, NotImplementedError) as error:
            raise invalid(path, f"is damaged: {str(error).partition(chr(10))[0]}") from error

    @cached_property
    def _notes(self) -> list[dict[str, Any]]:
        return list(read_lines(self.folder.notes))

    @cached_property
    def _events(self) -> list[RecordedEvent]:
        with damage_as_invalid(self.folder.log):
            told = self._log.events() if self._log is not None else list(read_lines(self.folder.events))
        told += self._queue_pair_changes()
        merged = sorted([*told, *({**note, "source": "caller"} for note in self._notes)], key=lambda each: each["ns"])
        return [self._event(dict(each)) for each in merged]

    def _queue_pair_changes(self) -> list[dict[str, Any]]:
        """The rows of queue pairs as events; older recordings have these among the others."""
        if queue_pairs.SCHEMA.table not in self.grown:
            return []
        rows = self.table(queue_pairs.SCHEMA.table).rows
        with damage_as_invalid(self.folder.path):
            return [
                {"ns": ns, **queue_pairs.event_of(row)}
                for ns, row in zip(rows.ns.tolist(), rows.dicts(), strict=True)
            ]

    def _event(self, told: dict[str, Any]) -> RecordedEvent:
        ns = int(told.pop("ns"))
        known = {name: str(told.pop(name, "")) for name in ("source", "kind", "node", "interface")}
        return RecordedEvent(ns, (ns - self.clock.start) / _NS, **known, data=told)


def _command(line: Mapping[str, Any]) -> RecordedCommand:
    return RecordedCommand(
        ns=line["ns"],
        end_ns=int(line["end_ns"]),
        node=str(line["node"]),
        argv=tuple(map(str, line["argv"])),
        exit_code=int(line["exit_code"]),
        stdout=str(line["stdout"]),
        stderr=str(line["stderr"]),
    )


def described(log: LogStore) -> dict[str, Any]:
    """The tables of a log: keys, and columns with whether they are gauges."""
    return {
        name: {"keys": section.keys, "columns": {column.name: column.gauge for column in section.columns}}
        for name, section in log.sections.items()
    }
