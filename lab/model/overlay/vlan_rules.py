"""Rules of plain VLANs, which only bridge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.model.overlay.intent import Design, Flooding
from lab.model.topology import Role
from lab.model.values.validate import SpecFinding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.overlay.overlay_spec import NetworkSpec, OverlaySpec
    from lab.model.topology import Topology
    from lab.model.values.yamltext import Path

_OTHERWISE = "or choose a design with EVPN"


def check_design(spec: OverlaySpec) -> Iterator[SpecFinding]:
    """Yield keys that plain VLANs do not support, and EVPN networks without a VNI."""
    if spec.design is not Design.VLANS:
        for name, network in spec.networks.items():
            if network.l2vni is None:
                path = ("overlay", "networks", name, "l2vni")
                yield SpecFinding(path, "is missing", "add it: its VNI")
        return
    for key, what in (
        ("tenants", "nothing is routed"),
        ("leaks", "nothing is routed"),
        ("border", "nothing is routed"),
        ("bonds", "a host on two leaves is on one tree twice"),
    ):
        if getattr(spec, key):
            yield _refused(("overlay", key), what, f"leave {key} out")
    if spec.flooding is not Flooding.INGRESS:
        yield _refused(("overlay", "flooding"), "bridges send copies by themselves", "leave flooding out")
    if "gateway_mac" in spec.model_fields_set:
        yield _refused(("overlay", "gateway_mac"), "nothing is routed", "leave gateway_mac out")
    for name, network in spec.networks.items():
        yield from _only_bridged(name, network)


def _only_bridged(name: str, network: NetworkSpec) -> Iterator[SpecFinding]:
    for key, what in (
        ("l2vni", "there is no VXLAN"),
        ("rd", "there are no routes"),
        ("rt", "there are no routes"),
        ("group", "there is no VXLAN"),
        ("tenant", "nothing is routed"),
        ("gateways", "nothing is routed"),
    ):
        if getattr(network, key):
            yield _refused(("overlay", "networks", name, key), what, f"leave {key} out")


def _refused(path: Path, why: str, remedy: str) -> SpecFinding:
    return SpecFinding(path, f"is not of design vlans: {why}", f"{remedy}, {_OTHERWISE}")


def check_plain(topology: Topology) -> Iterator[SpecFinding]:
    """Yield parts of the fabric that plain VLANs do not support: QoS, FRR lines, and hosts without a network."""
    if topology.overlay is None or not topology.overlay.plain:
        return
    if topology.qos is not None:
        yield _refused(("qos",), "lossless ports look for no class behind a tag", "leave qos out")
    for name in topology.frr:
        yield _refused(("frr", name), "switches run no router", f"leave the lines of {name} out")
    attached = {attachment.end for network in topology.overlay.networks for attachment in network.attachments}
    bonded = {member for bond in topology.overlay.bonds for member in bond.members}
    for link in topology.links:
        for end in link.ends:
            if topology.node(end.node).role is Role.HOST and end not in attached | bonded:
                who = end.node if len(topology.links_of(end.node)) == 1 else str(end)
                message = f"{who} is in none, and with design vlans there is no underlay"
                yield SpecFinding(("overlay", "networks"), message, "name it in untagged or tagged of a network")
