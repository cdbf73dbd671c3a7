"""Differences from what must hold in any fabric, whatever its plan: addresses, next hops, sessions and thresholds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lab.audit.difference import unread_kinds
from lab.audit.rules.address_rules import (
    ProxiedAddresses,
    of_fewer_addresses,
    of_macs,
    of_mapped_gateways,
    of_missing_addresses,
    of_neighbours,
    of_owners,
    of_prefix_lengths,
    of_router_ids,
    of_unused_addresses,
)
from lab.audit.rules.bridge_entries import of_bridge_entries
from lab.audit.rules.bridge_ports import of_port_states, of_tunnel_vlans
from lab.audit.rules.own_routes import of_own_routes
from lab.audit.rules.port_rules import of_disturbances, of_links, of_port, of_sharing
from lab.audit.rules.port_vlans import (
    of_anycast_gateways,
    of_gateway_addresses,
    of_removed_ports,
    of_roots,
    of_vlans,
)
from lab.audit.rules.route_rules import (
    of_defaults,
    of_gateways,
    of_hop_limits,
    of_overrides,
    of_route_mtus,
    of_sources,
    of_vrf_rules,
    proxied_gateways,
)
from lab.audit.rules.route_widths import of_widths
from lab.audit.rules.segment_rules import of_bonds
from lab.audit.rules.session_rules import of_advertisements, of_bfd, of_sessions

if TYPE_CHECKING:
    from lab.audit.audited import FabricAudit
    from lab.audit.difference import Difference
    from lab.audit.placement import FabricRoles


def of_rules(state: FabricAudit, placement: FabricRoles) -> list[Difference]:
    """Return the settings that contradict each other, or the other nodes: those whose kernel answered."""
    roce = any(host.rdma for host in placement.topology.hosts)
    found: list[Difference] = []
    every = state.nodes.values()
    state = replace(state, nodes={each.name: each for each in every if "address" not in unread_kinds(each)})
    gateways, proxies = proxied_gateways(state, placement), ProxiedAddresses(state, placement)
    for node in every:
        found += of_links(node, state, placement)
        found += of_disturbances(node, placement)
        found += of_port_states(node)
        found += of_sessions(node)
        found += of_bfd(node, state, placement)
        found += of_advertisements(node, state, placement)
        found += of_gateways(node, state, placement, gateways.get(node.name, ()))
        found += of_route_mtus(node, placement)
        found += of_own_routes(node)
        found += of_vrf_rules(node)
        found += of_neighbours(node, state, placement, proxies)
        found += of_mapped_gateways(node, state, placement)
        found += of_unused_addresses(node, placement)
        for port in node.ports:
            found += of_port(node.name, port, roce=roce)
    return [
        *found, *of_owners(state, placement), *of_overrides(state, placement), *of_widths(state, placement.topology),
        *of_defaults(state, placement), *of_hop_limits(state, placement), *of_sources(state, placement),
        *of_router_ids(state, placement), *of_macs(state, placement), *of_missing_addresses(state, placement),
        *of_fewer_addresses(state, placement), *of_prefix_lengths(state, placement), *of_vlans(state, placement),
        *of_gateway_addresses(state, placement), *of_removed_ports(state, placement), *of_roots(state, placement),
        *of_sharing(state, placement), *of_bridge_entries(state, placement),
        *of_anycast_gateways(state, placement), *of_bonds(state, placement), *of_tunnel_vlans(state, placement),
    ]  # fmt: skip
