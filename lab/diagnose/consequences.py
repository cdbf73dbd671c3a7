"""Settings that only follow from others: sessions that are down, routes that are missing, addresses that are gone."""

from __future__ import annotations

import re
from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final

from lab.audit.comparisons.frr_lines import is_definition
from lab.audit.rules.route_widths import ADVERTISED, LEARNED
from lab.diagnose.causes.route_fixes import is_unlearned
from lab.diagnose.causes.setting_kinds import is_missing_interface, is_new, is_shutdown, kind_of
from lab.diagnose.route_paths import peer_address, peer_of, words_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from lab.diagnose.differing import DifferingSetting
    from lab.diagnose.route_paths import RoutePaths
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
_LABEL: Final = re.compile(r"(^| )(description|log|log-neighbor-changes)( |$)")
"""In quiet lines that change no session at all."""
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


def is_label(setting: DifferingSetting) -> bool:
    """Return whether a setting is a line of FRR's configuration that only names, describes or logs something."""
    if setting.kind != "frr":
        return False
    return (is_identity(setting) and not setting.shared) or bool(_LABEL.search(setting.object))


def is_identity(setting: DifferingSetting) -> bool:
    """Return whether a setting is a line of FRR's configuration that only identifies its switch.

    A NET of IS-IS with another area is none, nor is one that is missing: without a NET, IS-IS does not run.
    """
    if f"{_NET} " in setting.object and not is_new(setting):
        return False
    if setting.object.endswith(_NET):
        area, other = (value.split(".")[:-_OF_SYSTEM] for value in (setting.value, setting.expected))
        return setting.shared or area == other
    return bool(_ROUTER_ID.search(setting.object) or _BGP_ID.search(setting.object))


def _leads_to(prefix: str, session: DifferingSetting) -> bool:
    peer = peer_address(session)
    if not peer or peer.startswith(_LINK_LOCAL):
        return False
    try:
        return ip_address(peer) in ip_network(prefix, strict=False)
    except ValueError:
        return False


def _applies_to(rule: Sequence[str], session: DifferingSetting) -> bool:
    peer = peer_address(session)
    family = "inet6" if not peer or ":" in peer else "inet"
    if rule[:1] != [family]:
        return False
    if "to" not in rule[:-1]:
        return True
    to = rule[rule.index("to") + 1]
    return to == "all" or (_leads_to(to, session) if peer else to.startswith(_LINK_LOCAL))


def without_details(
    settings: Sequence[DifferingSetting], paths: RoutePaths, wrong: Collection[tuple[str, str]] | None = None
) -> list[DifferingSetting]:
    """Leave out what a setting at another place or of another kind explains, whatever its effect on packets.

    - learned routes that are missing, or over fewer paths, if a routing session by which they are advertised differs,
      or its configuration; one that drops packets only if a line of its node's configuration names the network, like
      an aggregate
    - a learned route to a network that its node has an address in now, or in which another node lost its address
    - a new learned route, if a line or a manual route of another node has its prefix
    - addresses of IPv6, and routes by a port, if IPv6 is off there or the port is missing
    - sessions that are down, if the other end has no such session
    - the line by which zebra shows that the kernel does not forward
    - neighbours and FDB entries of a port, if it or the other end of its link is in another bridge or bond

    What changes routes keeps the names of the nodes whose routes it explains. ``wrong`` are the routes, by node and
    object, that contradict others of the fabric; None for all. Others are only not as planned.
    """
    routes, objects = _ExplainedRoutes(settings, paths, wrong), _ExplainedObjects(settings, paths.topology)
    left = [each for each in settings if not (routes.explains(each) or objects.explains(each))]
    return [routes.with_lost(each) for each in left]


class _ExplainedRoutes:
    """The routes that other settings of a fabric explain, and the nodes whose routes each of these explains."""

    def __init__(
        self, settings: Sequence[DifferingSetting], paths: RoutePaths, wrong: Collection[tuple[str, str]] | None
    ) -> None:
        self._paths = paths
        self._wrong = wrong
        self._roots = [each for each in settings if changes_routes(each)]
        self._identities = [each for each in self._roots if each.shared and _ROUTER_ID.search(each.object)]
        self._attached = {(each.node, net) for each in settings if (net := _new_network(each))}
        self._detached = {net for each in settings if (net := _lost_network(each))}
        self._bare = _without_ipv6(settings)
        self._named = {(each.node, word) for each in settings if each.kind == "frr" for word in each.object.split()}
        manual = {" ".join(words_of(each)[:1]) for each in settings if _is_new_manual(each)}
        self._originated = {word for _, word in self._named} | manual
        self._passing: dict[object, list[DifferingSetting]] = {}
        self._lost: dict[int, dict[str, bool]] = {}

    def explains(self, each: DifferingSetting) -> bool:
        """Return whether a setting is a route that others explain, and keep its node for these."""
        if each.kind != "route" or each.setting == ADVERTISED:
            return False
        prefix = " ".join(words_of(each)[:1])
        if each.protocol in LEARNED and is_new(each) and prefix in self._originated:
            return True
        behind = self._behind(each) if self._is_learned(each, prefix) else []
        for root in behind:
            here = self._lost.setdefault(id(root), {})
            contradicts = self._wrong is None or (each.node, each.object) in self._wrong
            here[each.node] = here.get(each.node, False) or contradicts
        attached = is_unlearned(each) and (each.node, prefix) in self._attached
        detached = is_unlearned(each) and prefix in self._detached
        return bool(behind) or attached or detached or self._is_by_bare_port(each)

    def with_lost(self, setting: DifferingSetting) -> DifferingSetting:
        """Return a setting with the effect that nodes have fewer paths or routes, or only other ones than planned."""
        nodes = self._lost.get(id(setting), {})
        listed = [node for node, wrong in nodes.items() if wrong] or [*nodes]
        if not listed:
            return setting
        shown = ", ".join(listed[:_SHOWN]) + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")
        begin = FEWER_ROUTES if any(nodes.values()) else _OTHER_ROUTES
        return replace(setting, touches=(*setting.touches, f"{begin}{shown}"))

    def _is_learned(self, each: DifferingSetting, prefix: str) -> bool:
        dropped = bool(_DROPPING.search(each.value)) and (each.node, prefix) not in self._named
        return is_unlearned(each) or (_is_chosen(each) and not dropped)

    def _behind(self, each: DifferingSetting) -> list[DifferingSetting]:
        """Return what can have taken a learned route: the same for all routes between two switches."""
        by_bgp = each.protocol == _BGP or f"protocol {_BGP}" in each.expected
        key = self._paths.ends_of(each), by_bgp
        if key not in self._passing:
            roots = [one for one in self._roots if one not in self._identities and not (by_bgp and _is_mtu(one))]
            passed = [root for root in roots if self._paths.passes(each, root)]
            self._passing[key] = [*self._identities, *passed]
        return self._passing[key]

    def _is_by_bare_port(self, each: DifferingSetting) -> bool:
        hops = {*f"{each.expected} {each.value}".replace(",", " ").split()}
        return any(node == each.node and port in hops for node, port in self._bare)


class _ExplainedObjects:
    """The addresses, neighbours, lines and sessions that other settings of a fabric explain."""

    def __init__(self, settings: Sequence[DifferingSetting], topology: Topology) -> None:
        self._topology = topology
        self._bare = _without_ipv6(settings)
        self._absent = {f"{each.node}:{each.interface}" for each in settings if _is_lost_session(each)}
        members = [each for each in settings if (each.kind, each.setting) == ("interface", "master")]
        self._joined = {(each.node, each.interface) for each in members}
        sysctls = [each for each in settings if each.kind == "sysctl"]
        self._stopped = {(each.node, _FORWARDING.get(words_of(each)[0], "")) for each in sysctls}

    def explains(self, each: DifferingSetting) -> bool:
        """Return whether another setting explains one that is no route."""
        match each.kind:
            case "address":
                return self._explains_address(each)
            case "neighbour" | "fdb":
                there = peer_of(self._topology, each.node, each.interface)
                return bool({(each.node, each.interface), (*there.split(":"),)} & self._joined)
            case "frr":
                return (each.node, each.object.removeprefix("frr ").removeprefix("no ")) in self._stopped
            case "bfd session":
                return is_state(each) and peer_of(self._topology, each.node, each.interface) in self._absent
        return False

    def _explains_address(self, each: DifferingSetting) -> bool:
        of_ipv6 = ":" in " ".join(words_of(each)[:1])
        return of_ipv6 and (each.node, each.interface) in self._bare


def _without_ipv6(settings: Iterable[DifferingSetting]) -> set[tuple[str, str]]:
    """Return the ports, by node and interface, on which IPv6 is off or that are missing."""
    return {(each.node, each.interface) for each in settings if _is_ipv6_off(each) or is_missing_interface(each)}


def _is_chosen(route: DifferingSetting) -> bool:
    """Return whether a daemon chose what differs of a route: it sets no MTU."""
    return route.protocol in LEARNED and route.setting in {"presence", "next hops", "gateway"}


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
    extra = setting.setting == "owner" or is_new(setting)
    return _network(words[0]) if setting.kind == "address" and extra and words else ""


def _lost_network(setting: DifferingSetting) -> str:
    """Return the network of an address that a node does not have any more; "" for other settings."""
    words = words_of(setting)
    lost = setting.setting == "presence" and setting.value.startswith("absent")
    return _network(words[0]) if setting.kind == "address" and lost and words else ""


def _network(address: str) -> str:
    try:
        return str(ip_network(address, strict=False))
    except ValueError:  # of a damaged recording
        return ""


def _is_ipv6_off(setting: DifferingSetting) -> bool:
    return bool(_IPV6_OFF.search(setting.object)) and setting.value == "1" and bool(setting.interface)


def _is_lost_session(setting: DifferingSetting) -> bool:
    return setting.kind == "bfd session" and setting.setting == "presence" and setting.value.startswith("absent")
