"""Ports that are configured while packets go through them: records written in an order that always makes sense.

The programs read a port's record a word at a time, on another CPU, whenever a packet comes. So each word is written
once, straight to its new value, and where two belong together the one goes first that keeps them in order: a queue
never has kmin above kmax, and is never marked by half a curve while marking is turned on or off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.dataplane import configure
from lab.dataplane.port_layout import CLASSES, CONFIG, GROUP_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from lab.dataplane.numbering import NodePorts
    from lab.dataplane.port_maps import PortMaps
    from lab.model.addressing import NodePlan
    from lab.model.qos.port import NodeQos

_OWN_ORDER: Final = ("queue", "group")
_CURVE: Final = ("kmin", "pmax")
_SHARED: Final = ("pool_bytes", "drain_rate")
"""What of a node's record is configured; the rest is its state."""


def wanted(node: NodePorts, qos: NodeQos, plan: NodePlan) -> dict[int, np.void]:
    """The record of each port, and of each host's NIC's drain, by its id."""
    records = {}
    for interface, port in qos.ports.items():
        records[node.port(interface)] = configure.port_record(port, node, interface, plan.interfaces[interface].mac)
        if node.host:
            records[node.drain(interface)] = configure.drain_record(port, node, interface)
    return records


def rewrite(maps: PortMaps, node: NodePorts, qos: NodeQos, plan: NodePlan) -> None:
    """Configure a node anew; packets that are under way meet the old record or the new one, field by field."""
    shared = configure.node_record(qos, node)
    for name in _SHARED:
        maps.nodes[name][node.number] = shared[name]
    for port, record in wanted(node, qos, plan).items():
        write_record(maps.config[port : port + 1], record)


def write_record(place: NDArray[Any], record: np.void) -> None:
    """Write one port's record over the one in ``place``, an array of one."""
    for number in range(CLASSES):
        _write_queue(place["queue"][0], number, record["queue"][number])
        _write_group(place["group"][0], number, record["group"][number])
    for name in CONFIG.names or ():
        if name not in _OWN_ORDER:
            place[name][0] = record[name]


def _write_queue(queues: NDArray[Any], number: int, fresh: np.void) -> None:
    """Kmax turns marking on and off: last to turn it on, first to turn it off; otherwise it makes room for kmin."""
    before, after = int(queues["kmax"][number]), int(fresh["kmax"])
    first = after == 0 or (before != 0 and after >= before)
    for name in ("kmax", *_CURVE) if first else (*_CURVE, "kmax"):
        queues[name][number] = fresh[name]
    for name in ("limit", "weight"):
        queues[name][number] = fresh[name]


def _write_group(groups: NDArray[Any], number: int, fresh: np.void) -> None:
    """Alpha says which threshold holds: it goes last when the static one takes over, first when it does itself."""
    names = [name for name in GROUP_CONFIG.names or () if name != "alpha"]
    for name in ("alpha", *names) if fresh["alpha"] else (*names, "alpha"):
        groups[name][number] = fresh[name]


def differences(maps: PortMaps, node: NodePorts, qos: NodeQos, plan: NodePlan) -> dict[str, list[str]]:
    """For each interface the fields, like ``queue[3].kmin``, in which the kernel has not got what was asked."""
    records = wanted(node, qos, plan)
    return {
        interface: list(_unlike(maps.config[node.port(interface)], records[node.port(interface)]))
        for interface in qos.ports
    }


def _unlike(found: np.void, asked: np.void) -> Iterator[str]:
    for name in CONFIG.names or ():
        if name in {"queue", "group"}:
            for number in range(CLASSES):
                ours, theirs = found[name][number], asked[name][number]
                yield from (f"{name}[{number}].{field}" for field in ours.dtype.names if ours[field] != theirs[field])
        elif (found[name] != asked[name]).any():
            yield name
