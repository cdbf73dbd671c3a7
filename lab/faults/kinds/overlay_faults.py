"""Faults of overlays: a leaf with a different VNI or gateway MAC than its siblings, and duplicate host MACs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from typing_extensions import override

from lab.backends.overlay_plumbing import change_gateways, change_vni
from lab.errors import UsageError
from lab.faults.fault import Fault, Parameters
from lab.faults.fault_place import Form
from lab.kernel.netlink import ip_state
from lab.model.overlay.intent import VNI_RANGE
from lab.model.overlay.plan import plan_overlay
from lab.wire.craft.packet_values import Mac, between

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.faults.fault import Before
    from lab.model.overlay.node_plan import LeafOverlay

_HAS_NETWORKS = "name a leaf with networks: rocelab docs overlay"


class TunnelVniParameters(Parameters):
    """The parameters of tunnel-vni."""

    of: Annotated[int, between(*VNI_RANGE)]
    """The VNI of a network, as in the topology."""
    vni: Annotated[int, between(*VNI_RANGE)]
    """The VNI that the leaf uses instead."""


class TunnelVni(Fault[TunnelVniParameters]):
    """A leaf has a different VNI for a network than its siblings: no other leaf uses its routes and packets.

    The tunnel keeps its name and VLAN. FRR sees it removed and added, as with manual reconfiguration.
    """

    name: ClassVar = "tunnel-vni"
    form: ClassVar = Form.SWITCH
    parameters: ClassVar = TunnelVniParameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"the VNI {self.p.of} of {self.place.node}", f"the outer DSCP of {self.place.node}"})

    @override
    def look(self) -> Before:
        node = self.place.node
        shown = ip_state.ask(self.namespace, "-d", "link", "show", "type", "vxlan")
        there = {link["ifname"]: int(link["linkinfo"]["info_data"]["id"]) for link in shown}
        if f"vni{self.p.of}" not in there:
            raise UsageError(f"{node} has no tunnel of VNI {self.p.of}", _HAS_NETWORKS)
        if self.p.vni in there.values():
            raise UsageError(f"{node} has VNI {self.p.vni} already", "choose another")
        return {"vni": there[f"vni{self.p.of}"]}

    @override
    def inject(self, before: Before) -> None:
        self._set(self.p.vni)

    @override
    def heal(self, before: Before) -> None:
        self._set(before["vni"])

    def _set(self, vni: int) -> None:
        leaf, plan, name = _leaf(self), self.fabric.plan[self.place.node], f"vni{self.p.of}"
        self.namespace.inside(lambda: change_vni(plan, leaf, name, vni))


class GatewayMacParameters(Parameters):
    """The parameters of gateway-mac."""

    mac: Mac = "02:1a:00:00:00:02"
    """The MAC of all gateways of the leaf."""


class GatewayMac(Fault[GatewayMacParameters]):
    """A leaf's gateways have a different MAC than elsewhere: frames to the right one reach no gateway there."""

    name: ClassVar = "gateway-mac"
    form: ClassVar = Form.SWITCH
    parameters: ClassVar = GatewayMacParameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"the gateways' MAC of {self.place.node}"})

    @override
    def look(self) -> Before:
        found = self._macs()
        if not found:
            raise UsageError(f"{self.place.node} has no gateways", _HAS_NETWORKS)
        if self.p.mac in found.values():
            raise UsageError(f"{self.place.node} has {self.p.mac} already", "choose another")
        return found

    @override
    def inject(self, before: Before) -> None:
        self._set(dict.fromkeys(before, self.p.mac))

    @override
    def heal(self, before: Before) -> None:
        self._set(before)

    def _macs(self) -> dict[str, str]:
        names = {gateway.name for gateway in _leaf(self).gateways if gateway.addresses}
        shown = ip_state.ask(self.namespace, "link", "show", "type", "vlan")
        return {link["ifname"]: link["address"] for link in shown if link["ifname"] in names}

    def _set(self, wanted: Mapping[str, str]) -> None:
        leaf, now = _leaf(self), self._macs()
        self.namespace.inside(lambda: change_gateways(leaf, now, wanted))


def _leaf(fault: Fault[Any]) -> LeafOverlay:
    overlay = plan_overlay(fault.fabric.topology)
    leaf = overlay.leaves.get(fault.place.node) if overlay else None
    if leaf is None:
        raise UsageError(f"{fault.place.node} has no networks", _HAS_NETWORKS)
    return leaf


class NicMacParameters(Parameters):
    """The parameters of nic-mac."""

    mac: Mac
    """The NIC's new MAC: that of another host makes a duplicate."""


class NicMac(Fault[NicMacParameters]):
    """A host's NIC has a different MAC: a cloned virtual machine, or a replaced card."""

    name: ClassVar = "nic-mac"
    form: ClassVar = Form.NIC
    parameters: ClassVar = NicMacParameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"the MAC of {self.end}"})

    @override
    def look(self) -> Before:
        (link,) = ip_state.ask(self.namespace, "link", "show", "dev", self.end.interface)
        if link["address"] == self.p.mac:
            raise UsageError(f"{self.end} has {self.p.mac} already", "choose another")
        return {"mac": link["address"]}

    @override
    def inject(self, before: Before) -> None:
        self._set(self.p.mac)

    @override
    def heal(self, before: Before) -> None:
        self._set(before["mac"])

    def _set(self, mac: str) -> None:
        ip_state.change(self.namespace, "-4", [f"link set dev {self.end.interface} address {mac}"])
