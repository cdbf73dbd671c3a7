"""The rows of ``rocelab counters``: a row for each port and priority with traffic or pauses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.fit_columns import Column
from lab.dataplane import counters, reductions
from lab.dataplane.numbering import drain_name, drained_interface
from lab.dataplane.port_layout import Drop
from lab.model.qos.port import CLASSES
from lab.model.topology import Endpoint
from lab.telemetry.read import measures
from lab.units import format_rate, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.dataplane.counters import CounterReading, Movement
    from lab.dataplane.numbering import Numbering
    from lab.dataplane.port_maps import PortMaps
    from lab.model.qos.port import NodeQos

_PEAK: Final = "{}, peak"
"""The head of the column with the current and the peak queue depth."""
COUNTED: Final = (
    Column("port", "port"), Column("peer", "peer", 3), Column("prio", "prio"),
    Column("received", measures.RX_BYTES.title, 7), Column("sent", measures.TX_BYTES.title, 8),
    Column("pauses-sent", "XOFF/XON tx"), Column("obeyed", "XOFF/XON rx"),
    Column("ignored", measures.XOFF_IGNORED.title, 2), Column("paused", measures.PAUSED_SECONDS.title, 4),
    Column("dropped", measures.DROPPED.title, 1), Column("refused", measures.REFUSED.title, 5),
    Column("buffer", _PEAK.format(measures.BUFFER_BYTES.title), 6),
    Column("queue", _PEAK.format(measures.QUEUE_BYTES.title), 9), Column("ce", measures.ECN_MARKED.title, 10),
    Column("not-ect", measures.NOT_ECT.title, 12), Column("cnp", measures.CNP_RX.title, 11),
    *(Column(measure.name, measure.title, 13) for measure in (*measures.ORDER_MEASURES, *measures.NIC_MEASURES)),
)  # fmt: skip
"""Columns of counts; ``drops`` are of the egress queue, ``PG drops`` of the ingress priority group."""
COMPACT: Final = "port,peer,prio,pauses-sent,obeyed,ignored,buffer"
"""The columns of a switch's ``show interface priority-flow-control``."""
MOVING: Final = (
    Column("port", "port"), Column("peer", "peer", 6), Column("prio", "prio"),
    Column("received", "rx load", 3), Column("sent", "tx load", 2),
    Column("pauses-sent", "PFC tx/s"), Column("obeyed", "PFC rx/s"),
    Column("ignored", measures.XOFF_IGNORED_RATE.title, 5), Column("paused", measures.PAUSED.title),
    Column("dropped", measures.DROP_RATE.title, 1), Column("refused", measures.REFUSED_RATE.title, 7),
    Column("buffer", _PEAK.format(measures.BUFFER_BYTES.title), 8),
    Column("queue", _PEAK.format(measures.QUEUE_BYTES.title), 4), Column("ce", measures.MARK_RATE.title, 9),
    Column("cnp", measures.CNP_RX_RATE.title, 10),
)  # fmt: skip
_ACTIVITY: Final = ("rx_packets", "tx_packets", "rx_pause", "rx_resume", "rx_pause_ignored", "tx_pause", "tx_resume")
_LOAD: Final = 2
"""Cells of a port's row ``all``: received and sent load."""


@dataclass(frozen=True, slots=True)
class View:
    """The selection of a table: ports, one priority or all, and whether rows without activity are shown."""

    fabric: str
    ends: tuple[Endpoint, ...]
    numbering: Numbering
    qos: Mapping[str, NodeQos]
    priority: int | None
    everything: bool
    peers: Mapping[Endpoint, Endpoint]

    def read(self, maps: PortMaps) -> dict[str, CounterReading]:
        """Return the counters of each node with a selected port."""
        names = dict.fromkeys(end.node for end in self.ends)
        return {name: counters.read(maps, self.numbering.nodes[name]) for name in names}

    @property
    def priorities(self) -> tuple[int, ...]:
        """The selected priorities."""
        return tuple(range(CLASSES)) if self.priority is None else (self.priority,)


def with_drains(ends: Iterable[Endpoint], qos: Mapping[str, NodeQos]) -> Iterator[Endpoint]:
    """Yield the ports; each drained NIC is followed by its drain, which has its own queue."""
    for end in ends:
        yield end
        if qos[end.node].ports[end.interface].drain is not None:
            yield Endpoint(end.node, drain_name(end.interface))


@dataclass(frozen=True, slots=True)
class _Line:
    """One priority of a port, with its egress queue and its ingress priority group."""

    priority: Any
    queue: Any
    group: Any

    @property
    def idle(self) -> bool:
        still = not any(self.priority[name] for name in _ACTIVITY) and not self.queue["drop_packets"].any()
        return still and not self.group["drop_packets"]


def _line(view: View, end: Endpoint, priority: int, record: Any) -> _Line:
    qos = view.qos[end.node].ports[drained_interface(end.interface)]
    queue, group = qos.priority_to_queue[priority], qos.priority_to_group[priority]
    return _Line(record["priority"][priority], record["queue"][queue], record["group"][group])


def counted(view: View, readings: Mapping[str, CounterReading]) -> list[tuple[str, ...]]:
    """Return the rows of ``COUNTED``: counts since the fabric was built, or since a baseline."""
    rows = []
    for end in view.ends:
        record = readings[end.node].port(end.interface)
        counts = (measures.CNP_RX, *measures.ORDER_MEASURES, *measures.NIC_MEASURES)
        of_port = [_some(record[name], str) for measure in counts for name in measure.counters]
        for number in view.priorities:
            line = _line(view, end, number, record)
            if view.everything or not line.idle:
                rows.append((str(end), _peer(view, end), str(number), *_totals(line), *of_port))
                of_port = [""] * len(of_port)
    return rows


def _peer(view: View, end: Endpoint) -> str:
    return str(view.peers.get(end, ""))


def _totals(line: _Line) -> tuple[str, ...]:
    priority, queue = line.priority, line.queue
    return (
        _some(priority["rx_bytes"], format_size),
        _some(priority["tx_bytes"], format_size),
        _pair(priority["tx_pause"], priority["tx_resume"]),
        _pair(priority["rx_pause"], priority["rx_resume"]),
        _some(priority["rx_pause_ignored"], str),
        _some(priority["paused_ns"] / 1e9, format_time),
        _drops(queue["drop_packets"]),
        _some(line.group["drop_packets"], str),
        _depths(line.group["bytes"], line.group["watermark_bytes"]),
        _depths(queue["depth_bytes"], queue["watermark_bytes"]),
        _some(queue["ecn_marked"], str),
        _some(queue["not_ect"], str),
    )


def moving(
    view: View, readings: Mapping[str, CounterReading], movements: Mapping[str, Movement]
) -> list[tuple[str, ...]]:
    """Return the rows of ``MOVING``: rates between two readings.

    The row ``all`` of a port has the utilization of its link, including PFC frames.
    """
    rows: list[tuple[str, ...]] = []
    for end in view.ends:
        rows += _moving_port(view, end, readings[end.node], movements[end.node])
    return rows


def _moving_port(view: View, end: Endpoint, reading: CounterReading, movement: Movement) -> Iterator[tuple[str, ...]]:
    now, grown = reading.port(end.interface), movement.port(end.interface)
    lines = {number: _line(view, end, number, grown) for number in view.priorities}
    shown = {number: line for number, line in lines.items() if view.everything or not line.idle}
    qos = view.qos[end.node].ports[drained_interface(end.interface)]
    rate = qos.rate if end.interface in view.numbering.nodes[end.node].interfaces else qos.drain or qos.rate
    if shown:
        load = (f"{format_rate(bits)} {bits / rate:.0%}" for bits in counters.offered_load(movement, end.interface))
        cnps = _per_second(grown["rx_cnp"], movement.seconds)
        yield (str(end), _peer(view, end), "all", *load, *[""] * (len(MOVING) - 4 - _LOAD), cnps)
    for number, line in shown.items():
        yield ("", "", str(number), *_rates(line, _line(view, end, number, now), movement.seconds), "")


def _rates(line: _Line, now: _Line, seconds: float) -> tuple[str, ...]:
    priority = line.priority
    received, sent = (
        counters.line_rate(int(priority[f"{way}_packets"]), int(priority[f"{way}_bytes"]), seconds)
        for way in ("rx", "tx")
    )
    return (
        _some(received, format_rate),
        _some(sent, format_rate),
        _per_second(priority["tx_pause"] + priority["tx_resume"], seconds),
        _per_second(priority["rx_pause"] + priority["rx_resume"], seconds),
        _per_second(priority["rx_pause_ignored"], seconds),
        _some(float(measures.PAUSED.of_growth(priority["paused_ns"] / 1e3, seconds)), "{:.0%}".format),
        _per_second(line.queue["drop_packets"].sum(), seconds),
        _per_second(line.group["drop_packets"], seconds),
        _depths(now.group["bytes"], now.group["watermark_bytes"]),
        _depths(now.queue["depth_bytes"], now.queue["watermark_bytes"]),
        _per_second(line.queue["ecn_marked"], seconds),
    )


def _some(value: Any, show: Any) -> str:
    return str(show(value)) if value else ""


def _per_second(count: Any, seconds: float) -> str:
    return _some(float(reductions.per_second(count, seconds)), "{:.4g}".format)


def _pair(pauses: Any, resumes: Any) -> str:
    return f"{pauses}/{resumes}" if pauses or resumes else ""


def _depths(now: Any, most: Any) -> str:
    return f"{format_size(now)}, {format_size(most)}" if most else ""


def _drops(packets: Any) -> str:
    return ", ".join(f"{packets[reason]} {reason.name.lower()}" for reason in Drop if packets[reason])
