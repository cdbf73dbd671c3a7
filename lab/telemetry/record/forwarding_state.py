"""What the devices of an overlay forward by, now: interfaces, tunnels, whom they flood to, and what BGP runs with.

Of each node its ``interfaces`` (``name``, ``mac``, ``mtu``, ``kind``, ``addresses``; a VLAN's ``vlan``; a tunnel's
``vni``, ``local`` address, ``tos`` and ``vlan``; the ``vlans`` of a bridge's other ports; a member's ``bond``), of a
leaf its ``fdb`` as ``bridge -json`` has it, of a switch ``bgp``: what bgpd runs with, and where it has bonds
``mgmt``: what its interfaces do. It is what an engineer reads from the devices, and nothing of what was meant.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.errors import LabError
from lab.routing.vty import Vty
from lab.telemetry.record.node_state import documents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.backends.backend import Fabric
    from lab.kernel.process.netns import Namespace

_BRIDGE: Final = "fdb show\nvlan show\n"
_BGP: Final = "bgpd"
_OF_INTERFACES: Final = ("mgmtd", "zebra")
"""Who knows what FRR's interfaces are configured with: the first, where it runs (seen in FRR 10.3)."""
_CONFIGURATION: Final = "write terminal"


def forwarding_of(fabric: Fabric) -> dict[str, Any]:
    """By name of each node of a fabric with an overlay, empty of another and of plain VLANs, where nobody runs BGP.

    What does not answer says why instead.
    """
    if fabric.topology.overlay is None or fabric.topology.overlay.plain:
        return {}
    with ThreadPoolExecutor() as readers:
        found = list(readers.map(lambda node: _of_node(fabric, node.name), fabric.topology.nodes))
    return dict(zip(fabric.topology.by_name, found, strict=True))


def _of_node(fabric: Fabric, name: str) -> dict[str, Any]:
    try:
        found = _interfaces(fabric.namespace(name))
        if fabric.topology.node(name).role.is_switch:
            sockets = fabric.router(name).directory
            found["bgp"] = _said(sockets / f"{_BGP}.vty")
            if any(each["kind"] == "bond" for each in found["interfaces"]):
                known = [sockets / f"{daemon}.vty" for daemon in _OF_INTERFACES]
                found["mgmt"] = _said(next(filter(Path.exists, known), known[-1]))
    except LabError as error:
        return {"complaint": str(error)}
    return found


def _said(socket: Path) -> str:
    with Vty(socket) as vty:
        return vty.answer_to(_CONFIGURATION)


def _interfaces(namespace: Namespace) -> dict[str, Any]:
    (shown,) = documents(namespace.run(["ip", "-json", "-details", "address", "show"]).stdout, 1)
    interfaces = [_interface(each) for each in shown]
    if all(each["kind"] != "vxlan" for each in interfaces):
        return {"interfaces": interfaces}
    fdb, vlans = documents(namespace.run(["bridge", "-json", "-batch", "-"], stdin=_BRIDGE).stdout, 2)
    return {"interfaces": [_in_its_vlan(each, vlans) for each in interfaces], "fdb": fdb}


def _interface(shown: Mapping[str, Any]) -> dict[str, Any]:
    """What is of an interface and no timer of the kernel's."""
    link = shown.get("linkinfo", {})
    kind, data = str(link.get("info_kind", "")), link.get("info_data", {})
    addresses = [f"{each['local']}/{each['prefixlen']}" for each in shown.get("addr_info", ()) if "local" in each]
    found: dict[str, Any] = {
        "name": shown["ifname"], "mac": shown.get("address", ""), "mtu": shown.get("mtu", 0), "kind": kind,
        "addresses": addresses,
    }  # fmt: skip
    if kind == "vlan":
        found["vlan"] = data.get("id", 0)
    if kind == "vxlan":
        tos = int(str(data.get("tos", 0)), 0)
        found |= {"vni": data.get("id", 0), "local": data.get("local", ""), "tos": tos}
    if link.get("info_slave_kind") == "bond":
        found["bond"] = shown.get("master", "")
    return found


def _in_its_vlan(interface: dict[str, Any], vlans: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A tunnel with the VLAN of the bridge that it carries, any other port with all of its VLANs."""
    own = [each["vlan"] for entry in vlans if entry["ifname"] == interface["name"] for each in entry.get("vlans", ())]
    if not own or interface["kind"] == "bridge":
        return interface
    return {**interface, "vlan": own[0]} if interface["kind"] == "vxlan" else {**interface, "vlans": own}
