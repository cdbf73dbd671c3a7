"""A recording, opened for reading: counters, events and commands. Needs no root, and works on any machine.

::

    recording = Recording.open(Path("recordings/incast"))
    recording.port("leaf1:swp3").rx_pause(priority=3).during("inject").delta()
    recording.events(kind="xoff_sent", node="leaf1", during="inject")
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

from lab.errors import UsageError
from lab.kernel.process import wall_clock
from lab.model import store
from lab.model.qos.qos_store import checked_node
from lab.model.values.suggest import suggest
from lab.telemetry.read.counter_tables import CounterTables
from lab.telemetry.read.recorded_events import RecordedEvent
from lab.telemetry.read.row_series import RowTable
from lab.telemetry.read.series import RecordingClock, RecordingPhase
from lab.telemetry.read.transfers import Transfer, read_transfers
from lab.telemetry.read.views import DeviceView, PortView
from lab.telemetry.sample import queue_pairs
from lab.telemetry.store.log_store import LogStore, described
from lab.telemetry.store.recording_folder import (
    Folder,
    damage_as_invalid,
    invalid,
    read_about,
    read_facts,
    read_json,
    read_lines,
    read_records,
    wall_offset,
)
from lab.telemetry.store.row_records import appended_tables
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
class RecordedCommand:
    """A command that the caller ran: its node, arguments, output and exit code; times are like those of events."""

    ns: int
    end_ns: int
    node: str
    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """The command line, with the node as prompt."""
        typed = " ".join(self.argv)
        return f"{self.node}$ {typed}" if self.node else f"$ {typed}"


class Recording:
    """A recording, created with ``open``. UsageError for what it does not contain, InvalidInput if damaged."""

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
        """Open the recording in a directory, even if its recorder was killed.

        UsageError if there is none; InvalidInput if it is damaged, of another format, or of a newer version.
        """
        folder = Folder(path)
        about = read_about(folder)
        if about.get("complete"):
            from lab.telemetry.store.parquet import ParquetStore  # noqa: PLC0415 - pyarrow, which logs do not need

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
        """The name of its directory."""
        return self.folder.path.resolve().name

    @property
    def fabric(self) -> str:
        """The name of the recorded fabric."""
        return str(self._about.get("fabric", ""))

    @property
    def incomplete(self) -> bool:
        """Whether its recorder was killed, or could not finish it; such a recording ends at some time before."""
        return not self._about.get("complete")

    @property
    def why(self) -> str:
        """The reason for an early end; "" if the recorder ended it as intended."""
        return str(self._about.get("why", "")) or (
            "its recorder still runs, or was killed" if self.incomplete else ""
        )

    @property
    def hz(self) -> float:
        """The configured number of samples per second."""
        return float(self._about["hz"])

    @property
    def skipped(self) -> int | None:
        """Samples not taken when due, because the machine was busy; None if they were not counted."""
        found = self._about.get("skipped")
        return None if found is None else int(found)

    @property
    def realtime_offset(self) -> int:
        """The recording machine's clock, which stamps captures, minus CLOCK_MONOTONIC, in ns."""
        return int(self._about["realtime_offset_ns"])

    @property
    def began(self) -> datetime:
        """When the recording began, by the recording host's clock. In the VM, the machine's own clock differs."""
        return wall_clock.date_of((self.clock.start + wall_offset(self._about)) / _NS)

    @property
    def time(self) -> str:
        """The time in which seconds count: "host", or "virtual" in the VM; "" if not recorded."""
        return str(self.host.get("time", ""))

    @cached_property
    def clock(self) -> RecordingClock:
        """The start of the recording, and its phases. A phase ends where the next one begins.

        The last phase ends with the recording.
        """
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
        """The phases, ordered by time."""
        return tuple(self.clock.phases.values())

    def phase(self, name: str) -> RecordingPhase:
        """Return the phase of this name; UsageError lists those that exist."""
        return self.clock.phase(name)

    def window(self, phase: str = "", begin: float | None = None, until: float | None = None) -> RecordingPhase:
        """Return a phase, or the window between two seconds; the whole recording without arguments.

        UsageError for an unknown phase, or for seconds outside of the recording.
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
        """The length of the recording."""
        times = self.samples["ns"]
        return (int(times[-1]) - self.clock.start) / _NS if len(times) else 0.0

    @property
    def samples(self) -> Mapping[str, Any]:
        """The times of each sample in ns: ``ns`` when taken, ``due`` when due, ``took`` its duration."""
        return self._counted.samples

    @property
    def counted(self) -> CounterTables:
        """All counters as tables."""
        return self._counted

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of all recorded ports."""
        return tuple(f"{node}:{interface}" for node, interface in self._port_keys)

    def port(self, name: str) -> PortView:
        """Return the port of this name, for example ``leaf1:swp3``."""
        key = tuple(name.split(":"))
        if key not in self._port_keys:
            raise UsageError(f"{self.name} has no port {name}", suggest(name, self.ports, "rocelab record show"))
        return PortView(name, (key[0], key[1]), self._counted)

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of all RDMA devices, for example ``h1:eth1``."""
        return tuple(f"{key[0]}:{key[1]}" for key in self._counted.keys("rdma"))

    def rdma(self, name: str) -> DeviceView:
        """Return an RDMA device by interface (``h1:eth1``), by its own name, or by a host with one device (``h1``).

        UsageError if there is none, or if the host has several.
        """
        found = [
            tuple(map(str, key))
            for key in self._counted.keys("rdma")
            if name in {key[0], f"{key[0]}:{key[1]}", key[2]}
        ]
        if len(found) == 1:
            return DeviceView(name=name, table="rdma", key=found[0], _counted=self._counted)
        if found:
            raise UsageError(
                f"{name} has {len(found)} RDMA devices in {self.name}",
                f"name one of {', '.join(f'{host}:{interface}' for host, interface, _ in found)}",
            )
        remedy = suggest(name, self.devices, f"there is {', '.join(self.devices) or 'none'}")
        raise UsageError(f"{self.name} has no RDMA device {name}", remedy)

    def pool(self, node: str) -> DeviceView:
        """Return the shared buffer of a node's ports: ``pool_used`` and ``pool_watermark``, in bytes."""
        if (node,) not in self._counted.keys("nodes"):
            raise UsageError(f"{self.name} has no buffer of {node}", "only fabrics with lossless ports have one")
        return DeviceView(name=node, table="nodes", key=(node,), _counted=self._counted)

    @property
    def grown(self) -> tuple[str, ...]:
        """The names of the row tables, for objects that appear and disappear; empty in older recordings."""
        return tuple(self._row_schemas if self._log is None else self._unfinished_tables)

    def table(self, name: str) -> RowTable:
        """Return a row table, for example ``queue_pairs``: a series for each object. UsageError if there is none."""
        if name not in self.grown:
            remedy = suggest(name, self.grown, f"there is {', '.join(self.grown) or 'none'}")
            raise UsageError(f"{self.name} has no table {name}", remedy)
        return RowTable(self._row_columns(name), self.clock)

    def delta(self, counter: str, port: str, phase: str | RecordingPhase | None = None) -> int:
        """Return the growth of a port's counter, in a phase or the whole recording."""
        return self._during(counter, port, phase).delta()

    def rate(self, counter: str, port: str, phase: str | RecordingPhase | None = None) -> float:
        """Return the average growth per second of a port's counter."""
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
        """Return the events that match all given criteria, ordered by time."""
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
        """The commands that the caller ran, in the order in which they were recorded."""
        return read_records(self.folder.commands, _command)

    @cached_property
    def _transfers(self) -> tuple[Transfer, ...]:
        return read_transfers(self.folder.transfers)

    def transfers(self, during: str | RecordingPhase | None = None) -> tuple[Transfer, ...]:
        """Return the finished transfers in the order of their ends; with ``during``, those that began in it."""
        phase = self.clock.phase(during) if isinstance(during, str) else during
        return tuple(each for each in self._transfers if phase is None or phase.start <= each.ns <= phase.end)

    @property
    def captures(self) -> tuple[Path, ...]:
        """The capture files."""
        return tuple(sorted(self.folder.captures.glob("*.pcapng")))

    @property
    def terminals(self) -> tuple[Path, ...]:
        """The recorded terminals, as asciicast v2."""
        return tuple(sorted(self.folder.terminal.glob("*.cast")))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the run: ``scenario`` and its ``params``, if a scenario was run."""
        found = read_facts(self.folder.facts("params"))
        if not isinstance(found.get("scenario", ""), str) or not isinstance(found.get("params"), dict | None):
            raise invalid(self.folder.facts("params"), "is damaged")
        return found

    @property
    def host(self) -> Mapping[str, Any]:
        """The recording machine: kernel, CPU, kind of time, versions."""
        return read_facts(self.folder.facts("host"))

    @cached_property
    def topology(self) -> Topology:
        """The topology of the fabric."""
        try:
            return store.restore(self.folder.topology.read_text(encoding="utf-8"), str(self.folder.topology))
        except (OSError, UnicodeDecodeError) as error:
            raise invalid(self.folder.topology, "cannot be read") from error

    def state(self, when: str) -> Mapping[str, Any]:
        """Return links, routes, neighbours, FDB, FRR configuration and QoS by node, ``before`` or ``after``.

        UsageError if it was not recorded, for example because the recorder was killed.
        """
        found = read_json(self.folder.state(when))
        if found is None:
            raise UsageError(
                f"{self.name} has no state {when}",
                "a recording has the state before the run, and the state after it once finished",
            )
        if not isinstance(found, dict) or not all(isinstance(node, dict) for node in found.values()):
            raise invalid(self.folder.state(when), "is damaged")
        return found

    def qos(self, when: str = "before") -> Mapping[str, NodeQos]:
        """Return the QoS configuration of each node's ports; empty for a fabric of plain links."""
        try:
            return {name: checked_node(node["qos"]) for name, node in self.state(when).items() if node.get("qos")}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise invalid(self.folder.state(when), "is damaged") from error

    def qos_at(self, ns: int) -> tuple[Mapping[str, NodeQos], bool]:
        """Return the QoS configuration of each node's ports at a time, and whether it is known.

        It is known after the first phase began; before, the configuration at the start of the recording is returned.
        Raises like ``state``.
        """
        found = dict(self.qos())
        changes = [nodes for at, nodes in self.qos_changes() if at <= ns]
        for nodes in changes:
            found.update(nodes)
        return found, bool(changes)

    def qos_changes(self) -> list[tuple[int, Mapping[str, NodeQos]]]:
        """Return the nodes whose QoS had changed at each look, with its time in ns; without the state ``before``."""
        return sorted(read_records(self.folder.configuration, _configuration), key=operator.itemgetter(0))

    def forwarding_at(self, ns: int) -> Mapping[str, Mapping[str, Any]]:
        """Return an overlay's forwarding state by node at a time (see ``lab.telemetry.record.forwarding_state``).

        Empty for a fabric without an overlay, and if it was not recorded.
        """
        found: dict[str, Mapping[str, Any]] = {}
        for at, nodes in self.forwarding_changes():
            found.update(nodes if at <= ns else {})
        return found

    def forwarding_changes(self) -> list[tuple[int, Mapping[str, Mapping[str, Any]]]]:
        """Return the nodes whose forwarding state had changed at each look, with its time in ns."""
        return list(read_records(self.folder.forwarding, _forwarding))

    def truth(self) -> list[Mapping[str, Any]]:
        """Return the injected faults: for scoring a diagnosis, never for making one."""
        return list(read_lines(self.folder.truth))

    def _during(self, counter: str, port: str, phase: str | RecordingPhase | None) -> Series:
        series = self.port(port).counter(counter)
        return series if phase is None else series.during(phase)

    @cached_property
    def _port_keys(self) -> Sequence[tuple[Any, ...]]:
        return [key for table in ("ports", "interfaces") for key in self._counted.keys(table)]

    @cached_property
    def _row_schemas(self) -> dict[str, RowSchema]:
        """The row tables' schemas in a complete recording."""
        with damage_as_invalid(self.folder.about):
            schemas = [RowSchema.from_data(data) for data in self._about.get("rows") or ()]
        return {schema.table: schema for schema in schemas}

    @cached_property
    def _unfinished_tables(self) -> dict[str, RowColumns]:
        """The row tables of a recording that is not complete."""
        return {**(self._log.row_tables if self._log is not None else {}), **appended_tables(self.folder)}

    def _row_columns(self, name: str) -> RowColumns:
        if self._log is not None:
            return self._unfinished_tables[name]
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
        """Return the rows of queue pairs as events; older recordings store these as events."""
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


def _configuration(line: Mapping[str, Any]) -> tuple[int, dict[str, NodeQos]]:
    """Return the time of a change, and the nodes that it changed."""
    return line["ns"], {name: checked_node(node) for name, node in line["nodes"].items()}


def _forwarding(line: Mapping[str, Any]) -> tuple[int, dict[str, Mapping[str, Any]]]:
    return line["ns"], dict(line["nodes"])


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
