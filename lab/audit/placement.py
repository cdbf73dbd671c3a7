"""The role of each object in a fabric: its node's tier, and for an object of a port the tier at the other end.

Objects with the same role are siblings. Interface names and addresses are replaced in names of objects, so that
``net.ipv4.conf.swp1.rp_filter`` of one leaf and ``net.ipv4.conf.swp4.rp_filter`` of another compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_interface
from typing import TYPE_CHECKING, Final

from lab.audit.objects.kernel_objects import InterfaceAudit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.audit.objects.audited_object import AuditedObject
    from lab.model.topology import Endpoint, Topology

PORT: Final = "<port>"
ADDRESS: Final = "<address>"
_BACKBONE: Final = "0.0.0.0"  # noqa: S104 - an area of OSPF
"""No address of a node, but an area (RFC 2328 section 3.1)."""
FEWEST: Final = 3
"""The fewest siblings with a majority."""


@dataclass(frozen=True)
class FabricRoles:
    """The roles in a fabric, from its nodes and cables alone."""

    topology: Topology

    @cached_property
    def peers(self) -> Mapping[tuple[str, str], Endpoint]:
        """The other end of each port, by node and interface."""
        return {(end.node, end.interface): link.other(end) for link in self.topology.links for end in link.ends}

    def roles(self, node: str, interface: str) -> tuple[str, str]:
        """Return the narrow and the wide role of a node, or of one of its interfaces: by tier, and switch or host."""
        role = self.topology.node(node).role
        peer = self.peers.get((node, interface))
        if peer is None:
            return f"{role} {interface}".strip(), f"{_width(is_switch=role.is_switch)} {interface}".strip()
        there = self.topology.node(peer.node).role
        wide = f"{_width(is_switch=role.is_switch)} port to {_width(is_switch=there.is_switch)}"
        return f"{role} port to {there}", wide


def is_of_most(having: int, siblings: int) -> bool:
    """Return whether more than half of enough siblings have something: then it is intended."""
    return having >= FEWEST and 2 * having > siblings


def _width(*, is_switch: bool) -> str:
    return "switch" if is_switch else "host"


def interface_of(found: AuditedObject) -> str:
    """Return the interface that an object is or belongs to; "" for none."""
    return found.name if isinstance(found, InterfaceAudit) else found.place


def generic(text: str, interface: str = "") -> str:
    """Return a name without an interface's name and without addresses."""
    words = text.replace(f".{interface}.", f".{PORT}.") if interface else text
    return " ".join(_generic_word(word, interface) for word in words.split(" "))


def _generic_word(word: str, interface: str) -> str:
    if interface and word == interface:
        return PORT
    if word == _BACKBONE or not any(mark in word for mark in (".", ":")):
        return word
    try:
        ip_interface(word)
    except ValueError:
        return word
    return ADDRESS
