"""Rules about bonds: the leaves of a bonded host have its VLANs and its Ethernet segment in common (RFC 7432)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.audit.difference import ABSENT, PRESENCE, PRESENT, Difference, described, unread_kinds
from lab.audit.objects.kernel_objects import VlanAudit
from lab.audit.objects.routing_objects import FrrLineAudit
from lab.audit.rules.route_widths import RULE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.audit.audited import FabricAudit, NodeAudit
    from lab.audit.placement import FabricRoles

_BOND: Final = "bond"
_OF_SEGMENT: Final = ("evpn mh es-id", "evpn mh es-sys-mac")
"""The beginnings of the lines that identify a segment. Its preference as a forwarder is of one leaf (RFC 8584)."""


@dataclass(frozen=True, slots=True)
class _LeafBond:
    """The bond of a leaf to a host."""

    node: NodeAudit
    name: str

    @property
    def vlans(self) -> dict[int, VlanAudit]:
        return {each.vlan: each for each in self.node.vlans if each.interface == self.name}

    @property
    def segment(self) -> dict[str, str]:
        """The lines that identify its segment, by their beginnings, without its name."""
        start = f"interface {self.name} / "
        lines = [each.line.removeprefix(start) for each in self.node.frr if each.line.startswith(start)]
        return {mark: line for mark in _OF_SEGMENT for line in lines if line.startswith(f"{mark} ")}


def of_bonds(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield VLANs, and lines that identify the segment, that a bond lacks at one leaf of a host and has at another.

    A host sends any packet to any of these leaves, and each must know that the others lead to it. Identities of
    segments that differ are no subject of this rule.
    """
    for ends in _ends_of_bonds(state, placement):
        vlans = {vlan: each for end in ends for vlan, each in end.vlans.items()}
        lines = {mark: line for end in ends for mark, line in end.segment.items()}
        for end in ends:
            for vlan in sorted(vlans.keys() - end.vlans.keys()):
                lost = VlanAudit(end.name, vlan, vlans[vlan].flags)
                yield Difference.of(end.node.name, lost, PRESENCE, ABSENT, described(lost), RULE)
            if FrrLineAudit.LABEL in unread_kinds(end.node):
                continue
            for mark in sorted(lines.keys() - end.segment.keys()):
                missing = FrrLineAudit(f"interface {end.name} / {lines[mark]}")
                yield Difference.of(end.node.name, missing, PRESENCE, ABSENT, PRESENT, RULE)


def _ends_of_bonds(state: FabricAudit, placement: FabricRoles) -> Iterator[Sequence[_LeafBond]]:
    """Yield the leaves' ends of each bond of a host that leads to several leaves."""
    found: dict[tuple[str, str], dict[tuple[str, str], _LeafBond]] = defaultdict(dict)
    for name, node in state.nodes.items():
        if placement.topology.node(name).role.is_switch:
            continue
        for port, theirs in _members(node).items():
            peer = placement.peers.get((name, port))
            there = state.nodes.get(peer.node) if peer is not None else None
            if peer is not None and there is not None and (mine := _members(there).get(peer.interface)):
                found[name, theirs][peer.node, mine] = _LeafBond(there, mine)
    yield from (list(ends.values()) for ends in found.values() if len(ends) > 1)


def _members(node: NodeAudit) -> dict[str, str]:
    """Return the bond of each interface that is a member of one."""
    bonds = {each.name for each in node.interfaces if each.kind == _BOND}
    return {each.name: each.master for each in node.interfaces if each.master in bonds}
