"""Turns the log that a sampler streams into updates for the page, one for each sample.

An update has the keys that changed something:

- ``t``: the time of the sample, in µs since the first one
- ``series``: new series: number, and path into the page's data, for example ``ports``, ``h1:eth1``, ``3``, ``tx_bps``
- ``values``: number and value of each series that changed, alternately; counters count from the first sample
- ``dropped``: numbers of series that no longer exist
- ``pauses``: port, priority, start, and end or null, in µs
- ``qps``: NIC, QPN, peer's QPN, type, state and program of each queue pair that changed
- ``events``: ``at`` (µs), ``word``, ``text``, ``nodes``, ``ports``
- ``unlisted``: number of events that are left out, because there were too many at a time
- ``gaps``: how often the kernel dropped news of links, because its buffer was full
- ``commands``: ``at`` (µs), ``typed``, ``output``, ``code``

A snapshot has the same keys, with everything that exists.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.errors import OperationFailed
from lab.report.playback import PLAYED, PLAYED_LINK
from lab.report.run_figures import DEVICE_FIGURES
from lab.telemetry.read import measures
from lab.telemetry.read.followed_sessions import SessionStates
from lab.telemetry.read.recorded_events import RecordedEvent, event_text
from lab.telemetry.read.window_measure import LINK_TABLE
from lab.telemetry.sample import qp_rates, queue_pairs, routing_sessions
from lab.telemetry.sample.kernel_events import KernelNews
from lab.telemetry.store.port_event_frames import PortEventFrames
from lab.telemetry.store.rawlog import FrameStream, LogFrameKind, sample_of
from lab.telemetry.store.row_tables import columns_of, unpack
from lab.telemetry.store.sample_layout import CounterTable
from lab.telemetry.store.session_states import TITLES, UP
from lab.units import format_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lab.live.update_ring import UpdateRing
    from lab.telemetry.read.window_measure import Measure
    from lab.telemetry.store.rawlog import LogFrame, Sample

_NS: Final = 10**9
_US: Final = 1000
_MOST_EVENTS: Final = 50
"""Maximum number of events in one update; the others are counted."""
_MOST_STEPS: Final = 25
"""Maximum number of these that are steps of jobs: others of the same time are more important."""
MOST_LIMITED: Final = 256
"""Maximum number of QPs with a rate limit that are followed at a time."""
_SILENT: Final = 2 * routing_sessions.INTERVAL
"""Nanoseconds within which a daemon that is reported as silent again is still silent, and not again."""
_STEP: Final = "Job"
"""The word of events that are steps of jobs, which the page drops first."""
_OUTPUT: Final = 10_000
"""Maximum number of characters of a command's output."""


class _SeriesGroup:
    """The series of one measure: the rows of its counters, which are added up."""

    def __init__(self, measure: Measure, sections: Mapping[str, CounterTable], columns: Sequence[tuple[str, str]]):
        self.gauge = measure.gauge
        self._counters = [
            (sections[table], column)
            for table, name in columns
            for column in sections[table].columns
            if column.name == name
        ]
        self.rows = sections[columns[0][0]].rows
        self._all = np.arange(len(self.rows))
        self.base: NDArray[np.int64] | None = None
        self.last = np.zeros(len(self.rows), np.int64)

    def changed(self, words: NDArray[np.uint64], ns: int) -> list[int]:
        """Take a sample; return the rows whose value differs from the one before, or exists for the first time."""
        times = np.array([ns])
        found = sum(
            section.values(column, self._all, lambda places: words[places][np.newaxis], times).reshape(-1)
            for section, column in self._counters
        )
        values = np.asarray(found).astype(np.int64)
        if self.base is None:
            self.base = np.zeros_like(values) if self.gauge else values
        values = values - self.base
        rows: list[int] = np.flatnonzero(values != self.last).tolist()
        self.last = values
        return rows


class LiveFeed:
    """A running fabric, from the log that its sampler writes; ``feed`` takes the log in pieces."""

    def __init__(self, ring: UpdateRing) -> None:
        self._ring = ring
        self._stream = FrameStream()
        self._sections: dict[str, CounterTable] = {}
        self._words = np.zeros(0, np.uint64)
        self._groups: list[tuple[tuple[str, ...], _SeriesGroup]] = []
        self._received: dict[str, tuple[int, int]] = {}
        self._ports: PortEventFrames | None = None
        self._news = KernelNews([])
        self._links: dict[str, bool] = {}
        """Whether each port of the fabric is up."""
        self._sessions = SessionStates()
        self._silent: dict[tuple[str, str], int] = {}
        self._nodes: list[str] = []
        self._gaps: dict[str, int] = {}
        """When the kernel's last dropped news of each node were reported, in ns."""
        self._numbers: dict[tuple[str, ...], int] = {}
        self._values: dict[int, int] = {}
        self._next = 0
        self._paused: dict[tuple[str, int], int] = {}
        self._qps: dict[tuple[str, int], list[Any]] = {}
        self._recovered: dict[str, None] = {}
        """QPs that are followed, but not limited any more, the one that recovered first at the front."""
        self._pending: dict[str, Any] = {}
        self.name = ""
        self.time = ""
        self.start = 0
        self.end = 0

    @property
    def begun(self) -> bool:
        """Whether a sample has arrived."""
        return self.end > 0

    def feed(self, data: bytes) -> None:
        """Process the next output of the sampler; OperationFailed if it is not a sampler's log."""
        try:
            with self._ring.lock:
                for frame in self._stream.feed(data):
                    self._take(frame)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise OperationFailed(
                "the sampler's output cannot be read", "run rocelab --no-vm live where the fabric runs"
            ) from error

    def snapshot(self) -> dict[str, Any]:
        """Return everything that exists now, in the form of an update. The caller holds the ring's lock."""
        return {
            "t": (self.end - self.start) // _US,
            "series": [[number, *path] for path, number in self._numbers.items()],
            "values": [each for pair in self._values.items() for each in pair],
            "pauses": [[port, priority, start, None] for (port, priority), start in self._paused.items()],
            "qps": list(self._qps.values()),
        }

    def _take(self, frame: LogFrame) -> None:
        if frame.kind == LogFrameKind.HEADER:
            self._begin(json.loads(bytes(frame.data)))
        elif frame.kind == LogFrameKind.SAMPLE:
            self._ring.publish(self._sampled(sample_of(frame)))
        elif frame.kind == LogFrameKind.EVENT:
            self._take_event(frame.ns, json.loads(bytes(frame.data)))
        elif frame.kind == LogFrameKind.PORT_EVENTS and self._ports is not None:
            for event in self._ports.events(frame.data):
                self._take_port_event(event)
        elif frame.kind == LogFrameKind.KERNEL_NEWS:
            self._take_news(frame.ns, bytes(frame.data))
        elif frame.kind == LogFrameKind.ROWS:
            self._take_rows(frame)

    def _take_rows(self, frame: LogFrame) -> None:
        schema, rows = unpack(frame.data)
        for row in columns_of(schema, np.full(len(rows), frame.ns), rows).dicts():
            if schema.table == queue_pairs.SCHEMA.table:
                self._take_queue_pair(row)
            elif schema.table == qp_rates.SCHEMA.table:
                self._take_limit(row)

    def _begin(self, header: dict[str, Any]) -> None:
        self.name, self.time = header["fabric"], header.get("time", "")
        self._sections = {data["table"]: CounterTable.from_data(data) for data in header["sections"]}
        highest = max((int(each.words.max()) for each in self._sections.values() if each.words.size), default=-1)
        self._words = np.zeros(highest + 1, np.uint64)
        self._ports = PortEventFrames(header["port_events"]) if header.get("port_events") else None
        self._nodes = [str(node["name"]) for node in header["nodes"]]
        self._news = KernelNews(header["nodes"])
        self._links = {str(port): bool(up) for port, up in header.get("links", {}).items()}
        for port, up in self._links.items():
            if not up:
                self._set(("links", port), 0)
        for measure in PLAYED:
            self._follow("ports", measure, [each for each in measure.columns if each[0] != LINK_TABLE])
        for measure in PLAYED_LINK:
            self._follow("ports", measure, [each for each in measure.columns if each[0] == LINK_TABLE])
        for measure in (*DEVICE_FIGURES, measures.RDMA_RX_RATE):
            self._follow("again" if measure in DEVICE_FIGURES else "received", measure, measure.columns)

    def _follow(self, kind: str, measure: Measure, columns: Sequence[tuple[str, str]]) -> None:
        known = [
            (table, name)
            for table, name in columns
            if table in self._sections and any(column.name == name for column in self._sections[table].columns)
        ]
        if known and self._sections[known[0][0]].rows:
            name = measure.series() if kind == "again" else measure.name
            self._groups.append(((kind, name), _SeriesGroup(measure, self._sections, known)))

    def _sampled(self, sample: Sample) -> dict[str, Any]:
        used = sample.places < len(self._words)
        self._words[sample.places[used]] = sample.words[used]
        self.start, self.end = self.start or sample.ns, sample.ns
        for (kind, name), group in self._groups:
            rows = group.changed(self._words, sample.ns)
            if kind == "received":
                self._take_received(group, sample.ns)
                continue
            for row in rows:
                node, interface, *others = group.rows[row]
                port = f"{node}:{interface}"
                if kind == "again":
                    self._set(("again", f"{port} {name}"), int(group.last[row]))
                else:
                    self._set(("ports", port, str(others[0]) if others else "", name), int(group.last[row]))
        update = {"t": (sample.ns - self.start) // _US, **self._pending}
        self._pending = {}
        return update

    def _take_received(self, group: _SeriesGroup, ns: int) -> None:
        """Set the receive rate of each device as a gauge, as a recording has it; 0 is only set after another rate."""
        for row, value in enumerate(group.last.tolist()):
            node, interface, *_ = group.rows[row]
            name = f"{node}:{interface}"
            then, before = self._received.get(name, (ns, value))
            self._received[name] = ns, value
            rate = round((value - before) * measures.RDMA_RX_RATE.scale * _NS / (ns - then)) if ns > then else 0
            if rate or ("received", name) in self._numbers:
                self._set(("received", name), rate)

    def _set(self, path: tuple[str, ...], value: int) -> None:
        """Set the value of a series, which is new the first time."""
        number = self._numbers.get(path)
        if number is None:
            self._next += 1
            number = self._numbers[path] = self._next
            self._pending.setdefault("series", []).append([number, *path])
        elif self._values.get(number) == value:
            return
        self._values[number] = value
        self._pending.setdefault("values", []).extend((number, value))

    def _take_port_event(self, event: dict[str, Any]) -> None:
        port, number = f"{event['node']}:{event['interface']}", int(event["number"])
        at = (int(event["ns"]) - self.start) // _US
        told = self._pending.setdefault("pauses", [])
        if event["kind"] == "paused" and (port, number) not in self._paused:
            self._paused[port, number] = at
            told.append([port, number, at, None])
        elif event["kind"] in {"resumed", "expired"} and (port, number) in self._paused:
            told.append([port, number, self._paused.pop((port, number)), at])
        elif event["kind"] in {"storm", "restored"}:
            text = "PFC storm" if event["kind"] == "storm" else "PFC storm over"
            self._tell(at, "Watchdog", f"{port} queue {number}: {text}", port)

    def _take_news(self, ns: int, data: bytes) -> None:
        """Report ports of the fabric whose link goes down or up. Only ports that were ever down have a series."""
        for event in self._news.events(ns, int.from_bytes(data[:2], "little"), data[2:]):
            if event["kind"] != "link":
                continue
            port, up = f"{event['node']}:{event['interface']}", bool(event["up"])
            if self._links.get(port, up) is not up:
                self._links[port] = up
                self._set(("links", port), int(up))
                at = (ns - self.start) // _US if self.start else 0
                self._tell(at, "Link", f"{port} is {'up' if up else 'down'}", port)

    def _take_event(self, ns: int, told: dict[str, Any]) -> None:
        known = {name: str(told.pop(name, "")) for name in ("source", "kind", "node", "interface")}
        at = (ns - self.start) // _US if self.start else 0
        place = ":".join(each for each in (known["node"], known["interface"]) if each)
        match known["source"]:
            case "routing" if known["kind"] in UP:
                self._take_sessions(known, told)
                self._tell_session(at, place, known["kind"], told)
            case "routing" if known["kind"] == "daemon_silent" and self._is_known_silent(ns, known["node"], told):
                pass
            case "routing" | "rdma":
                self._take_sessions(known, told)
                event = RecordedEvent(ns, at / 1e6, **known, data=told)
                self._tell(at, known["source"].capitalize(), f"{place} {event_text(event)}", place)
            case "port":
                self._take_port_event({"ns": ns, **known, **told})
            case "command":
                self._take_command(ns, told)
            case "job":
                self._take_step(ns, place, told)
            case "recorder" if known["kind"] == "news_lost":
                self._take_gap(ns, at, int(told["number"]))

    def _take_gap(self, ns: int, at: int, number: int) -> None:
        """Count dropped news of the kernel, and report them once a second for each node."""
        self._pending["gaps"] = self._pending.get("gaps", 0) + 1
        node = self._nodes[number]
        if ns - self._gaps.get(node, 0) > _NS:
            self._gaps[node] = ns
            self._tell(
                at, "Recorder", f"the kernel dropped news of {node}: changes of its links may be missing", node
            )

    def _is_known_silent(self, ns: int, node: str, told: Mapping[str, Any]) -> bool:
        """Return whether a daemon that does not answer was already reported."""
        key = node, str(told.get("daemon", ""))
        last, self._silent[key] = self._silent.get(key, 0), ns
        return bool(last) and ns - last <= _SILENT

    def _take_sessions(self, known: Mapping[str, str], told: Mapping[str, Any]) -> None:
        """Set the sessions that an event of a router changes."""
        if known["source"] == "routing":
            changed = self._sessions.take(known["kind"], known["node"], known["interface"], told)
            for (node, interface, kind), state in changed.items():
                if kind in UP:
                    self._set(("sessions", f"{node}:{interface} {kind}"), int(state == UP[kind]))

    def _tell_session(self, at: int, place: str, kind: str, told: Mapping[str, Any]) -> None:
        if told.get("before"):
            title = TITLES.get(kind, f"{kind.upper()} session")
            self._tell(at, "Session", f"{place} {title}: {told['before']} to {told['state']}", place)

    def _take_command(self, ns: int, told: Mapping[str, Any]) -> None:
        output = str(told.get("output", ""))
        self._pending.setdefault("commands", []).append(
            {
                "at": (int(told.get("began", ns)) - self.start) // _US,
                "typed": shlex.join(map(str, told["argv"])),
                "output": output[:_OUTPUT],
                "code": told.get("code"),
            }
        )

    def _take_step(self, ns: int, place: str, told: Mapping[str, Any]) -> None:
        """Report a step of a rank at the time when it ended: the job reports it once all ranks have ended it."""
        took = format_time((int(told["compute"]) + int(told["communication"])) / _NS)
        waits = format_time(int(told["communication"]) / _NS)
        step = f"{told['job']}, step {told['step']} of rank {told['rank']} at {place}"
        ended = (int(told.get("ns", ns)) - self.start) // _US
        self._tell(ended, _STEP, f"{step}: {took}, {waits} of it communication", place)

    def _take_queue_pair(self, row: Mapping[str, Any]) -> None:
        nic, qpn = f"{row['node']}:{row['interface']}", int(row["qpn"])
        remote = int(row["remote"]) if int(row["remote"]) >= 0 else None
        told = [nic, qpn, remote, str(row["type"]), str(row["state"]), str(row["program"])]
        if row["state"] == queue_pairs.GONE:
            self._qps.pop((nic, qpn), None)
        else:
            self._qps[nic, qpn] = told
        self._pending.setdefault("qps", []).append(told)

    def _take_limit(self, row: Mapping[str, Any]) -> None:
        """Set the rate limit of a QP; the line rate, its target, once it is not limited any more."""
        path = ("limits", f"{row['node']}:{row['interface']} QP {int(row['qpn']):#x} to {row['peer']}")
        if path not in self._numbers and not self._has_room():
            return
        limited = bool(row["limited"])
        self._set(path, int(row["rate"] if limited else max(row["target"], row["rate"])))
        self._recovered.pop(path[1], None)
        if not limited:
            self._recovered[path[1]] = None

    def _has_room(self) -> bool:
        """Make room for a QP's limit: one that is not limited any more is no longer followed."""
        if sum(path[0] == "limits" for path in self._numbers) < MOST_LIMITED:
            return True
        if not self._recovered:
            return False
        name = next(iter(self._recovered))
        del self._recovered[name]
        number = self._numbers.pop(("limits", name))
        self._values.pop(number, None)
        self._drop(number)
        return True

    def _drop(self, number: int) -> None:
        """Report that a series no longer exists; if no update has reported it so far, none will."""
        fresh, flat = self._pending.get("series", []), self._pending.get("values", [])
        if any(each[0] == number for each in fresh):
            self._pending["series"] = [each for each in fresh if each[0] != number]
            pairs = zip(flat[::2], flat[1::2], strict=True)
            self._pending["values"] = [each for pair in pairs if pair[0] != number for each in pair]
        else:
            self._pending.setdefault("dropped", []).append(number)

    def _tell(self, at: int, word: str, text: str, place: str) -> None:
        events = self._pending.setdefault("events", [])
        steps = sum(each["word"] == _STEP for each in events) if word == _STEP else 0
        if len(events) < _MOST_EVENTS and steps < _MOST_STEPS:
            ports = [place] if ":" in place else []
            events.append({"at": at, "word": word, "text": text, "nodes": _nodes(place), "ports": ports})
        else:
            self._pending["unlisted"] = self._pending.get("unlisted", 0) + 1


def _nodes(place: str) -> list[str]:
    return [] if ":" in place or not place else [place]
