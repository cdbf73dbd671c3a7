"""The parts of a fabric that a fault can use: ports, links, addresses, and the pairs of NICs at a place."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from lab.model.addressing import plan_addresses
from lab.model.topology import Role

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from lab.model.addressing import NodePlan
    from lab.model.topology import Topology


class Ground:
    """The objects of a topology. Names are those of users: ``leaf1:swp1``, ``h1:eth1``."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.plan: Mapping[str, NodePlan] = plan_addresses(topology)
        self.peers = {str(end): str(link.other(end)) for link in topology.links for end in link.ends}
        self.hosts = tuple(host.name for host in topology.hosts)
        self.leaves = tuple(switch.name for switch in topology.switches if switch.role is Role.LEAF)
        self.spines = tuple(switch.name for switch in topology.switches if switch.role is Role.SPINE)
        self.switches = (*self.leaves, *self.spines)

    @property
    def overlay(self) -> bool:
        """Whether hosts are in networks of an overlay: then switches forward tunnels and not the hosts' packets."""
        return self.topology.overlay is not None

    @cached_property
    def nics(self) -> tuple[str, ...]:
        """The ports of hosts."""
        return tuple(end for end in self.peers if end.partition(":")[0] in self.hosts)

    @cached_property
    def switch_ports(self) -> tuple[str, ...]:
        """The cabled ports of switches."""
        return tuple(end for end in self.peers if end not in self.nics)

    @cached_property
    def uplinks(self) -> tuple[str, ...]:
        """The ports of leaves that lead to spines, on a path that the traffic of ``pairs_through`` uses."""
        rails = len(self.nics) > len(self.hosts)
        return () if rails else tuple(
            end for end in self.switch_ports if _node(end) in self.leaves and _node(self.peers[end]) in self.spines
        )  # fmt: skip

    @cached_property
    def used_ports(self) -> tuple[str, ...]:
        """The ports of switches on links that traffic uses, in both directions of each link."""
        uplinks = (*self.uplinks, *(self.peers[end] for end in self.uplinks))
        return (*uplinks, *(self.peers[nic] for nic in self.nics))

    @cached_property
    def used_switches(self) -> tuple[str, ...]:
        """The switches of ``used_ports``."""
        return tuple(dict.fromkeys(map(_node, self.used_ports)))

    def link(self, end: str) -> str:
        """Return the link of a port, in the direction of what the port sends."""
        return f"{end}--{self.peers[end]}"

    def address(self, nic: str) -> str:
        """Return the IPv4 address of a NIC."""
        node, _, interface = nic.partition(":")
        address = self.plan[node].interfaces[interface].address
        assert address is not None
        return str(address.ip)

    def vlan(self, nic: str) -> int:
        """Return the VLAN of a NIC's network in the overlay; 0 without one."""
        overlay = self.topology.overlay
        networks = overlay.networks if overlay is not None else ()
        return next((net.vlan for net in networks if any(str(at.end) == nic for at in net.attachments)), 0)

    def link_local(self, port: str) -> str:
        """Return the IPv6 link-local address of a port."""
        node, _, interface = port.partition(":")
        return str(self.plan[node].interfaces[interface].link_local)

    def leaf_of(self, nic: str) -> str:
        """Return the leaf that a NIC is cabled to."""
        return _node(self.peers[nic])

    def nics_of(self, leaf: str) -> list[str]:
        """Return the NICs that are cabled to a leaf."""
        return [nic for nic in self.nics if self.leaf_of(nic) == leaf]

    def pairs_through(self, place: str, chance: random.Random, count: int = 2) -> tuple[str, ...]:
        """Return pairs of NICs whose packets use a port or node, the first of them surely; each NIC is used once."""
        node, interface = _node(place), place.partition(":")[2]
        if node in self.hosts:
            first = place if interface else self._of_host(node)[0]
        elif node in self.leaves:
            attached = self.peers.get(place, "")
            first = attached if attached in self.nics else chance.choice(self.nics_of(node))
        else:
            far = self.peers.get(place, "")
            first = chance.choice(self.nics_of(_node(far))) if far else chance.choice(self.nics)
        return self._pairs(first, chance, count)

    def _pairs(self, first: str, chance: random.Random, count: int) -> tuple[str, ...]:
        free = [nic for nic in self.nics if nic != first]
        chance.shuffle(free)
        found: list[str] = []
        src = first
        while len(found) < count:
            others = [nic for nic in free if self._can_pair(src, nic)]
            if not others:
                break
            free.remove(others[0])
            ends = (src, others[0]) if chance.random() < 0.5 else (others[0], src)
            found.append(":".join(ends))
            if not free:
                break
            src = free.pop()
        return tuple(found)

    def _can_pair(self, one: str, other: str) -> bool:
        """Return whether two NICs are on different hosts: of one rail, or else of different leaves."""
        if _node(one) == _node(other):
            return False
        rails = len(self.nics) > len(self.hosts)
        return (self.leaf_of(one) == self.leaf_of(other)) == rails

    def _of_host(self, host: str) -> list[str]:
        return [nic for nic in self.nics if _node(nic) == host]


def _node(port: str) -> str:
    return port.partition(":")[0]
