"""The current forwarding state of an overlay's devices: interfaces, tunnels, flood lists, BGP configuration.

A node has ``interfaces``, each with ``name``, ``mac``, ``mtu``, ``kind`` and ``addresses``, and depending on its
kind:

* a VLAN interface: ``vlan``
* a tunnel: ``vni``, ``local`` address, ``tos`` and ``vlan``
* another port of a bridge: ``vlans``
* a member of a bond: ``bond``

A leaf has an ``fdb`` in the format of ``bridge -json``. A switch has ``bgp``, the running configuration of bgpd, and
with bonds ``mgmt``, the configuration of its interfaces. A switch with tunnels has ``duplicates``, the number of MAC
addresses that zebra flags as duplicates, by VNI, and with bonds ``segments``, its Ethernet segments. This is what the
devices show, not what was configured.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.errors import LabError
from lab.kernel.netlink.ip_state import documents
from lab.routing.frr_secrets import running_configuration
from lab.routing.vty import Vty
from lab.telemetry.metrics.routing_metrics import DUPLICATES, SEGMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.backends.backend import Fabric
    from lab.kernel.process.netns import Namespace

_BRIDGE: Final = "fdb show\nvlan show\n"
_BGP: Final = "bgpd"
_OF_INTERFACES: Final = ("mgmtd", "zebra")
"""The daemons that know FRR's interface configuration: the first one, if it runs (seen in FRR 10.3)."""

_PATIENCE: Final = 2.0
"""Seconds for an answer of zebra."""


def forwarding_of(fabric: Fabric) -> dict[str, Any]:
    """Return the forwarding state by node; empty without an overlay, and for plain VLANs, which run no BGP.

    A node that does not answer has the error as ``complaint``.
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
            sockets, key = fabric.router(name).directory, fabric.state.digest_key
            found["bgp"] = _said(sockets / f"{_BGP}.vty", key)
            if any(each["kind"] == "bond" for each in found["interfaces"]):
                known = [sockets / f"{daemon}.vty" for daemon in _OF_INTERFACES]
                found["mgmt"] = _said(next(filter(Path.exists, known), known[-1]), key)
            if "fdb" in found:
                found |= _said_by_zebra(sockets / "zebra.vty", has_bonds="mgmt" in found)
    except LabError as error:
        return {"complaint": str(error)}
    return found


def _said(socket: Path, key: bytes) -> str:
    with Vty(socket) as vty:
        return running_configuration(vty, key)


def _said_by_zebra(socket: Path, *, has_bonds: bool) -> dict[str, Any]:
    """Return duplicate addresses and Ethernet segments, without timers and numbers that only this zebra knows.

    If zebra does not answer, or another version answers in another form, the rest of the state is kept.
    """
    found: dict[str, Any] = {}
    with suppress(LabError, ValueError, LookupError, TypeError, AttributeError), Vty(socket) as vty:
        duplicates = json.loads(vty.answer_to(DUPLICATES, _PATIENCE).strip() or "{}")
        found["duplicates"] = {vni: {"numMacs": about["numMacs"]} for vni, about in duplicates.items()}
        if has_bonds:
            found["segments"] = [
                {
                    "esi": each["esi"],
                    "accessPort": each.get("accessPort", ""),
                    "vteps": [vtep["vtep"] for vtep in each.get("vteps", ())],
                }
                for each in json.loads(vty.answer_to(SEGMENTS, _PATIENCE).strip() or "[]")
            ]
    return found


def _interfaces(namespace: Namespace) -> dict[str, Any]:
    (shown,) = documents(namespace.run(["ip", "-json", "-details", "address", "show"]).stdout, 1)
    interfaces = [_interface(each) for each in shown]
    if all(each["kind"] != "vxlan" for each in interfaces):
        return {"interfaces": interfaces}
    fdb, vlans = documents(namespace.run(["bridge", "-json", "-batch", "-"], stdin=_BRIDGE).stdout, 2)
    return {"interfaces": [_in_its_vlan(each, vlans) for each in interfaces], "fdb": fdb}


def _interface(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of an interface, without the kernel's timers."""
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
    """Add the bridge's VLANs: for a tunnel the one that it carries, for other ports all."""
    own = [each["vlan"] for entry in vlans if entry["ifname"] == interface["name"] for each in entry.get("vlans", ())]
    if not own or interface["kind"] == "bridge":
        return interface
    return {**interface, "vlan": own[0]} if interface["kind"] == "vxlan" else {**interface, "vlans": own}
