"""The MAC, VLAN, tunnel and next-hop tables of a node's kernel, each read once. Also used for hosts with bonds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed
from lab.kernel.netlink import bonding, ip_state
from lab.kernel.process import process

if TYPE_CHECKING:
    from lab.kernel.process.netns import Namespace

_INHERIT: Final = 1
"""The TOS of a tunnel that inherits the inner packet's TOS (ip-link(8))."""


@dataclass(frozen=True, slots=True)
class Behind:
    """The location of a MAC in the forwarding database."""

    device: str
    own: bool = False
    """Whether the MAC is the switch's own, so that it routes the frame."""
    vtep: str = ""
    """The remote VTEP, if ``device`` is a tunnel."""
    group: int = 0
    """The nexthop group of the segment, instead of a VTEP; 0 for none."""
    instead_of: str = ""
    """The port without carrier that ``device`` replaces as its backup."""


@dataclass(frozen=True, slots=True)
class NextHop:
    """One VTEP of a segment."""

    vtep: str
    weight: int


@dataclass(frozen=True, slots=True)
class TunnelDevice:
    """A VXLAN device."""

    vni: int
    local: str
    tos: int
    """As in ip-link(8): 1 inherits the inner packet's TOS."""
    ports: tuple[int, int]
    """The range of the UDP source port; 0 and 0 for the namespace's range."""

    @property
    def inherits(self) -> bool:
        """Whether the outer header has the DSCP of the inner one."""
        return self.tos == _INHERIT


class SwitchTables:
    """The tables of one switch, each read on first access."""

    def __init__(self, node: str, namespace: Namespace) -> None:
        self._node = node
        self._namespace = namespace

    @cached_property
    def _links(self) -> dict[str, dict[str, Any]]:
        return {link["ifname"]: link for link in ip_state.ask(self._namespace, "-d", "link", "show")}

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
        """Return the location of ``mac`` in a VLAN; None if the bridge has no entry and floods."""
        entries = [entry for entry in self._entries if entry["mac"] == mac]
        entry = next((each for each in entries if each.get("vlan") == vlan and "dst" not in each), None)
        if entry is None:
            return None
        device = str(entry["ifname"])
        if entry.get("state") == "permanent":
            return Behind(device, own=True)
        if self._kind(device) != "vxlan":
            return Behind(device) if self._has_carrier(device) else self._backup(device)
        mine = [each for each in entries if each["ifname"] == device and ("dst" in each or "nhid" in each)]
        found = (Behind(device, vtep=each.get("dst", ""), group=int(each.get("nhid", 0))) for each in mine)
        return next(found, None)

    def _has_carrier(self, device: str) -> bool:
        return "LOWER_UP" in self._links.get(device, {}).get("flags", ())

    def _backup(self, device: str) -> Behind:
        """Return the destination of frames for a port without carrier: its backup, if it has one (bridge(8))."""
        port = self._as_member(device)
        if "backup_nhid" not in port:
            return Behind(device)
        return Behind(str(port["backup_port"]), group=int(port["backup_nhid"]), instead_of=device)

    def next_hops(self, group: int) -> list[NextHop]:
        """Return the VTEPs of a nexthop group, in the kernel's order; an ungrouped next hop is returned alone."""
        members = self._next_hops.get(group, {}).get("group", [{"id": group}])
        hops = ((self._next_hops.get(each["id"], {}), int(each.get("weight", 1))) for each in members)
        return [NextHop(str(hop["gateway"]), weight) for hop, weight in hops if "gateway" in hop]

    @cached_property
    def _next_hops(self) -> dict[int, dict[str, Any]]:
        return {hop["id"]: hop for hop in ip_state.ask(self._namespace, "nexthop", "show")}

    def port_of(self, interface: str) -> str:
        """Return the bridge port of an interface: the bond that it is a member of, or itself."""
        master = self.master(interface)
        return master if self._kind(master) == "bond" else interface

    def legs(self, bond: str) -> list[str]:
        """Return the members that a bond sends on, in its driver's order."""
        aggregator = self._data(bond).get("ad_info", {}).get("aggregator")
        members = self._namespace.inside(lambda: bonding.members(bond))
        return [name for name in members if self._sends(name, aggregator)]

    def _sends(self, member: str, aggregator: int | None) -> bool:
        """Return whether the bond sends on a member: its link is up, and LACP uses it in the active aggregator."""
        about = self._as_member(member)
        is_used = about.get("state") == "ACTIVE" and about.get("mii_status") == "UP"
        return is_used and bool(about.get("ad_aggregator_id") == aggregator)

    def policy(self, bond: str) -> str:
        """Return the hash policy of a bond, as named in ip-link(8)."""
        return str(self._data(bond).get("xmit_hash_policy", ""))

    def pvid(self, device: str) -> int:
        """Return the VLAN of untagged frames; raise OperationFailed if a port accepts none."""
        for each in self._vlans.get(device, ()):
            if "PVID" in each.get("flags", ()):
                return int(each["vlan"])
        raise OperationFailed(f"{self._node}:{device} takes no frames without a tag", "rocelab status --evpn")

    def tag(self, device: str, vlan: int) -> int:
        """Return the tag of frames of a VLAN on egress; 0 for untagged."""
        of_vlan = [each for each in self._vlans.get(device, ()) if each["vlan"] == vlan]
        return 0 if any("Egress Untagged" in each.get("flags", ()) for each in of_vlan) else vlan

    def vlan_device(self, vlan: int) -> str | None:
        """Return the bridge's own interface in a VLAN."""
        return next((name for name in self._links if self.vlan_of(name) == vlan), None)

    def vlan_of(self, device: str) -> int:
        """Return the VLAN of a VLAN interface; 0 for other devices."""
        return int(self._data(device).get("id", 0)) if self._kind(device) == "vlan" else 0

    def index(self, device: str) -> int:
        """Return the index of an interface; 0 if it does not exist."""
        return int(self._links.get(device, {}).get("ifindex", 0))

    def master(self, device: str) -> str:
        """Return the bridge, bond or VRF of a device; "" for none."""
        return str(self._links.get(device, {}).get("master", ""))

    def tunnel(self, device: str) -> TunnelDevice:
        """Return the encapsulation settings of a VXLAN device."""
        data = self._data(device)
        ports = data.get("port_range", {})
        return TunnelDevice(
            vni=int(data["id"]),
            local=str(data.get("local", "")),
            tos=int(str(data.get("tos", 0)), 0),
            ports=(int(ports.get("low", 0)), int(ports.get("high", 0))),
        )

    def tunnel_device(self, vni: int) -> str | None:
        """Return the VXLAN device of a VNI."""
        own = (name for name in self._links if self._kind(name) == "vxlan")
        return next((name for name in own if int(self._data(name)["id"]) == vni), None)

    def _kind(self, device: str) -> str:
        return str(self._links.get(device, {}).get("linkinfo", {}).get("info_kind", ""))

    def _as_member(self, device: str) -> dict[str, Any]:
        """Return the data of a device as a member of a bridge or bond."""
        found: dict[str, Any] = self._links.get(device, {}).get("linkinfo", {}).get("info_slave_data", {})
        return found

    def _data(self, device: str) -> dict[str, Any]:
        found: dict[str, Any] = self._links.get(device, {}).get("linkinfo", {}).get("info_data", {})
        return found
