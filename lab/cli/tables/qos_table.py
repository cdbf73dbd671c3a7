"""The tables of ``rocelab qos show``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lab.cli.kit.fit_columns import Column, TableLayout
from lab.cli.kit.output import table
from lab.model.qos.congestion.cc_registers import CcAlgorithm
from lab.model.qos.congestion.cc_summary import register_texts, scale_text
from lab.model.qos.port import CLASSES, members
from lab.model.values.suggest import runs
from lab.units import format_rate, format_size, format_time, quanta_to_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.table import Table

    from lab.model.qos.congestion.cc_registers import CcQos
    from lab.model.qos.port import EcnQos, GroupQos, NodeQos, PfcQos, PortQos, QueueQos
    from lab.model.topology import Endpoint

_SUMMARY: Final = (
    Column("port", "port"), Column("rate", "rate", 2), Column("lossless", "lossless", 1), Column("pfc", "PFC", 3),
    Column("ecn", "ECN marks", 1), Column("xoff", "pauses above", 1), Column("xon", "resumes at", 4),
    Column("headroom", "headroom", 4), Column("watchdog", "watchdog", 5), Column("drain", "drained at", 3),
    Column("cc", "congestion control", 3),
    Column("kernel", "in the kernel", 1),
)  # fmt: skip

_SHOWN: Final = 1
"""Fields that a cell of the summary names."""


def summary(
    fabric: str, nodes: Mapping[str, NodeQos], unlike: Mapping[Endpoint, Sequence[str]], width: int
) -> tuple[Table, list[str]]:
    """Return a row for each port, in ``width`` characters, and the heads of the columns that did not fit.

    Only the groups and queues of lossless priorities are shown.
    """
    rows = []
    for end, fields in unlike.items():
        node = nodes[end.node]
        port = node.ports[end.interface]
        groups = [port.groups[number] for number in members(port.lossless_groups)]
        marks = [_ecn(port.queues[number].ecn) for number in members(port.lossless_queues)]
        rows.append((
            end, format_rate(port.rate), _numbers(members(port.pfc.priorities)), _directions(port.pfc),
            _each(marks), _each(_threshold(group, node) for group in groups),
            _each(format_size(group.xon) for group in groups),
            _each(format_size(group.headroom) for group in groups),
            _watchdog(port.pfc), "" if port.drain is None else format_rate(port.drain),
            "" if port.cc is None else f"{port.cc.algorithm}, s = {float(port.cc.scale):.6g}", _some(fields),
        ))  # fmt: skip
    always = {"kernel"} if any(unlike.values()) else set()
    columns = [replace(column, rank=0) if column.key in always else column for column in _SUMMARY]
    drawn, left_out = TableLayout(columns).draw(f"lossless ports of {fabric} (emulated)", rows, width)
    return drawn, [column.head for column in columns if column.key in left_out]


def port_tables(end: Endpoint, node: NodeQos, port: PortQos, unlike: Sequence[str], *, host: bool) -> Iterator[Table]:
    """Return all settings of one port of a ``host`` or a switch."""
    pause = format_time(quanta_to_seconds(port.pfc.quanta, port.rate))
    yield table(f"{end} (emulated)", ("setting", "value"), [
        ("link", f"{format_rate(port.rate)}, MTU {port.mtu}, delay {format_time(port.delay)}"),
        ("node's buffer", f"{format_size(node.pool)}, {format_size(node.shared)} shared by the ports"),
        ("headroom allows", f"{format_time(port.reaction)} until a pause is obeyed"),
        ("trust", port.trust.value),
        ("PFC", f"priorities {_numbers(members(port.pfc.priorities))}, {_directions(port.pfc)}"),
        ("pause", f"{port.pfc.quanta} quanta, {pause}"),
        ("watchdog", _watchdog(port.pfc)),
        *([("host takes packets in", _drained(port)), ("congestion control", _cc(port.cc))] if host else []),
        ("in the kernel", _kernel(unlike)),
    ])  # fmt: skip
    yield table("priorities", ("priority", "DSCP", "PCP", "queue", "group", "loss"), _priorities(port))
    yield table("queues", ("queue", "scheduling", "limit", "ECN"), _queues(port))
    yield table("priority groups", ("group", "loss", "reserved", "XOFF", "XON", "headroom"), _groups(node, port))
    if port.cc is not None:
        title = f"congestion control: {scale_text(port.cc)}"
        heads = ("register", f"at {format_rate(port.cc.real_rate)}", "here", "note")
        yield table(title, heads, list(register_texts(port.cc)))


def _cc(cc: CcQos | None) -> str:
    if cc is None:
        return "off"
    obeys = "CNPs" if cc.algorithm is CcAlgorithm.DCQCN else "RTTs"
    both = "sends and obeys CNPs" if obeys == "CNPs" else f"sends CNPs, obeys {obeys}"
    does = {(True, True): both, (True, False): "sends CNPs only", (False, True): f"obeys {obeys} only"}
    scope = f"; minimum time between CNPs per {cc.moderation}" if cc.np else ""
    return f"{cc.algorithm}, {does.get((cc.np, cc.rp), 'disabled')}{scope}"


def _drained(port: PortQos) -> str:
    return "as fast as they come" if port.drain is None else f"at {format_rate(port.drain)}"


def _priorities(port: PortQos) -> Iterator[tuple[object, ...]]:
    lossless = members(port.pfc.priorities)
    for number in range(CLASSES):
        dscp = ranges(key for key, priority in enumerate(port.dscp_to_priority) if priority == number)
        pcp = ranges(key for key, priority in enumerate(port.pcp_to_priority) if priority == number)
        queue, group = port.priority_to_queue[number], port.priority_to_group[number]
        yield number, dscp, pcp, queue, group, "lossless" if number in lossless else "lossy"


def _queues(port: PortQos) -> Iterator[tuple[object, ...]]:
    for number, queue in enumerate(port.queues):
        yield number, _scheduling(queue), format_size(queue.limit), _ecn(queue.ecn)


def _groups(node: NodeQos, port: PortQos) -> Iterator[tuple[object, ...]]:
    for number, group in enumerate(port.groups):
        lossless = number in members(port.lossless_groups)
        room = (format_size(group.xon), format_size(group.headroom)) if lossless else ("", "")
        loss = "lossless" if lossless else "lossy"
        yield number, loss, format_size(group.reserved), _threshold(group, node), *room


def ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers with runs shortened, for example ``0-25,27``."""
    return ",".join("-".join(map(str, run)) for run in runs(numbers))


def _threshold(group: GroupQos, node: NodeQos) -> str:
    if group.alpha is None:
        return format_size(group.xoff or 0)
    return f"alpha {group.alpha}, {format_size(group.alone(node.shared))} alone"


def _ecn(ecn: EcnQos) -> str:
    if not ecn.enabled:
        return "off"
    return f"from {format_size(ecn.kmin)} to {format_size(ecn.kmax)}: up to {100 * ecn.pmax:.3g}%"


def _scheduling(queue: QueueQos) -> str:
    return "strict" if queue.strict else f"DWRR {queue.weight}"


def _directions(pfc: PfcQos) -> str:
    does = {(True, True): "pauses, obeys", (True, False): "pauses only", (False, True): "obeys only"}
    return does.get((pfc.tx, pfc.rx), "off")


def _watchdog(pfc: PfcQos) -> str:
    dog = pfc.watchdog
    if not dog.enabled:
        return "off"
    return f"{dog.action.value} after {format_time(dog.detection)}, until {format_time(dog.restoration)} without"


def _some(unlike: Sequence[str]) -> str:
    """Return the text of ``_kernel``, shortened for a cell."""
    more = len(unlike) - _SHOWN
    return f"differs: {', '.join(unlike[:_SHOWN])} and {more} more" if more > 0 else _kernel(unlike)


def _kernel(unlike: Sequence[str]) -> str:
    return f"differs: {', '.join(unlike)}" if unlike else "as here"


def _numbers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers)) or "none"


def _each(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(texts))
