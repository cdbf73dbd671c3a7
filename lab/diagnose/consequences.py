"""Settings that only follow from others: sessions that are down, routes that are missing, addresses that are gone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_interface, ip_network
from typing import TYPE_CHECKING, Final

from lab.audit.comparisons.frr_lines import is_definition
from lab.audit.rules.route_widths import ADVERTISED, LEARNED
from lab.diagnose.causes.route_fixes import is_unlearned
from lab.diagnose.causes.setting_kinds import is_missing_interface, is_new, is_shutdown, kind_of
from lab.model.topology import Role
from lab.routing.paths.distance import distances

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from lab.audit.audited import NodeAudit
    from lab.diagnose.differing import DifferingSetting
    from lab.model.topology import Topology

FEWER_ROUTES: Final = "fewer paths or routes at "
"""The beginning of an effect of a setting, before the names of nodes."""
_OTHER_ROUTES: Final = "other routes than planned at "
DRAINED: Final = " is drained"
"""In an effect of a setting, after the name of a switch."""
TIMERS: Final = frozenset({"hold time", "keepalive"})
"""Settings of a session that take no path away."""
_QUIET_LINE: Final = re.compile(r"(^| )(timers|bfd|description|log|advertisement-interval)( |$)")
"""In lines of FRR's configuration that take no path away."""
_OF_BFD: Final = re.compile(r"(^| )bfd( |$)")
"""In quiet lines that take no path away, but sessions of BFD."""
_OF_CLASSES: Final = frozenset({
    "class-differs", "pfc-differs", "watchdog-differs", "buffer-differs", "ecn-differs", "scheduler-differs",
    "congestion-control-differs", "hash-differs", "echo-differs", "rdma-device-differs",
})  # fmt: skip
"""Kinds that take no session down: they treat classes of traffic or flows differently, or affect hosts only."""
_DROPPING: Final = re.compile(r"\b(blackhole|unreachable|prohibit|throw)\b")
"""Types of routes that drop packets (ip-route(8))."""
_IPV6_OFF: Final = re.compile(r"\.disable_ipv6$")
_OF_VRF: Final = r"(?: (?:vrf|view) \S+)?"
_ROUTER_ID: Final = re.compile(
    rf"^frr (?:router isis \S+{_OF_VRF} / net|router ospf6?{_OF_VRF} / ospf6? router-id|(?:ip )?router-id)(?: |$)"
)
"""The line that identifies a switch to OSPF or IS-IS: if two have the same, the routes of any switch may be wrong."""
_BGP_ID: Final = re.compile(rf"^frr router bgp \d+{_OF_VRF} / bgp router-id(?: |$)")
"""The line that identifies a switch to its peers of BGP, which must not have the same (RFC 4271 section 6.2)."""
_NET: Final = " / net"
"""The end of the name of a line that has the area of a switch as well (ISO 10589 section 7.1)."""
_OF_SYSTEM: Final = 4
"""The groups of digits of a NET after its area: those of the system, and the selector."""
_FORWARDING: Final = {"net.ipv4.ip_forward": "ip forwarding", "net.ipv6.conf.all.forwarding": "ipv6 forwarding"}
"""Sysctls that zebra shows as a line of its configuration, and sets if the line is typed."""
_SHOWN: Final = 4
"""The maximum number of nodes that an effect names."""
_LINK_LOCAL: Final = "fe80:"
_BGP: Final = "bgp"
"""The protocol of routes that are exchanged whatever the MTUs of a link's ends are."""


def is_state(setting: DifferingSetting) -> bool:
    """Return whether a difference is the state of a session or a link, and not a setting of it."""
    if setting.kind == "interface":
        return setting.setting == "carrier"
    return setting.kind in {"bgp session", "bfd session"} and setting.setting not in TIMERS


def takes_sessions_down(setting: DifferingSetting, session: DifferingSetting) -> bool:
    """Return whether a setting at one end of a session can take it down.

    A route or a rule does only if it applies to packets to the peer. A session that is named by an interface uses
    IPv6 link-local addresses (RFC 5549), which no route leads elsewhere.
    """
    kind = kind_of(setting)
    if is_shutdown(setting) and is_state(setting):  # the other end follows: of BGP with its session of BFD
        return not is_shutdown(session) and session.kind in {setting.kind, "bfd session"}
    of_classes = kind is None or kind.cause in _OF_CLASSES
    if of_classes or is_state(setting) or is_unlearned(setting) or setting.kind == "bgp session":
        return False
    if is_quiet(setting):
        return session.kind == "bfd session" and bool(_OF_BFD.search(setting.object))
    if setting.kind == "route":
        return _leads_to(" ".join(words_of(setting)[:1]), session)
    if setting.kind == "rule":
        return _applies_to(words_of(setting), session)
    return True


def is_quiet(setting: DifferingSetting) -> bool:
    """Return whether a setting is a line of FRR's configuration that takes no path away.

    One that identifies its switch takes none if no other switch has the same value.
    """
    if setting.kind != "frr":
        return False
    return bool(_QUIET_LINE.search(setting.object)) or (is_identity(setting) and not setting.shared)


def is_identity(setting: DifferingSetting) -> bool:
    """Return whether a setting is a line of FRR's configuration that only identifies its switch.

    A NET of IS-IS with another area is none.
    """
    if setting.object.endswith(_NET):
        area, other = (value.split(".")[:-_OF_SYSTEM] for value in (setting.value, setting.expected))
        return setting.shared or area == other
    return bool(_ROUTER_ID.search(setting.object) or _BGP_ID.search(setting.object))


def _peer_of(session: DifferingSetting) -> str:
    """Return the address of a session's peer; "" if an interface names it."""
    return _first_address(session.object)


@lru_cache(maxsize=4096)
def _first_address(text: str) -> str:
    for word in text.split():
        try:
            return str(ip_address(word))
        except ValueError:
            continue
    return ""


def _leads_to(prefix: str, session: DifferingSetting) -> bool:
    peer = _peer_of(session)
    if not peer or peer.startswith(_LINK_LOCAL):
        return False
    try:
        return ip_address(peer) in ip_network(prefix, strict=False)
    except ValueError:
        return False


def _applies_to(rule: Sequence[str], session: DifferingSetting) -> bool:
    peer = _peer_of(session)
    family = "inet6" if not peer or ":" in peer else "inet"
    if rule[:1] != [family]:
        return False
    if "to" not in rule[:-1]:
        return True
    to = rule[rule.index("to") + 1]
    return to == "all" or (_leads_to(to, session) if peer else to.startswith(_LINK_LOCAL))


@dataclass(frozen=True)
class RoutePaths:
    """The shortest paths of a fabric, by which its routes are advertised."""

    topology: Topology
    owners: Mapping[IPv4Network | IPv6Network, Collection[str]] = field(default_factory=dict)
    """The switches with an address in each network."""
    _distances: dict[str, dict[str, int]] = field(default_factory=dict)
    _owners: dict[str, Collection[str]] = field(default_factory=dict)
    """The owners of each prefix of a route: a fabric can have many routes and sessions that differ."""
    _peers: dict[tuple[str, str], str] = field(default_factory=dict)

    def passes(self, route: DifferingSetting, session: DifferingSetting) -> bool:
        """Return whether a route is advertised over a session, or by the node of a setting without a session.

        True if that is not known: for networks without an owner, routes of VRFs, and sessions over several links.
        """
        prefix, *words = words_of(route) or [""]
        if "table" in words or (not self._peer(session) and _peer_of(session)):
            return True
        owners = self._owners_in(prefix)
        return not owners or any(self.leads(owner, route.node, session) for owner in owners)

    def ends_of(self, route: DifferingSetting) -> object:
        """Return a key: routes of equal ones pass the same sessions."""
        prefix, *words = words_of(route) or [""]
        return route.node, frozenset(self._owners_in(prefix)), "table" in words

    def leads(self, owner: str, node: str, session: DifferingSetting) -> bool:
        """Return whether a shortest path from one switch to another has a session's link, or a setting's node.

        Of a switch's own networks, any of its sessions is on the path.
        """
        peer = self._peer(session)
        ends = {session.node, peer} - {""}
        there, here = self._from(owner), self._from(node)
        if owner == node:
            return owner in ends
        if node not in there or session.node not in there:
            return True
        if peer not in there:
            return there[session.node] + here[session.node] == there[node]
        either = ((session.node, peer), (peer, session.node))
        return any(there[one] + 1 + here[other] == there[node] for one, other in either)

    def _peer(self, session: DifferingSetting) -> str:
        """Return the node at the other end of a session's or setting's link; "" without one."""
        port = session.node, session.interface
        if port not in self._peers:
            self._peers[port] = peer_of(self.topology, *port).partition(":")[0]
        return self._peers[port]

    def _owners_in(self, prefix: str) -> Collection[str]:
        if prefix not in self._owners:
            self._owners[prefix] = self._find_owners(prefix)
        return self._owners[prefix]

    def _find_owners(self, prefix: str) -> set[str]:
        try:
            network = ip_network(prefix, strict=False)
        except ValueError:  # of a damaged recording
            return set()
        if found := self.owners.get(network):
            return {*found}
        return {
            name
            for each, names in self.owners.items()
            if each.version == network.version and each.overlaps(network)
            for name in names
        }

    def _from(self, node: str) -> dict[str, int]:
        if node not in self._distances:
            self._distances[node] = distances(self.topology, node)
        return self._distances[node]


def owners_of_networks(nodes: Iterable[NodeAudit]) -> dict[IPv4Network | IPv6Network, set[str]]:
    """Return the switches with an address in each network, except for link-local ones."""
    found: dict[IPv4Network | IPv6Network, set[str]] = {}
    for node in nodes:
        for each in node.addresses if node.role != Role.HOST else ():
            if each.scope == "global":
                found.setdefault(ip_interface(each.address).network, set()).add(node.name)
    return found


def without_details(
    settings: Sequence[DifferingSetting], paths: RoutePaths, wrong: Collection[tuple[str, str]] | None = None
) -> list[DifferingSetting]:
    """Leave out what a setting at another place or of another kind explains, whatever its effect on packets.

    - learned routes that are missing, or over fewer paths, if a routing session by which they are advertised differs,
      or its configuration; one that drops packets only if a line of its node's configuration names the network, like
      an aggregate
    - a learned route to a network that its node has an address in now
    - a new learned route, if a line or a manual route of another node has its prefix
    - link-local addresses, and routes by a port, if IPv6 is off there or the port is missing
    - sessions that are down, if the other end has no such session
    - the line by which zebra shows that the kernel does not forward
    - neighbours and FDB entries of a port, if it or the other end of its link is in another bridge or bond

    What changes routes keeps the names of the nodes whose routes it explains. ``wrong`` are the routes, by node and
    object, that contradict others of the fabric; None for all. Others are only not as planned.
    """
    routing = [each for each in settings if changes_routes(each)]
    attached = {(each.node, net) for each in settings if (net := _new_network(each))}
    bare = {(each.node, each.interface) for each in settings if _is_ipv6_off(each) or is_missing_interface(each)}
    named = {(each.node, word) for each in settings if each.kind == "frr" for word in each.object.split()}
    originated = {word for _, word in named} | {
        " ".join(words_of(each)[:1]) for each in settings if _is_new_manual(each)
    }
    absent = {f"{each.node}:{each.interface}" for each in settings if _is_lost_session(each)}
    members = [each for each in settings if (each.kind, each.setting) == ("interface", "master")]
    identities = [each for each in routing if each.shared and _ROUTER_ID.search(each.object)]
    joined = {(each.node, each.interface) for each in members}
    stopped = {(each.node, _FORWARDING.get(words_of(each)[0], "")) for each in settings if each.kind == "sysctl"}

    passing: dict[object, list[DifferingSetting]] = {}
    lost: dict[int, dict[str, bool]] = {}

    def follows(each: DifferingSetting) -> bool:
        if each.kind == "route" and each.setting != ADVERTISED:
            prefix = " ".join(words_of(each)[:1])
            if each.protocol in LEARNED and is_new(each) and prefix in originated:
                return True
            dropped = bool(_DROPPING.search(each.value)) and (each.node, prefix) not in named
            learned = is_unlearned(each) or (_is_chosen(each) and not dropped)
            hops = {*f"{each.expected} {each.value}".replace(",", " ").split()}
            over = any(node == each.node and port in hops for node, port in bare)
            by_bgp = each.protocol == _BGP or f"protocol {_BGP}" in each.expected
            key = paths.ends_of(each), by_bgp
            if learned and key not in passing:  # a fabric can have many routes, but has few pairs of switches
                roots = [root for root in routing if root not in identities and not (by_bgp and _is_mtu(root))]
                behind = [session for session in roots if paths.passes(each, session)]
                passing[key] = [*identities, *behind]
            behind = passing[key] if learned else []
            for session in behind:
                here = lost.setdefault(id(session), {})
                here[each.node] = here.get(each.node, False) or wrong is None or (each.node, each.object) in wrong
            return bool(behind) or (is_unlearned(each) and (each.node, prefix) in attached) or over
        if each.kind == "address" and words_of(each)[:1] and words_of(each)[0].startswith(_LINK_LOCAL):
            return (each.node, each.interface) in bare
        if each.kind in {"neighbour", "fdb"}:
            there = peer_of(paths.topology, each.node, each.interface)
            return bool({(each.node, each.interface), (*there.split(":"),)} & joined)
        if each.kind == "frr":
            return (each.node, each.object.removeprefix("frr ").removeprefix("no ")) in stopped
        return (
            each.kind == "bfd session"
            and is_state(each)
            and peer_of(paths.topology, each.node, each.interface) in absent
        )

    left = [each for each in settings if not follows(each)]
    return [_with_lost_routes(each, lost.get(id(each), {})) for each in left]


def _with_lost_routes(setting: DifferingSetting, nodes: Mapping[str, bool]) -> DifferingSetting:
    """Return a setting with the effect that nodes have fewer paths or routes, or only other ones than planned."""
    listed = [node for node, wrong in nodes.items() if wrong] or [*nodes]
    if not listed:
        return setting
    shown = ", ".join(listed[:_SHOWN]) + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")
    begin = FEWER_ROUTES if any(nodes.values()) else _OTHER_ROUTES
    return replace(setting, touches=(*setting.touches, f"{begin}{shown}"))


def _is_chosen(route: DifferingSetting) -> bool:
    """Return whether a daemon chose what differs of a route: it sets no MTU."""
    return route.protocol in LEARNED and route.setting in {"presence", "next hops", "gateway"}


def words_of(setting: DifferingSetting) -> list[str]:
    """Return the words of an object's name after its kind."""
    return setting.object.removeprefix(setting.kind).split()


def changes_routes(setting: DifferingSetting) -> bool:
    """Return whether a setting is a routing session that is down, or what it may send and use.

    OSPF and IS-IS exchange no routes over a link whose ends have different MTUs (RFC 2328 section 10.6).
    """
    if _is_mtu(setting) or is_missing_interface(setting):
        return True
    if setting.kind == "frr":
        return not is_quiet(setting) and not is_definition(setting.object)
    return setting.kind == "daemon" or (setting.kind == "bgp session" and is_state(setting))


def _is_new_manual(setting: DifferingSetting) -> bool:
    """Return whether a setting is a route that should not exist, and that no daemon learned."""
    return setting.kind == "route" and is_new(setting) and setting.protocol not in {"", *LEARNED}


def _is_mtu(setting: DifferingSetting) -> bool:
    return (setting.kind, setting.setting) == ("interface", "mtu")


def _new_network(setting: DifferingSetting) -> str:
    """Return the network of an address that a node should not have; "" for other settings."""
    words = words_of(setting)
    extra = setting.setting == "owner" or (setting.setting == "presence" and setting.expected.startswith("absent"))
    if setting.kind != "address" or not extra or not words:
        return ""
    try:
        return str(ip_network(words[0], strict=False))
    except ValueError:  # of a damaged recording
        return ""


def _is_ipv6_off(setting: DifferingSetting) -> bool:
    return bool(_IPV6_OFF.search(setting.object)) and setting.value == "1" and bool(setting.interface)


def _is_lost_session(setting: DifferingSetting) -> bool:
    return setting.kind == "bfd session" and setting.setting == "presence" and setting.value.startswith("absent")


def peer_of(topology: Topology, node: str, interface: str) -> str:
    """Return the other end of a port's link; "" without one."""
    return next(
        (
            str(link.other(link.end_at(node)))
            for link in topology.links_of(node)
            if link.end_at(node).interface == interface
        ),
        "",
    )
