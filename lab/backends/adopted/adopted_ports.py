"""Lossless ports on an adopted lab: the settings that they replace are stored, and restored on ``down``.

The settings are the qdisc of each interface, its queue length, its offloads, the segments of its TCP packets, and the
CPUs that process received packets. The interfaces stay up and keep their addresses, routes, neighbours and sessions.
"""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lab.dataplane.attach import attach
from lab.dataplane.numbering import CLOCK_INTERFACE, drain_name
from lab.errors import EnvironmentLacks
from lab.kernel.netlink import links, rtnl, saved_qdiscs, tc, tc_hooks
from lab.kernel.netlink.interfaces import indices, segment_limits
from lab.kernel.netlink.saved_qdiscs import SavedQdisc
from lab.kernel.process import files, threads, tuning

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lab.backends.backend import Fabric
    from lab.dataplane.numbering import NodePorts
    from lab.dataplane.port_maps import Programs
    from lab.kernel.process.netns import Namespace


@dataclass(frozen=True, slots=True)
class Replaced:
    """The settings of an interface before its port; ``tuning`` reads ``length``, ``features`` and ``cpus``."""

    index: int
    queues: tuple[SavedQdisc, ...]
    length: int = 0
    """txqueuelen in packets; if it is 0, the kernel sets it to 1000 when a qdisc is attached."""
    features: tuple[int, ...] = ()
    cpus: str = ""
    segments: int = 0
    """The maximum number of segments of one TCP packet; 0 where it is unchanged."""
    drain: int = 0
    """The ifindex for the drain of a host's NIC; 0 on switches."""


def look(namespace: Namespace, node: NodePorts) -> dict[str, Replaced]:
    """Return the current settings of the node's interfaces that get ports, and of ``lo``, which gets its clock.

    EnvironmentLacks if an interface has a qdisc or filters that could not be restored.
    """
    return threads.in_thread(lambda: _look_here(namespace, node))


def _look_here(namespace: Namespace, node: NodePorts) -> dict[str, Replaced]:
    tuning.own_mounts()
    namespace.enter()
    features, cpus = tuning.features(node.interfaces), tuning.steering(node.interfaces)
    lengths, segments = tuning.queue_lengths(node.interfaces), segment_limits()
    found = {
        name: Replaced(
            index=index,
            queues=tuple(saved_qdiscs.queues(index)),
            length=lengths[name],
            features=tuple(features[name]),
            cpus=cpus[name],
            segments=segments[name],
            drain=_drain(node, name),
        )
        for name, index in zip(node.interfaces, node.found, strict=True)
    }
    found[CLOCK_INTERFACE] = Replaced(links.LOOPBACK_INDEX, tuple(saved_qdiscs.queues(links.LOOPBACK_INDEX)))
    for name, each in found.items():
        _check(f"{node.node}:{name}", each)
    return found


def _drain(node: NodePorts, interface: str) -> int:
    return node.index(node.drain(interface)) if node.host else 0


def _check(port: str, found: Replaced) -> None:
    for queue in found.queues:
        if queue.kind not in saved_qdiscs.KEPT | {saved_qdiscs.DEFAULT}:
            remedy = "take it away with tc, or adopt the lab without --qos"
            raise EnvironmentLacks(f"{port} has a qdisc {queue.kind}, which could not be put back", remedy)
    if tc_hooks.has_hooks(found.index):
        raise EnvironmentLacks(f"{port} has filters of its own (clsact)", "take them away, or adopt without --qos")


def save(file: Path, nodes: Mapping[str, Mapping[str, Replaced]]) -> None:
    """Write the settings of all nodes; the file is replaced atomically."""
    kept = {node: {name: asdict(each) for name, each in found.items()} for node, found in nodes.items()}
    with files.replaced(file) as fresh:
        fresh.write_text(json.dumps(kept), encoding="utf-8")


def load(file: Path) -> dict[str, dict[str, Replaced]]:
    """Return the settings that ``save`` stored, by node and interface."""
    kept = json.loads(file.read_text(encoding="utf-8"))
    return {node: {name: _restored(**each) for name, each in found.items()} for node, found in kept.items()}


def _restored(queues: list[dict[str, Any]], features: list[int], **rest: Any) -> Replaced:
    return Replaced(queues=tuple(SavedQdisc(**each) for each in queues), features=tuple(features), **rest)


def put_on(fabric: Fabric, programs: Programs, kept: Mapping[str, Mapping[str, Replaced]]) -> None:
    """Attach ports in place of the stored settings ``kept``, while the interfaces are up."""
    cpus = itertools.cycle(sorted(os.sched_getaffinity(0)))

    def put() -> None:
        tuning.own_mounts()
        for name, node in fabric.numbering.nodes.items():
            fabric.namespace(name).enter()
            tuning.disable_offloads(node.interfaces)
            tuning.steer_receive(dict(zip(node.interfaces, cpus, strict=False)))
            batch = rtnl.NetlinkBatch()
            for each in kept[name].values():
                if each.segments:
                    links.limit_segments(batch, each.index, links.ONE_SEGMENT)
                if any(queue.kind != saved_qdiscs.DEFAULT for queue in each.queues):
                    tc.delete_root(batch, each.index)
            attach(batch, node, fabric.qos[name], programs)
            batch.commit()

    threads.in_thread(put)


def take_off(namespace: Namespace, kind: str, kept: Mapping[str, Replaced]) -> None:
    """Restore the settings that a node's interfaces had before ports of qdisc ``kind``.

    Partly attached ports are removed, too. Interfaces that are gone, and qdiscs that others have attached since, are
    left alone.
    """

    def take() -> None:
        tuning.own_mounts()
        namespace.enter()
        batch = rtnl.NetlinkBatch()
        there = {name: each for name, each in kept.items() if indices_here.get(name) == each.index}
        for each in there.values():
            _give_back(batch, each, kind)
            if each.segments:
                links.limit_segments(batch, each.index, each.segments)
        for name, each in there.items():
            if each.drain and indices_here.get(drain_name(name)) == each.drain:
                links.delete(batch, each.drain, drain_name(name))
        batch.commit()
        nics = {name: each for name, each in there.items() if each.features}
        tuning.set_queue_lengths({name: each.length for name, each in nics.items()})
        tuning.set_features({name: each.features for name, each in nics.items()})
        tuning.set_steering({name: each.cpus for name, each in nics.items()})

    indices_here = {CLOCK_INTERFACE: links.LOOPBACK_INDEX, **indices(namespace)}
    threads.in_thread(take)


def _give_back(batch: rtnl.NetlinkBatch, kept: Replaced, kind: str) -> None:
    """Add the requests that restore an interface's qdisc and remove its hooks.

    The qdisc is restored only if the interface has rocelab's or the default one.
    """
    now = tuple(saved_qdiscs.queues(kept.index))
    ours = any(queue.kind == kind for queue in now)
    if ours:
        tc.delete_root(batch, kept.index)
    if ours or all(queue.kind == saved_qdiscs.DEFAULT for queue in now):
        saved_qdiscs.put_back(batch, kept.index, kept.queues)
    if tc_hooks.has_hooks(kept.index):
        tc.delete_clsact(batch, kept.index)
