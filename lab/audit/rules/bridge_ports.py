"""Rules about the ports of bridges: they forward, and tunnels are in a VLAN that has other ports."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from lab.audit.difference import ABSENT, PRESENCE, PRESENT, Difference, described
from lab.audit.objects.kernel_objects import VlanAudit
from lab.audit.rules.route_widths import RULE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.audit.audited import FabricAudit, NodeAudit
    from lab.audit.placement import FabricRoles

_BRIDGE: Final = "bridge"
_TUNNEL: Final = "vxlan"
_STATE: Final = "port state"
_FORWARDING: Final = "forwarding"
_NO_TREE: Final = "0"
"""``stp_state`` of a bridge without a spanning tree (ip-link(8))."""


def of_port_states(node: NodeAudit) -> Iterator[Difference]:
    """Yield ports that do not forward although their bridge has no spanning tree: a command set their state."""
    bridges = {each.name for each in node.interfaces
               if each.kind == _BRIDGE and each.options.get("stp_state") == _NO_TREE and each.up}  # fmt: skip
    for each in node.interfaces:
        state = each.options.get(_STATE, _FORWARDING)
        if each.master in bridges and each.up and each.carrier and state != _FORWARDING:
            yield Difference.of(node.name, each, _STATE, state, _FORWARDING, RULE)


def of_tunnel_vlans(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield the VLANs of tunnels that no other port of their bridge is in, so that no frame reaches the tunnel.

    The right VLAN is that of the same VNI at most other switches, if it has ports here and no tunnel. VLANs are
    numbers of one switch: another number with ports is none of these. Nor is a VNI whose VLAN has no ports yet.
    """
    switches = [node for name, node in state.nodes.items() if placement.topology.node(name).role.is_switch]
    having: dict[str, dict[str, tuple[VlanAudit, ...]]] = defaultdict(dict)
    for node in switches:
        for device, vni in vnis_of_tunnels(node).items():
            having[vni][node.name] = tuple(each for each in node.vlans if each.interface == device)
    for node in switches:
        tunnels = vnis_of_tunnels(node)
        used = {each.vlan for each in node.vlans if each.interface not in tunnels}
        taken = {each.vlan for each in node.vlans if each.interface in tunnels}
        for device, vni in tunnels.items():
            mine = having[vni][node.name]
            usual = _usual(having[vni], node.name)
            if usual is None or used & {each.vlan for each in mine} or usual.vlan not in used - taken:
                continue
            lost = VlanAudit(device, usual.vlan, usual.flags)
            yield Difference.of(node.name, lost, PRESENCE, ABSENT, described(lost), RULE)
            for each in mine:
                yield Difference.of(node.name, each, PRESENCE, PRESENT, ABSENT, RULE)


def vnis_of_tunnels(node: NodeAudit) -> dict[str, str]:
    """Return the VNI of each tunnel that is a port of a bridge with VLANs."""
    bridges = {each.name for each in node.interfaces if each.kind == _BRIDGE}
    return {
        each.name: each.options["id"]
        for each in node.interfaces
        if each.kind == _TUNNEL and each.master in bridges and "id" in each.options
    }


def _usual(having: Mapping[str, tuple[VlanAudit, ...]], but: str) -> VlanAudit | None:
    """Return the VLAN that most tunnels of other switches are in, if each of these is in one only."""
    found = [vlans[0] for name, vlans in having.items() if name != but and len(vlans) == 1]
    if not found:
        return None
    number, count = Counter(each.vlan for each in found).most_common(1)[0]
    return next(each for each in found if each.vlan == number) if 2 * count > len(found) else None
