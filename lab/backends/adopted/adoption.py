"""Adopt a running containerlab lab; each object is written to the journal before it is created."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lab.backends import containers, lifecycle
from lab.backends.adopted import adopted_facts
from lab.backends.adopted.adopted_facts import AdoptedNode
from lab.backends.adopted.adopted_lab import AdoptedBackend, kept
from lab.backends.backend import Fabric, silent
from lab.backends.fabric_state import FabricState, JournalKind
from lab.backends.netns_backend import make_group
from lab.dataplane import port_maps
from lab.errors import EnvironmentLacks, UsageError
from lab.kernel.process import netns, netns_files, process
from lab.model.hosts import hosts_file
from lab.rdma import rxe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.backends.backend import Progress
    from lab.backends.containers import Container
    from lab.kernel.process.locks import Waiting
    from lab.kernel.process.netns import Namespace
    from lab.model.topology import Topology


def adopt(topology: Topology, lab: str, waiting: Waiting | None = None, progress: Progress = silent) -> Fabric:
    """Return a running lab as a fabric; on any failure, everything that rocelab added is removed again.

    With ``qos``, its links get lossless ports. Hosts with ``rdma`` get an RDMA device on each NIC. Waits as
    ``lifecycle.up`` does. Raises UsageError if its name is in use, there is no such lab, or it belongs to a fabric;
    EnvironmentLacks if containers or interfaces are missing, this machine lacks a feature, or an interface has
    a qdisc or filters that could not be restored.
    """
    if os.geteuid() != 0:
        raise EnvironmentLacks("entering a lab's namespaces needs root", "use sudo, or --vm")
    _check_kernel(topology)
    boxes = containers.of_lab(lab, topology.by_name)
    _check_namespaces(boxes)
    state, backend = FabricState(topology.name), AdoptedBackend()
    with state.locked(waiting):
        if state.exists():
            raise UsageError(f"fabric {state.name} exists", "use another --name, or rocelab down")
        try:
            state.begin(backend.name)
            return _take(state, topology, backend, boxes, progress)
        except BaseException:
            lifecycle.take_away(state, backend)
            raise


def _take(
    state: FabricState,
    topology: Topology,
    backend: AdoptedBackend,
    boxes: Mapping[str, Container],
    progress: Progress,
) -> Fabric:
    namespaces = {node: backend.namespace(state, node) for node in boxes}
    names = {namespaces[node].name: box.pid for node, box in boxes.items()}
    netns.adopt(names, lambda cookies: state.record(JournalKind.NAMESPACE, cookies))
    found = {node: AdoptedNode(box.name, box.pid, _addresses(namespaces[node])) for node, box in boxes.items()}
    adopted_facts.save(kept(state), found)
    topology = adopted_facts.with_their_mtus(topology, found)
    if topology.qos is not None:
        adopted_facts.refuse_others(topology, found)
    state.save_topology(topology)
    fabric = Fabric(state, topology, backend)
    netns_files.write_hosts([namespace.name for namespace in namespaces.values()], hosts_file(fabric.plan))
    make_group(state)
    backend.furnish(fabric, progress)
    state.mark_ready()
    return fabric


def _check_kernel(topology: Topology) -> None:
    if topology.qos is not None:
        port_maps.check()
    if any(host.rdma for host in topology.hosts):
        rxe.check()


def _addresses(namespace: Namespace) -> str:
    return namespace.run([process.find_tool("ip", "iproute2"), "-details", "-json", "address"]).stdout


def _check_namespaces(boxes: Mapping[str, Container]) -> None:
    """Raise UsageError if a node shares its network namespace with the machine or with another node."""
    taken = {netns.place_of("self"): "this machine", netns.place_of(1): "this machine"}
    for node, box in boxes.items():
        place = netns.place_of(box.pid)
        if place in taken:
            message = f"node {node} has no network namespace of its own: it has that of {taken[place]}"
            raise UsageError(message, "take its network-mode out of the lab's file, and deploy it anew")
        taken[place] = node
