"""Rules of flooding: multicast groups and the rendezvous point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.model.overlay.intent import Design, Flooding, default_group
from lab.model.topology import Role
from lab.model.values.validate import SpecFinding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address

    from lab.model.overlay.overlay_spec import OverlaySpec
    from lab.model.topology import Topology


def check_groups(spec: OverlaySpec) -> Iterator[SpecFinding]:
    """Yield networks whose group is missing, not unique, or useless with ingress replication."""
    if spec.design is Design.VLANS:
        return
    used: dict[IPv4Address, str] = {}
    for name, network in spec.networks.items():
        path = ("overlay", "networks", name, "group")
        if network.group is None and network.l2vni is None:
            continue  # the VNI is what is missing
        group = network.group or default_group(network.l2vni or 0)
        if spec.flooding is not Flooding.MULTICAST:
            if network.group is not None:
                yield SpecFinding(path, f"{network.group} is of no use: copies are sent", "say flooding: multicast")
        elif group is None:
            message = f"is missing: switches flood the one that VNI {network.l2vni} makes (RFC 4541)"
            yield SpecFinding(path, message, "say which: group: 239.1.1.10")
        elif group in used:
            yield SpecFinding(path, f"{group} is that of {used[group]} already", "say another: group: 239.1.1.10")
        else:
            used[group] = name


def check_multicast(topology: Topology, spec: OverlaySpec) -> Iterator[SpecFinding]:
    """Yield a finding if multicast has no spine as its rendezvous point."""
    if spec.flooding is Flooding.MULTICAST and not topology.having(Role.SPINE):
        message = "multicast has no rendezvous point: there is no spine"
        yield SpecFinding(("overlay", "flooding"), message, "leave flooding out")
