"""Test whether hosts share a network of an overlay: several networks may have the same subnet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.diagnose.facts import PortFacts, WindowFacts


def share_a_network(facts: WindowFacts, one: PortFacts, other: PortFacts) -> bool:
    """Return whether two NICs of hosts are in one network, by the VNIs of their leaves' ports.

    Subnets are compared instead if a port has no VNI: its leaf lost the tunnel, or the recording is an old one.
    """
    if facts.nic_of(one.name) == facts.nic_of(other.name):
        return False
    mine, theirs = _vnis(facts, one), _vnis(facts, other)
    return bool(mine & theirs) if mine and theirs else bool(_subnets(facts, one) & _subnets(facts, other))


def _vnis(facts: WindowFacts, port: PortFacts) -> frozenset[int]:
    leaf, _, interface = port.peer.partition(":")
    node = facts.forwarding.get(leaf)
    return node.vnis.get(node.bonds.get(interface, interface), frozenset()) if node else frozenset()


def _subnets(facts: WindowFacts, port: PortFacts) -> frozenset[str]:
    node, stack = facts.forwarding.get(port.node), facts.stacks.get(port.node)
    interface = facts.nic_of(port.name).partition(":")[2]
    of_its_own = stack.networks.get(interface, frozenset()) if stack else frozenset()
    return of_its_own or (node.networks if node else frozenset())
