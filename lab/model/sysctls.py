"""The sysctls of a node, by path below /proc/sys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.model.topology import HASH_FIELDS

if TYPE_CHECKING:
    from lab.model.addressing import NodePlan
    from lab.model.topology import Routing

HASH_SEED: Final = "net/ipv4/fib_multipath_hash_seed"
"""The seed of a switch's ECMP hash, from ``NodePlan.hash_seed``; Linux 6.11 and newer."""
HASH_POLICY: Final = "net/ipv4/fib_multipath_hash_policy"
"""Fields that IPv4 hashes to choose an equal-cost path: 0 addresses, 1 also ports, 3 chosen ones (ip-sysctl)."""

_EVERY_NODE: Final = {
    "net/ipv4/conf/all/rp_filter": 0,
    "net/ipv4/conf/default/rp_filter": 0,
    "net/ipv4/conf/default/arp_announce": 2,
    "net/ipv4/conf/default/arp_ignore": 1,
    **{f"net/ipv4/conf/{which}/{what}_redirects": 0 for what in ("accept", "send") for which in ("all", "default")},
    "net/ipv6/conf/all/disable_ipv6": 0,
    "net/ipv6/conf/default/disable_ipv6": 0,
    "net/ipv6/conf/default/accept_dad": 0,
    "net/ipv6/conf/default/accept_redirects": 0,
    "net/ipv6/conf/default/accept_ra": 0,
    "net/ipv6/conf/default/addr_gen_mode": 0,
}
_EVERY_SWITCH: Final = {
    "net/ipv4/ip_forward": 1,
    "net/ipv6/conf/all/forwarding": 1,
    "net/ipv6/conf/default/forwarding": 1,
    "net/ipv4/conf/all/ignore_routes_with_linkdown": 1,
    "net/ipv6/conf/all/ignore_routes_with_linkdown": 1,
    "net/ipv4/fib_multipath_use_neigh": 1,
}


def sysctls_of(plan: NodePlan, routing: Routing) -> dict[str, int]:
    """Return the sysctls to set before a node has interfaces, which inherit some; ``HASH_SEED`` is set separately."""
    found = dict(_EVERY_NODE)
    if plan.node.role.is_switch:
        found |= _EVERY_SWITCH
        for family in ("ipv4", "ipv6"):
            found[f"net/{family}/fib_multipath_hash_fields"] = HASH_FIELDS
            found[f"net/{family}/fib_multipath_hash_policy"] = routing.hash_policy.sysctl
    return found
