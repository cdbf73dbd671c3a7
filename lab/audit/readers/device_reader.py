"""The emulated ports and RDMA devices of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.audit.objects.audited_object import as_text
from lab.audit.objects.device_objects import GidAudit, PortAudit, RdmaDeviceAudit
from lab.model.qos.qos_store import dump_node
from lab.rdma import rxe, sysfs
from lab.rdma.device_counters import Open

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.backends.backend import Fabric
    from lab.dataplane.port_maps import PortMaps
    from lab.model.qos.port import NodeQos

_GONE: Final = "gone"


def read_ports(fabric: Fabric, node: str, maps: PortMaps | None) -> tuple[PortAudit, ...]:
    """Return the emulated ports of a node; empty if its links are only shaped."""
    if maps is None or node not in fabric.qos:
        return ()
    qos = fabric.qos[node]
    return tuple(
        PortAudit(name, settings, _in_kernel(fabric, node, name, qos, maps))
        for name, settings in settings_of(qos).items()
    )


def settings_of(qos: NodeQos) -> dict[str, dict[str, str]]:
    """Return all settings of each port of a node, and the node's buffer pool, with dotted names."""
    data = dump_node(qos)
    return {
        name: {"pool": str(data["pool"]), **{".".join(path): value for path, value in _leaves(port, ())}}
        for name, port in data["ports"].items()
    }


def _leaves(tree: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list | tuple) else None
    if items is None:
        yield path, "none" if tree is None else as_text(tree)
        return
    for name, value in items:
        yield from _leaves(value, (*path, str(name)))


def _in_kernel(fabric: Fabric, node: str, interface: str, qos: NodeQos, maps: PortMaps) -> bool:
    """Return whether a port's record in the kernel is the one of its configuration."""
    from lab.dataplane.configure import port_record  # noqa: PLC0415 - NumPy, which only fabrics with ports need

    ports = fabric.numbering.nodes[node]
    mac = fabric.plan[node].interfaces[interface].mac
    wanted = port_record(qos.ports[interface], ports, interface, mac)
    return bool(maps.config[ports.port(interface)].tobytes() == wanted.tobytes())


def read_rdma(fabric: Fabric, node: str) -> tuple[tuple[RdmaDeviceAudit, ...], tuple[GidAudit, ...]]:
    """Return the RDMA devices that a node should have, and their GIDs. A missing one has the state ``gone``."""
    if not fabric.topology.node(node).rdma:
        return (), ()
    devices, gids = [], []
    for nic in fabric.plan[node].nics:
        name = rxe.device_name(fabric.name, node, nic)
        if not sysfs.exists(name):
            devices.append(RdmaDeviceAudit(name, nic, _GONE))
            continue
        devices.append(
            RdmaDeviceAudit(
                name=name, interface=sysfs.netdev(name), state=sysfs.state(name), counters=_counters(name)
            )
        )
        gids += [
            GidAudit(device=name, index=each.index, address=str(each.address), type=each.kind, interface=each.netdev)
            for each in sysfs.gids(name)
        ]
    return tuple(devices), tuple(gids)


def _counters(device: str) -> Mapping[str, int]:
    opened = Open([device])
    try:
        return opened.read()[device]
    finally:
        opened.close()
