"""Rules about static entries of forwarding databases: a host's MAC is where the host is cabled."""

from __future__ import annotations

from collections import defaultdict
from ipaddress import ip_interface
from typing import TYPE_CHECKING, Final

from lab.audit.difference import ABSENT, PRESENCE, PRESENT, Difference
from lab.audit.rules.route_widths import RULE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

    from lab.audit.audited import FabricAudit
    from lab.audit.objects.kernel_objects import FdbAudit
    from lab.audit.placement import FabricRoles

_OF_EVPN: Final = "extern_learn"
"""The flag of entries that a routing daemon installed."""


def of_bridge_entries(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield static entries of switches by which frames for a host leave where it is not.

    That is: by a port to another host, by an uplink or a tunnel of the switch that the host is cabled to, or in a
    tunnel to a switch that it is not cabled to. A bridge does not learn a MAC that has a static entry.
    """
    cabled, owners = _cabled(state, placement), _nodes_of_addresses(state)
    for name, node in state.nodes.items():
        for each in node.fdb if placement.topology.node(name).role.is_switch else ():
            there = cabled.get(each.mac)
            if _is_set(each) and there and _misses(name, each, there, owners, placement):
                yield Difference.of(name, each, PRESENCE, PRESENT, ABSENT, RULE)


def _is_set(entry: FdbAudit) -> bool:
    """Return whether the bridge did not learn an entry itself, nor EVPN from another switch.

    An entry of EVPN that is replaced by a command keeps its flag, and then has a port in place of a tunnel.
    """
    return entry.permanent or (_OF_EVPN in entry.flags and not entry.remote)


def _misses(
    name: str,
    entry: FdbAudit,
    there: Set[tuple[str, str]],
    owners: Mapping[str, Set[str]],
    placement: FabricRoles,
) -> bool:
    """Return whether an entry of a switch does not lead to the ports that the host is cabled to."""
    switches = {switch for switch, _ in there}
    if entry.remote:
        ends = owners.get(entry.remote, frozenset())
        return bool(ends) and (name in switches or not ends & switches)
    peer = placement.peers.get((name, entry.interface))
    if peer is None or (name, entry.interface) in there:
        return False
    return name in switches or not placement.topology.node(peer.node).role.is_switch


def _cabled(state: FabricAudit, placement: FabricRoles) -> dict[str, set[tuple[str, str]]]:
    """Return the switch ports that the hosts with a MAC are cabled to, by MAC."""
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for name, node in state.nodes.items():
        for each in node.interfaces if not placement.topology.node(name).role.is_switch else ():
            peer = placement.peers.get((name, each.name))
            if peer is not None and each.mac:
                found[each.mac].add((peer.node, peer.interface))
    return found


def _nodes_of_addresses(state: FabricAudit) -> dict[str, set[str]]:
    """Return the nodes that have an address, by address: several have that of an anycast VTEP."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, node in state.nodes.items():
        for each in node.addresses:
            found[str(ip_interface(each.address).ip)].add(name)
    return found
