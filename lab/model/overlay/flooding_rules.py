"""Whether the flooding that an overlay asks for can be: its groups, and what goes with multicast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.model.overlay.intent import Design, Flooding, default_group
from lab.model.topology import Role
from lab.model.validate import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address

    from lab.model.overlay.spec import OverlaySpec
    from lab.model.topology import Topology


def check_groups(spec: OverlaySpec) -> Iterator[Finding]:
    """Each network has one of its own; none has any where copies are sent."""
    if spec.design is Design.VLANS:
        return
    used: dict[IPv4Address, str] = {}
    for name, network in spec.networks.items():
        path = ("overlay", "networks", name, "group")
        group = network.group or default_group(network.l2vni or 0)
        if spec.flooding is not Flooding.MULTICAST:
            if network.group is not None:
                yield Finding(path, f"{network.group} is of no use: copies are sent", "say flooding: multicast")
        elif group is None:
            message = f"is missing: switches flood the one that VNI {network.l2vni} makes (RFC 4541)"
            yield Finding(path, message, "say which: group: 239.1.1.10")
        elif group in used:
            yield Finding(path, f"{group} is that of {used[group]} already", "say another: group: 239.1.1.10")
        else:
            used[group] = name


def check_multicast(topology: Topology, spec: OverlaySpec) -> Iterator[Finding]:
    """What cannot go with it, and what has not been made to, is refused."""
    if spec.flooding is not Flooding.MULTICAST:
        return
    path = ("overlay", "flooding")
    if not topology.having(Role.SPINE):
        yield Finding(path, "multicast has no rendezvous point: there is no spine", "leave flooding out")
    if spec.bonds:
        message = "multicast does not go with bonds: their leaves tell copies from each other by who sent them"
        yield Finding(path, message, "leave flooding out, or bonds")
