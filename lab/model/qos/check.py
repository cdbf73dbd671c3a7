"""Check a node's QoS: sizes that do not fit together are faults; valid but unwise settings are warnings."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain, islice
from typing import TYPE_CHECKING

from lab.model.qos.congestion.cc_check import cc_faults
from lab.model.qos.headroom import headroom_needed, roce_frame
from lab.model.qos.port import CLASSES, MAX_SIZE, members
from lab.units import format_rate, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.qos.port import NodeQos, PortQos
    from lab.model.values.yamltext import Path


@dataclass(frozen=True, slots=True)
class QosFault:
    """An error, and the fields of a profile (``("ecn", "3", "kmin")``) that may cause it."""

    fields: tuple[Path, ...]
    message: str
    remedy: str


def port_faults(port: PortQos) -> Iterator[QosFault]:
    """Yield the faults of a port, independent of its node."""
    for lossless, lossy in _mixed(port, port.priority_to_group):
        group = port.priority_to_group[lossless]
        message = f"priority {lossless} is lossless, priority {lossy} is not, and both are in group {group}"
        yield QosFault(_mapped("group", lossy, lossless), message, "map them to different groups")
    for number, queue in enumerate(port.queues):
        kmin, kmax = queue.ecn.kmin, queue.ecn.kmax
        if kmin > kmax:
            message = f"kmin {format_size(kmin)} is above kmax {format_size(kmax)}"
            fields = (("ecn", str(number), "kmin"), ("ecn", str(number), "kmax"))
            yield QosFault(fields, message, "choose kmin <= kmax")
    for number, group_qos in enumerate(port.groups):
        if group_qos.xoff is not None and group_qos.xon > group_qos.xoff:
            message = f"xon {format_size(group_qos.xon)} is above xoff {format_size(group_qos.xoff)}"
            yield QosFault(_of_group(number, "xon", "xoff"), message, "a pause ends below where it began; lower xon")
    yield from _sizes_fit(port)
    for fault in cc_faults(port, roce_frame(port.mtu)):
        causes: tuple[Path, ...] = (*(("nic", "cc", name) for name in fault.registers), *fault.others)
        yield QosFault(causes, fault.message, fault.remedy)


def _sizes_fit(port: PortQos) -> Iterator[QosFault]:
    """Yield sizes beyond 32 bits: a time of up to 10 s may need more at the link's rate."""
    link = f"at {format_rate(port.rate)}" + (f" with a delay of {format_time(port.delay)}" if port.delay else "")
    remedy = f"choose a smaller one, up to {format_size(MAX_SIZE)}, or lower the link's rate or delay"
    for field, size in _sizes(port):
        if size > MAX_SIZE:
            name = "limit" if field[1] == "queues" else field[-1]
            message = f"{name} of {format_size(size)}, {link}, is more than a port can have"
            yield QosFault((field,), message, remedy)


def _sizes(port: PortQos) -> Iterator[tuple[Path, int]]:
    """Yield every size of a port with the field of a profile that sets it."""
    for number, queue in enumerate(port.queues):
        yield ("buffer", "queues", str(number)), queue.limit
        for name in ("kmin", "kmax"):
            yield ("ecn", str(number), name), getattr(queue.ecn, name)
    for number, group in enumerate(port.groups):
        for name in ("reserved", "xoff", "xon", "headroom"):
            yield ("buffer", "groups", str(number), name), getattr(group, name) or 0


def node_faults(node: NodeQos) -> Iterator[QosFault]:
    """Yield the faults of a node: those of its ports, and sums beyond its pool."""
    for port in node.ports.values():
        yield from port_faults(port)
    pool = format_size(node.pool)
    if node.ports and node.shared <= 0:
        committed = format_size(node.pool - node.shared)
        message = f"a pool of {pool} is used up by the {committed} that the ports reserve and keep as headroom"
        sizes = (field for number in range(CLASSES) for field in _of_group(number, "headroom", "reserved"))
        remedy = "raise buffer.pool, or lower reserved and headroom"
        yield QosFault((("buffer", "pool"), *sizes), message, remedy)
    for port in node.ports.values():
        for number in members(port.lossless_groups):
            group = port.groups[number]
            if group.xoff is not None and group.xoff + group.headroom > node.pool:
                both = f"{format_size(group.xoff)} + {format_size(group.headroom)}"
                message = f"xoff + headroom, {both}, is more than the pool of {pool}"
                fields = (*_of_group(number, "xoff", "headroom"), ("buffer", "pool"))
                yield QosFault(fields, message, "raise buffer.pool, or lower xoff and headroom")


def advice(node: NodeQos) -> Iterator[tuple[str, QosFault]]:
    """Yield interface and warning for settings that work, but hardly as intended."""
    thresholds = _thresholds(node)
    for interface, port in node.ports.items():
        for fault in chain(
            _marks_before_pausing(interface, port, thresholds), _headroom_suffices(port), _queues_are_of_a_kind(port)
        ):
            yield interface, fault


def _thresholds(node: NodeQos) -> dict[int, list[tuple[int, str, int]]]:
    """Return the two lowest pause thresholds of each priority, with port and group."""
    found: dict[int, list[tuple[int, str, int]]] = {priority: [] for priority in range(CLASSES)}
    for interface, port in node.ports.items():
        for priority in members(port.pfc.tx_priorities):
            group = port.priority_to_group[priority]
            found[priority].append((port.groups[group].alone(node.shared), interface, group))
    return {priority: nsmallest(2, thresholds) for priority, thresholds in found.items()}


def _marks_before_pausing(
    interface: str, port: PortQos, thresholds: dict[int, list[tuple[int, str, int]]]
) -> Iterator[QosFault]:
    """Check Kmax < XOFF. A packet is marked at its egress port, and paused for at its ingress port, another one."""
    for priority in members(port.pfc.priorities):
        queue = port.priority_to_queue[priority]
        ecn = port.queues[queue].ecn
        xoffs = [(xoff, group) for xoff, entry, group in thresholds[priority] if entry != interface]
        xoff, group = min(xoffs, default=(ecn.kmax + 1, 0))
        if not ecn.enabled or ecn.kmax < xoff:
            continue
        late = ecn.kmin >= xoff
        name, size = ("kmin", ecn.kmin) if late else ("kmax", ecn.kmax)
        message = f"{name} {format_size(size)} is not below {format_size(xoff)}, where a lone group {group} pauses"
        what = "nothing is marked before" if late else "the curve ends after"
        remedy = f"lower it or raise XOFF: {what} PFC stops the senders"
        yield QosFault((("ecn", str(queue), name), *_of_group(group, "xoff", "alpha")), message, remedy)


def _queues_are_of_a_kind(port: PortQos) -> Iterator[QosFault]:
    for lossless, lossy in _mixed(port, port.priority_to_queue):
        queue = port.priority_to_queue[lossless]
        message = f"lossy priority {lossy} shares queue {queue} with lossless priority {lossless}"
        remedy = "map them to different queues: a pause of one stops both"
        yield QosFault(_mapped("queue", lossy, lossless), message, remedy)


def _headroom_suffices(port: PortQos) -> Iterator[QosFault]:
    needed = headroom_needed(port.rate, port.mtu, port.delay, port.reaction)
    for number in members(port.lossless_groups):
        headroom = port.groups[number].headroom
        if headroom < needed and port.pfc.tx:
            message = f"headroom {format_size(headroom)} is less than the {format_size(needed)} that can still arrive"
            remedy = "raise it, or expect drops in the lossless class"
            yield QosFault(_of_group(number, "headroom"), message, remedy)


def _mixed(port: PortQos, table: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield the first lossless and lossy priority that ``table`` maps to the same number, if any."""
    lossless = members(port.pfc.priorities)
    lossy = [priority for priority in range(CLASSES) if priority not in lossless]
    yield from islice(((one, other) for one in lossless for other in lossy if table[one] == table[other]), 1)


def _of_group(number: int, *names: str) -> tuple[Path, ...]:
    return tuple(("buffer", "groups", str(number), name) for name in names)


def _mapped(table: str, *priorities: int) -> tuple[Path, ...]:
    return (*(("map", table, str(priority)) for priority in priorities), ("pfc", "priorities"))
