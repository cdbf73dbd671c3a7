"""Change the configuration of ports while packets pass them; the order of writes keeps each record consistent.

The programs read a port's record word by word, on other CPUs, for every packet. So each word is written only once.
The order of words that belong together guarantees that Kmin is never above Kmax. It also ensures that no packet is
marked by a partly written curve while marking is turned on or off, and that no QP is slowed down by partly written
registers while congestion control is.
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

_OWN_ORDER: Final = ("queue", "group", "cc")
_ROLES: Final = ("notify", "react")
_CURVE: Final = ("kmin", "pmax")
_SHARED: Final = ("pool_bytes", "drain_rate")
"""The configured fields of a node's record; the others are state."""


def wanted(node: NodePorts, qos: NodeQos, plan: NodePlan) -> dict[int, np.void]:
    """Return the configuration records of a node's ports and drains by id."""
    records = {}
    for interface, port in qos.ports.items():
        records[node.port(interface)] = configure.port_record(port, node, interface, plan.interfaces[interface].mac)
        if node.host:
            records[node.drain(interface)] = configure.drain_record(port, node, interface)
    return records


def rewrite(maps: PortMaps, node: NodePorts, qos: NodeQos, plan: NodePlan) -> None:
    """Write a node's configuration; each field takes effect at once, for packets in transit, too."""
    shared = configure.node_record(qos, node)
    for name in _SHARED:
        maps.nodes[name][node.number] = shared[name]
    for port, record in wanted(node, qos, plan).items():
        write_record(maps.config[port : port + 1], record)


def write_record(place: NDArray[Any], record: np.void) -> None:
    """Overwrite the record of one port in ``place``, an array with one element."""
    for number in range(CLASSES):
        _write_queue(place["queue"][0], number, record["queue"][number])
        _write_group(place["group"][0], number, record["group"][number])
    _write_cc(place["cc"], record["cc"])
    for name in CONFIG.names or ():
        if name not in _OWN_ORDER:
            place[name][0] = record[name]


def _write_queue(queues: NDArray[Any], number: int, fresh: np.void) -> None:
    """Write the fields of one queue in a safe order.

    Kmax 0 turns marking off. So Kmax is written last to turn marking on, and first to turn it off. Otherwise it is
    written first if it rises, and last if it falls, so that Kmin never exceeds it.
    """
    before, after = int(queues["kmax"][number]), int(fresh["kmax"])
    first = after == 0 or (before != 0 and after >= before)
    for name in ("kmax", *_CURVE) if first else (*_CURVE, "kmax"):
        queues[name][number] = fresh[name]
    for name in ("limit", "weight"):
        queues[name][number] = fresh[name]


def _write_group(groups: NDArray[Any], number: int, fresh: np.void) -> None:
    """Write the fields of one group; alpha 0 selects the static threshold.

    Alpha is written last if the static threshold applies afterwards, and first if the dynamic one does.
    """
    names = [name for name in GROUP_CONFIG.names or () if name != "alpha"]
    for name in ("alpha", *names) if fresh["alpha"] else (*names, "alpha"):
        groups[name][number] = fresh[name]


def _write_cc(place: NDArray[Any], fresh: np.void) -> None:
    """Write the registers of a NIC: a role that is turned off first, one that is turned on last."""
    registers = [name for name in place.dtype.names or () if name not in _ROLES]
    off = [name for name in _ROLES if not fresh[name]]
    for name in (*off, *registers, *(name for name in _ROLES if name not in off)):
        place[name][0] = fresh[name]


def differences(maps: PortMaps, node: NodePorts, qos: NodeQos, plan: NodePlan) -> dict[str, list[str]]:
    """Return, for each interface, the fields in which the kernel differs from ``qos``, like ``queue[3].kmin``."""
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
        elif name == "cc":
            yield from (
                f"cc.{field}" for field in found[name].dtype.names if found[name][field] != asked[name][field]
            )
        elif (found[name] != asked[name]).any():
            yield name
