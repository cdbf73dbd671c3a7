"""Change the QoS of a running fabric at any of its ports while traffic runs; a change is atomic.

The steps of a change:

1. Compute and check the new configuration of all nodes.
2. Write the names of these nodes to ``changing.json``.
3. Write the configuration to the kernel.
4. Store it beside the topology, for later commands.
5. Remove ``changing.json``.

If step 3 or 4 fails, the stored configuration is written to the kernel again at once. If the command is killed, the
next command does so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.backends import nic_drains
from lab.dataplane import qp_pairs, reconfigure, slot_budget
from lab.dataplane.port_maps import open_maps, qdisc_kind
from lab.errors import EnvironmentLacks, UsageError
from lab.kernel.bpf import probe
from lab.kernel.netlink.interfaces import root_qdiscs
from lab.kernel.process import files, signals
from lab.model.qos.advice import advise_nodes, fold

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lab.backends.backend import Fabric
    from lab.dataplane.port_maps import PortMaps
    from lab.kernel.process.locks import Waiting
    from lab.model.qos.advice import QosAdvice
    from lab.model.qos.port import NodeQos
    from lab.model.qos.port_change import QosRequest
    from lab.model.topology import Endpoint


@dataclass(frozen=True, slots=True)
class QosChangeResult:
    """The names of the nodes that changed, and the advice that applies since the change."""

    nodes: tuple[str, ...]
    advice: tuple[QosAdvice, ...]


def require_ports(fabric: Fabric) -> None:
    """Raise UsageError if the fabric's links are only shaped."""
    if fabric.topology.qos is None:
        raise UsageError(f"fabric {fabric.name} has no lossless ports", how_to_get_ports())


def how_to_get_ports() -> str:
    """Return the remedy for a fabric without lossless ports: in the VM, if this kernel cannot have any."""
    if probe.declares_bpf_qdisc():
        return "write `qos: lab` into its topology, then rocelab down and up"
    return "write `qos: lab` into its topology, then rocelab down, and rocelab --vm up: this kernel has no BPF qdiscs"


def deviations(fabric: Fabric, ends: Collection[Endpoint]) -> dict[Endpoint, list[str]]:
    """Return, for each port, the differences of the kernel from the stored configuration: fields and root qdisc."""
    maps, kind = open_maps(fabric.name), qdisc_kind(fabric.name)
    found: dict[Endpoint, list[str]] = {}
    for name in dict.fromkeys(end.node for end in ends):
        node = fabric.numbering.nodes[name]
        fields = reconfigure.differences(maps, node, fabric.qos[name], fabric.plan[name])
        roots = root_qdiscs(fabric.namespace(name))
        for end in (end for end in ends if end.node == name):
            root = roots.get(end.interface, ("gone", ""))
            attached = root == (kind, f"{node.port(end.interface):x}:")
            found[end] = fields[end.interface] if attached else [f"root qdisc {root[0]}", *fields[end.interface]]
    return {end: found[end] for end in ends}


def change_qos(
    fabric: Fabric, ports: Collection[Endpoint], request: QosRequest, waiting: Waiting | None = None
) -> QosChangeResult:
    """Apply ``request`` to ``ports``, and store the result.

    UsageError or InvalidInput if the request is invalid, OperationFailed if the kernel rejects it; nothing changes
    then. Waits for other commands as ``lifecycle.up`` does; UsageError if the fabric was taken down meanwhile.
    """
    from lab.model.qos.port_change import work_out  # noqa: PLC0415 - its schema, and so pydantic, is for changes only

    require_ports(fabric)
    owner = fabric.state.owner
    with fabric.state.locked(waiting):
        if fabric.state.owner != owner:
            raise UsageError(f"fabric {fabric.name} was taken down", "rocelab ls lists what runs")
        fabric = replace(fabric)  # reload the QoS: another command may have changed it meanwhile
        changed = work_out(fabric.topology, fabric.qos, ports, request)
        _require_queue_pairs(fabric, changed)
        if changed:
            with signals.held():
                apply_nodes(fabric, changed)
    before = {*advise_nodes(fabric.topology, fabric.qos), *slot_advice(fabric, fabric.qos)}
    wanted = {**fabric.qos, **changed}
    after = (*advise_nodes(fabric.topology, wanted), *slot_advice(fabric, wanted))
    return QosChangeResult(tuple(changed), tuple(advice for advice in after if advice not in before))


def _require_queue_pairs(fabric: Fabric, changed: Mapping[str, NodeQos]) -> None:
    """Raise EnvironmentLacks if a NIC is to have congestion control, and the kernel does not show connected QPs."""
    nics = any(port.cc is not None for node in changed.values() for port in node.ports.values())
    if nics and any(host.rdma for host in fabric.topology.hosts) and not qp_pairs.are_learned(fabric.name):
        raise EnvironmentLacks(
            f"congestion control: the QPs of fabric {fabric.name} cannot be learned from rxe in this kernel",
            "use --vm, or rocelab qos set HOST nic.cc.algorithm=off",
        )


def slot_advice(fabric: Fabric, nodes: Mapping[str, NodeQos]) -> tuple[QosAdvice, ...]:
    """Return advice for ports that cannot hold as many packets as ``nodes`` need; empty without emulated ports."""
    if fabric.topology.qos is None:
        return ()
    return fold(slot_budget.advise(open_maps(fabric.name).slots, fabric.numbering, nodes))


def apply_nodes(fabric: Fabric, changed: Mapping[str, NodeQos]) -> None:
    """Write the new configuration of nodes to the kernel and store it, or change nothing.

    The caller holds the fabric's lock, and has checked the configuration.
    """
    maps = open_maps(fabric.name, writable=True)
    _finish(fabric, maps)
    with files.replaced(fabric.state.changing) as fresh:
        fresh.write_text(json.dumps(list(changed)), encoding="utf-8")
    try:
        for name, node in changed.items():
            nic_drains.add(
                fabric, name, nic_drains.wanted(node) - nic_drains.wanted(fabric.qos[name])
            )  # without a rate yet: _write sets it
        _write(fabric, maps, changed)
        fabric.state.save_qos({**fabric.state.load_qos(), **changed})
    except BaseException:
        _finish(fabric, maps)
        raise
    for name, node in changed.items():
        nic_drains.remove(fabric, maps, name, nic_drains.wanted(fabric.qos[name]) - nic_drains.wanted(node))
    fabric.state.changing.unlink()


def mend(fabric: Fabric, waiting: Waiting | None = None) -> bool:
    """Write the stored configuration to the kernel if a change was interrupted; return whether one was.

    Waits for other commands as ``lifecycle.up`` does: one of them may be making that change. Signals are held until
    the end. If the kernel rejects the configuration, the next command tries again.
    """
    if not fabric.state.changing.exists():
        return False
    with fabric.state.locked(waiting), signals.held():
        return fabric.state.changing.exists() and _finish(replace(fabric), open_maps(fabric.name, writable=True))


def _finish(fabric: Fabric, maps: PortMaps) -> bool:
    """Write the stored QoS of the nodes in ``changing.json`` to the kernel; return whether the file exists."""
    try:
        names = json.loads(fabric.state.changing.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    nodes = {name: fabric.qos[name] for name in names}
    stale = {name: nic_drains.stale(fabric, name, node) for name, node in nodes.items()}
    _write(fabric, maps, {name: nic_drains.without(nodes[name]) for name, some in stale.items() if some})
    for name, some in stale.items():
        nic_drains.remove(fabric, maps, name, some)
        nic_drains.add(fabric, name, nic_drains.wanted(nodes[name]) - nic_drains.standing(fabric, name))
    _write(fabric, maps, nodes)
    fabric.state.changing.unlink()
    return True


def put_back(fabric: Fabric, nodes: Mapping[str, NodeQos]) -> None:
    """Restore the earlier configuration ``nodes`` after a change by a process that was perhaps killed.

    That process may have written to the kernel without storing the result. So all ``nodes`` are written, even if
    the stored configuration is equal. The caller holds the fabric's lock.
    """
    apply_nodes(fabric, {name: node for name, node in nodes.items() if node != fabric.qos[name]})
    _write(fabric, open_maps(fabric.name, writable=True), nodes)


def _write(fabric: Fabric, maps: PortMaps, nodes: Mapping[str, NodeQos]) -> None:
    for name, qos in nodes.items():
        reconfigure.rewrite(maps, fabric.numbering.nodes[name], qos, fabric.plan[name])
