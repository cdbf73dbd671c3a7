"""Labels of an exported lab, with the properties of the fabric that its files do not contain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.model.topology import Addressing, Role, Routing
from lab.units import exact_rate, exact_time

if TYPE_CHECKING:
    from lab.model.topology import Link, Node, Topology

ROLE: Final = "rocelab.role"
POD: Final = "rocelab.pod"
RDMA: Final = "rocelab.rdma"
RATE: Final = "rocelab.rate"
DELAY: Final = "rocelab.delay"
DESCRIPTION: Final = "rocelab.description"
ROUTING: Final = "rocelab.routing."
BFD: Final = "rocelab.routing.bfd."
ADDRESSING: Final = "rocelab.addressing."
OWNER: Final = "rocelab.owner"
SETTINGS: Final = ("hash_policy", "hash_seed", "host_family", "underlay")


def of_fabric(topology: Topology) -> dict[str, str]:
    """Return the labels of a fabric: its description, and routing and pools that differ from the defaults."""
    found = {DESCRIPTION: topology.description} if topology.description else {}
    routing, usual = topology.routing, Routing()
    for key in SETTINGS:
        if getattr(routing, key) is not getattr(usual, key):
            found[ROUTING + key] = getattr(routing, key).value
    if routing.bfd != usual.bfd:
        found |= {
            f"{BFD}enabled": "true" if routing.bfd.enabled else "false",
            f"{BFD}interval": exact_time(routing.bfd.interval),
            f"{BFD}multiplier": str(routing.bfd.multiplier),
        }
    for pool in Addressing.__slots__:
        if getattr(topology.addressing, pool) != getattr(Addressing(), pool):
            found[ADDRESSING + pool] = str(getattr(topology.addressing, pool))
    return found


def of_node(node: Node) -> dict[str, str]:
    """Return the labels of a node: tier, pod, and whether a host's NICs have RDMA devices."""
    found = {ROLE: node.role.value}
    if node.pod:
        found[POD] = str(node.pod)
    if node.role is Role.HOST:
        found[RDMA] = "true" if node.rdma else "false"
    return found


def of_link(link: Link) -> dict[str, str]:
    """Return the labels of a link: rate and delay."""
    found = {RATE: exact_rate(link.rate)}
    if link.delay:
        found[DELAY] = exact_time(link.delay)
    return found
