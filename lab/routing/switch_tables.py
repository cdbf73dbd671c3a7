"""What the kernel of a leaf knows of MACs, VLANs and tunnels, read once: its forwarding database, and its devices."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed
from lab.kernel import ip, process

if TYPE_CHECKING:
    from lab.kernel.netns import Namespace

_INHERIT: Final = 1
"""TOS of a tunnel that has that of the packet inside (ip-link(8))."""


@dataclass(frozen=True, slots=True)
class Behind:
    """Where a MAC is."""

    device: str
    own: bool = False
    """The switch itself: the frame is routed."""
    vtep: str = ""
    """The other end of the tunnel, when ``device`` is one."""


@dataclass(frozen=True, slots=True)
class TunnelDevice:
    """A VXLAN device."""

    vni: int
    local: str
    tos: int
    """As ip-link(8) has it: 1 is that of the packet inside."""
    ports: tuple[int, int]
    """Range of the UDP source port; 0 and 0 for the namespace's."""

    @property
    def inherits(self) -> bool:
        """Whether the outer header has the DSCP of the inner one."""
        return self.tos == _INHERIT


class SwitchTables:
    """The tables of one switch, as they were when first asked for."""

    def __init__(self, node: str, namespace: Namespace) -> None:
        self._node = node
        self._namespace = namespace

    @cached_property
    def _links(self) -> dict[str, dict[str, Any]]:
        return {link["ifname"]: link for link in ip.ask(self._namespace, "-d", "link", "show")}

    @cached_property
    def _entries(self) -> list[dict[str, Any]]:
        return self._bridge("fdb", "show")

    @cached_property
    def _vlans(self) -> dict[str, list[dict[str, Any]]]:
        return {each["ifname"]: each["vlans"] for each in self._bridge("vlan", "show")}

    def _bridge(self, *words: str) -> list[dict[str, Any]]:
        said = self._namespace.run([process.find_tool("bridge", "iproute2"), "-json", *words]).stdout
        found: list[dict[str, Any]] = json.loads(said or "[]")
        return found

    def behind(self, mac: str, vlan: int) -> Behind | None:
        """Where the bridge sends frames of a VLAN to ``mac``; None when it does not know, and floods them."""
        entries = [entry for entry in self._entries if entry["mac"] == mac]
        entry = next((each for each in entries if each.get("vlan") == vlan and "dst" not in each), None)
        if entry is None:
            return None
        device = str(entry["ifname"])
        if entry.get("state") == "permanent":
            return Behind(device, own=True)
        if self._kind(device) != "vxlan":
            return Behind(device)
        vtep = next((each["dst"] for each in entries if each["ifname"] == device and "dst" in each), "")
        return Behind(device, vtep=vtep) if vtep else None

    def pvid(self, device: str) -> int:
        """The VLAN of frames without a tag; OperationFailed where a port takes none."""
        for each in self._vlans.get(device, ()):
            if "PVID" in each.get("flags", ()):
                return int(each["vlan"])
        raise OperationFailed(f"{self._node}:{device} takes no frames without a tag", "rocelab status --evpn")

    def tag(self, device: str, vlan: int) -> int:
        """The tag that frames of a VLAN leave a port with; 0 for none."""
        of_vlan = [each for each in self._vlans.get(device, ()) if each["vlan"] == vlan]
        return 0 if any("Egress Untagged" in each.get("flags", ()) for each in of_vlan) else vlan

    def vlan_device(self, vlan: int) -> str | None:
        """The bridge's own interface in a VLAN."""
        return next((name for name in self._links if self.vlan_of(name) == vlan), None)

    def vlan_of(self, device: str) -> int:
        """The VLAN that a device is the interface of; 0 for none."""
        return int(self._data(device).get("id", 0)) if self._kind(device) == "vlan" else 0

    def index(self, device: str) -> int:
        """The index of an interface; 0 for none."""
        return int(self._links.get(device, {}).get("ifindex", 0))

    def master(self, device: str) -> str:
        """The bridge or VRF that a device is in; "" for none."""
        return str(self._links.get(device, {}).get("master", ""))

    def tunnel(self, device: str) -> TunnelDevice:
        """What a VXLAN device puts around its packets."""
        data = self._data(device)
        ports = data.get("port_range", {})
        return TunnelDevice(
            vni=int(data["id"]),
            local=str(data.get("local", "")),
            tos=int(str(data.get("tos", 0)), 0),
            ports=(int(ports.get("low", 0)), int(ports.get("high", 0))),
        )

    def tunnel_device(self, vni: int) -> str | None:
        """The VXLAN device that takes packets of a VNI."""
        own = (name for name in self._links if self._kind(name) == "vxlan")
        return next((name for name in own if int(self._data(name)["id"]) == vni), None)

    def _kind(self, device: str) -> str:
        return str(self._links.get(device, {}).get("linkinfo", {}).get("info_kind", ""))

    def _data(self, device: str) -> dict[str, Any]:
        found: dict[str, Any] = self._links.get(device, {}).get("linkinfo", {}).get("info_data", {})
        return found
