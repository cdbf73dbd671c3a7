"""Whether a node's QoS can hold: sums that do not come out are faults, what is legal but unwise is advice."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from lab.model.qos.headroom import headroom_needed
from lab.model.qos.port import CLASSES, members
from lab.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.qos.port import NodeQos, PortQos
    from lab.model.yamltext import Path


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and the fields of a profile (``("ecn", "3", "kmin")``) any of which can be to blame."""

    fields: tuple[Path, ...]
    message: str
    remedy: str


def port_faults(port: PortQos) -> Iterator[Fault]:
    """What cannot hold on a port, whatever its node has."""
    for lossless, lossy in _mixed(port, port.priority_to_group):
        group = port.priority_to_group[lossless]
        message = f"priority {lossless} is lossless, priority {lossy} is not, and both are in group {group}"
        yield Fault(_mapped("group", lossy, lossless), message, "map them to different groups")
    for number, queue in enumerate(port.queues):
        kmin, kmax = queue.ecn.kmin, queue.ecn.kmax
        if kmin > kmax:
            message = f"kmin {format_size(kmin)} is above kmax {format_size(kmax)}"
            fields = (("ecn", str(number), "kmin"), ("ecn", str(number), "kmax"))
            yield Fault(fields, message, "choose kmin <= kmax")
    for number, group_qos in enumerate(port.groups):
        if group_qos.xoff is not None and group_qos.xon > group_qos.xoff:
            message = f"xon {format_size(group_qos.xon)} is above xoff {format_size(group_qos.xoff)}"
            yield Fault(_of_group(number, "xon", "xoff"), message, "a pause ends below where it began; lower xon")


def node_faults(node: NodeQos) -> Iterator[Fault]:
    """What cannot hold on a node: its ports' faults, and sums beyond its pool."""
    for port in node.ports.values():
        yield from port_faults(port)
    pool = format_size(node.pool)
    if node.ports and node.shared <= 0:
        committed = format_size(node.pool - node.shared)
        message = f"{pool} of pool is no more than the {committed} that the ports reserve and keep as headroom"
        sizes = (field for number in range(CLASSES) for field in _of_group(number, "headroom", "reserved"))
        remedy = "raise buffer.pool, or lower reserved and headroom"
        yield Fault((("buffer", "pool"), *sizes), message, remedy)
    for port in node.ports.values():
        for number in members(port.lossless_groups):
            group = port.groups[number]
            if group.xoff is not None and group.xoff + group.headroom > node.pool:
                both = f"{format_size(group.xoff)} + {format_size(group.headroom)}"
                message = f"xoff + headroom, {both}, is more than the pool of {pool}"
                fields = (*_of_group(number, "xoff", "headroom"), ("buffer", "pool"))
                yield Fault(fields, message, "raise buffer.pool, or lower xoff and headroom")


def port_advice(node: NodeQos, port: PortQos) -> Iterator[Fault]:
    """What works on a port of ``node`` and hardly does what was meant."""
    yield from _marks_before_pausing(node, port)
    yield from _headroom_suffices(port)
    for lossless, lossy in _mixed(port, port.priority_to_queue):
        queue = port.priority_to_queue[lossless]
        message = f"lossy priority {lossy} shares queue {queue} with lossless priority {lossless}"
        remedy = "map them to different queues: a pause of one stops both"
        yield Fault(_mapped("queue", lossy, lossless), message, remedy)


def _marks_before_pausing(node: NodeQos, port: PortQos) -> Iterator[Fault]:
    """Kmax < XOFF. Marks are made where packets leave, pauses where they came in: at the node's other ports."""
    for priority in members(port.pfc.priorities):
        queue = port.priority_to_queue[priority]
        ecn = port.queues[queue].ecn
        xoff, group = min(_thresholds(node, port, priority), default=(ecn.kmax + 1, 0))
        if not ecn.enabled or ecn.kmax < xoff:
            continue
        name, size, what = (
            ("kmin", ecn.kmin, "nothing is marked before")
            if ecn.kmin >= xoff
            else ("kmax", ecn.kmax, "the curve ends after")
        )
        message = f"{name} {format_size(size)} is not below {format_size(xoff)}, where a lone group {group} pauses"
        remedy = f"lower it or raise XOFF: {what} PFC stops the senders"
        yield Fault((("ecn", str(queue), name), *_of_group(group, "xoff", "alpha")), message, remedy)


def _thresholds(node: NodeQos, exit_port: PortQos, priority: int) -> Iterator[tuple[int, int]]:
    """Where the other ports pause ``priority``, each with its group."""
    for port in node.ports.values():
        if port is not exit_port and port.pfc.tx_priorities >> priority & 1:
            group = port.priority_to_group[priority]
            yield port.groups[group].alone(node.shared), group


def _headroom_suffices(port: PortQos) -> Iterator[Fault]:
    needed = headroom_needed(port.rate, port.mtu, port.delay)
    for number in members(port.lossless_groups):
        headroom = port.groups[number].headroom
        if headroom < needed and port.pfc.tx:
            message = f"headroom {format_size(headroom)} is less than the {format_size(needed)} that can still arrive"
            remedy = "raise it, or expect drops in the lossless class"
            yield Fault(_of_group(number, "headroom"), message, remedy)


def _mixed(port: PortQos, table: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The first lossless and lossy priority that ``table`` maps to the same number, if any do."""
    lossless = members(port.pfc.priorities)
    lossy = [priority for priority in range(CLASSES) if priority not in lossless]
    yield from islice(((one, other) for one in lossless for other in lossy if table[one] == table[other]), 1)


def _of_group(number: int, *names: str) -> tuple[Path, ...]:
    return tuple(("buffer", "groups", str(number), name) for name in names)


def _mapped(table: str, *priorities: int) -> tuple[Path, ...]:
    return (*(("map", table, str(priority)) for priority in priorities), ("pfc", "priorities"))
