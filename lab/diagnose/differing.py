"""Settings that differ: from the fabric's plan, from siblings, from the other end of a link, from what must hold.

One at the place of a cause, of lost packets, or of evidence without a cause supports it. Others have no effect yet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from lab.audit.comparisons.intended import Intentions
from lab.audit.comparisons.siblings import SIBLINGS
from lab.audit.difference import ABSENT, PLAN, PRESENCE, UNLIKE, Difference, first_of_each
from lab.audit.placement import FabricRoles
from lab.audit.rules.address_rules import OF_ANY_VALUE
from lab.audit.rules.route_widths import RULE, drained_switches
from lab.audit.without_plan import differences_without_plan
from lab.diagnose.causes.route_fixes import words_as_it_is
from lab.diagnose.consequences import DRAINED, changes_routes, without_details
from lab.diagnose.conservation.corruption import with_corruption
from lab.diagnose.related_settings import with_related_settings
from lab.diagnose.route_paths import RoutePaths, owners_of_networks, peer_of
from lab.diagnose.setting_causes import with_setting_causes
from lab.diagnose.symptom import matches
from lab.telemetry.read.audits import audit_at, read_audits
from lab.telemetry.store.recording_folder import invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lab.audit.audited import NodeAudit
    from lab.diagnose.diagnosis import Diagnosis
    from lab.diagnose.symptoms.crossed_cables import CrossedCable
    from lab.model.topology import Topology
    from lab.telemetry.read.recording import Recording

_NS: Final = 10**9
TOPOLOGY: Final = "topology"
"""``DifferingSetting.against`` for the cables of the topology, which LLDP would be compared with."""
_TUNNEL: Final = "vxlan"
_FLOODED: Final = "fdb 00:00:00:00:00:00 "
"""The beginning of the name of an entry by which a tunnel floods to another one (bridge(8))."""
_LOCAL: Final = "local"
_WORD: Final = re.compile(r"[^\s,]+")
_NO_END: Final = frozenset({ABSENT, "none"})
_PORT_STATE: Final = "port state"
_CABLE: Final = "cable"
_OF_PEERS: Final = frozenset({"route", "neighbour", "bgp session", "bfd session"})
"""Kinds of objects that have the addresses of the node at the other end of a cable."""
_OF_METRICS: Final = ("mtu", "hop limit")
"""Settings of a route that are among its metrics."""
_OF_SESSIONS: Final = frozenset({"frr", "bgp session"})
"""Kinds of objects whose names may have that of a port."""


@dataclass(frozen=True, slots=True)
class DifferingSetting:
    """A setting that is not as expected."""

    node: str
    object: str
    """The object's name on its node, like ``route 10.0.0.4/31``."""
    setting: str
    value: str
    expected: str
    against: str
    """``plan``, ``siblings``, ``topology``, the other end of the link, or ``rule``: what must hold in any fabric."""
    kind: str = ""
    """The kind of the object: ``interface``, ``route``, ``sysctl``, ``port``, ..."""
    interface: str = ""
    """The interface that the object belongs to; empty for none."""
    protocol: str = ""
    """The protocol of a route as it is, like ``bgp``; empty for other objects and routes that are missing."""
    route: str = ""
    """A unicast route as it is, after its prefix, as ip-route(8) takes it; empty for other objects."""
    handle: int = 0
    """The handle of a rule of nftables; 0 for other objects."""
    intended: bool = False
    """Whether one node of its role may have it by intent, like a neighbour outside of the fabric."""
    harmless: bool = False
    """Whether it changes nothing for packets as it is, like a neighbour entry with the right MAC."""
    tunnel: bool = False
    """Whether it is one of a tunnel (VXLAN), whose other ends lose packets as well."""
    shared: bool = False
    """Whether another node has the same value, which has to be its own, like a router ID."""
    owners: tuple[str, ...] = ()
    """The nodes with the address of a neighbour entry, to which a bridge may flood frames with its MAC."""
    touches: tuple[str, ...] = ()
    """Causes and effects on packets at its place, and evidence there without a cause; empty if no effect is seen."""


def with_differences(
    found: Diagnosis, recording: Recording, cables: Sequence[CrossedCable] = (), *, plan: bool
) -> Diagnosis:
    """Return the diagnosis with the settings that differ at the end of its window: those with an effect first.

    ``plan`` also compares with the fabric's plan. ``cables`` are in another port than in the topology. A recording
    without the settings of nodes has no other differences. InvalidInput if a recorded setting cannot be read.
    """
    plugged = [_cable(each, _places_of(found), recording.topology) for each in cables]
    moment = audit_at(read_audits(recording.folder), recording.clock.start + round(found.end * _NS))
    if moment is None:
        return replace(found, differing=_in_order(plugged))
    known = {name: node for name, node in moment.state.nodes.items() if name in recording.topology.by_name}
    try:
        differences = differences_without_plan(replace(moment.state, nodes=known), recording.topology)
    except ValueError as error:  # of a prefix or an address that is none
        raise invalid(recording.folder.audit, "is damaged") from error
    shared = {(each.node, each.object) for each in differences if each.expected.startswith(UNLIKE)}
    wrong = {(each.node, each.object) for each in differences if each.kind == "route"}
    if plan and moment.drift is not None:  # first: the plan's value is more exact than that of siblings
        planned = [each for each in moment.drift if each.node in known]
        differences = first_of_each([*planned, *_unplanned(differences, planned)])
    places = _places_of(found)
    placement = FabricRoles(recording.topology)
    intentions = Intentions(known, placement)
    differs = {(each.node, each.object) for each in differences if each.kind == "route"}
    routes = {
        (name, each.identity): each
        for name, node in known.items()
        for each in node.routes
        if (name, each.identity) in differs
    }
    handles = {(name, each.identity): each.number for name, node in known.items() for each in node.nft}
    tunnels = {
        (name, each.name): each.options.get("local", "")
        for name, node in known.items() for each in node.interfaces if each.kind == _TUNNEL
    }  # fmt: skip
    settings = [
        replace(
            _setting(each, () if intentions.is_harmless(each) else places, recording.topology),
            protocol=route.protocol if (route := routes.get((each.node, each.object))) else "",
            route=words_as_it_is(route) if route else "",
            handle=handles.get((each.node, each.object), 0),
            intended=intentions.is_possible(each),
            harmless=intentions.is_harmless(each),
            tunnel=(each.node, each.interface) in tunnels,
            shared=(each.node, each.object) in shared,
            owners=_owners_of(each, known),
        )
        for each in _without_far_ends(_explained(differences), tunnels)
        if not _follows_from(cables, each)
    ]
    paths = RoutePaths(recording.topology, owners_of_networks(known.values()))
    settings = _with_drained(
        without_details(settings, paths, wrong), drained_switches(known, recording.topology), paths
    )
    shown = with_corruption(
        with_setting_causes(with_related_settings(replace(found, differing=_in_order(settings))), paths), known
    )
    return replace(shown, differing=_in_order([*plugged, *shown.differing]))


def _owners_of(found: Difference, nodes: Mapping[str, NodeAudit]) -> tuple[str, ...]:
    """Return the other nodes with the address of a neighbour entry; empty for other objects."""
    words = {*found.object.split()} if found.kind == "neighbour" else set()
    return tuple(name for name, node in nodes.items() if name != found.node and words & node.bare_addresses())


def _with_drained(
    settings: Iterable[DifferingSetting], drained: Mapping[str, frozenset[int]], paths: RoutePaths
) -> list[DifferingSetting]:
    """Add that no route leads over a switch any more to settings that can do this, at either end of its links."""

    def effects(each: DifferingSetting) -> tuple[str, ...]:
        ends = (each.node, peer_of(paths.topology, each.node, each.interface).partition(":")[0])
        switch = next((end for end in ends if end in drained), "")
        if not switch or not changes_routes(each):
            return each.touches
        (version, *others) = drained[switch]
        family = "" if others else f"IPv{version} "
        return (*each.touches, f"{switch}{DRAINED}: no {family}route of others leads over it")

    return [replace(each, touches=effects(each)) for each in settings]


def _in_order(settings: Iterable[DifferingSetting]) -> tuple[DifferingSetting, ...]:
    return tuple(sorted(settings, key=lambda each: not each.touches))


def _cable(cable: CrossedCable, places: Iterable[tuple[str, str]], topology: Topology) -> DifferingSetting:
    node, _, interface = cable.port.partition(":")
    (link,) = (each for each in topology.links if cable.port in map(str, each.ends))
    (planned,) = (str(end) for end in link.ends if str(end) != cable.port)
    found = Difference(
        node=node,
        kind=_CABLE,
        object=f"{_CABLE} {interface}",
        field="other end",
        value=cable.other_end,
        expected=planned,
        against=TOPOLOGY,
        interface=interface,
    )
    return _setting(found, places, topology)


def _follows_from(cables: Sequence[CrossedCable], found: Difference) -> bool:
    """Return whether a route, neighbour or session of ports differs because their cables are swapped."""
    ports = {end for cable in cables for end in (cable.port, cable.other_end)}
    here = {end.partition(":")[2] for end in ports if end.partition(":")[0] == found.node}
    words = {*f"{found.object} {found.value} {found.expected}".replace(",", " ").split()}
    return found.kind in _OF_PEERS and bool(here & {found.interface, *words})


def _explained(differences: Sequence[Difference]) -> list[Difference]:
    """Leave out what another difference explains.

    That is a port that differs from the other end of its link, if that end differs from the plan or its siblings. It
    is also the gateway of a route whose next hops differ, and each property of one that should not exist. The
    metrics of a route contain its MTU and hop limit, and a command that sets them makes the route a manual one. The
    options of a port of a bridge or bond follow from its master, and its state from the interface. With an address,
    its GID and the routes by its interface are gone.
    """
    changed = {
        (f"{each.node}:{each.interface}", each.kind, each.field)
        for each in differences
        if each.against in {PLAN, SIBLINGS}
    }
    routes = {(each.node, each.object, each.field) for each in differences if each.kind == "route"}
    moved = {(each.node, each.object) for each in differences if (each.kind, each.field) == ("interface", "master")}

    addresses = {(each.node, each.interface) for each in differences if each.kind == "address"}
    lost = {(each.node, each.interface) for each in differences if each.kind == "address" and _is_gone(each)}
    shut = {(each.node, each.object) for each in differences if each.field in {"up", "carrier"}}

    def is_detail(each: Difference) -> bool:
        if each.kind == "gid" and (each.node, each.interface) in addresses:
            return True
        if each.kind == "route" and _is_gone(each):
            words = each.expected.replace(",", " ").split()
            return any((each.node, name) in lost for before, name in pairwise(words) if before == "dev")
        if each.kind == "interface" and each.field.startswith("port "):
            return (each.node, each.object) in moved or (
                each.field == _PORT_STATE and (each.node, each.object) in shut
            )
        of_route = [field for field in (PRESENCE, "next hops") if (each.node, each.object, field) in routes]
        of_metrics = not of_route and any((each.node, each.object, field) in routes for field in _OF_METRICS)
        return each.kind == "route" and (
            (each.field == "gateway" and bool(of_route))
            or (each.field in {*_OF_METRICS, "prefsrc"} and PRESENCE in of_route)
            or (each.field in {"metrics", "protocol"} and of_metrics)
        )

    return [
        each for each in differences if (each.against, each.kind, each.field) not in changed and not is_detail(each)
    ]


def _without_far_ends(
    differences: Sequence[Difference], tunnels: Mapping[tuple[str, str], str]
) -> Iterable[Difference]:
    """Leave out where leaves do not flood to each other any more, if the tunnel of one differs: that follows from it.

    ``tunnels`` are the addresses of tunnels, by node and interface; "" for one that is not known.
    """
    changed = {(each.node, each.interface) for each in differences if each.kind == "interface"} & tunnels.keys()
    ends = {tunnels[each] for each in changed}
    ends |= {
        end
        for each in differences if (each.node, each.interface) in changed and each.field == _LOCAL
        for end in (each.value, each.expected)
    }  # fmt: skip

    def follows(each: Difference) -> bool:
        if each.object.startswith(_FLOODED):
            return (each.node, each.interface) in changed or bool({"", each.object.split()[-1]} & ends)
        if (each.kind, each.field) != ("vni", "remotes"):
            return False
        lost = set(_WORD.findall(each.value)) ^ set(_WORD.findall(each.expected))
        return "" in ends or each.node in {node for node, _ in changed} or lost - _NO_END <= ends

    return [each for each in differences if not (changed and follows(each))]


def _is_gone(found: Difference) -> bool:
    return found.field == PRESENCE and found.value.startswith(ABSENT)


def _unplanned(differences: Iterable[Difference], planned: Sequence[Difference]) -> list[Difference]:
    """Leave out manual routes that take precedence, interfaces without an address, and lines that siblings lack.

    The plan has them, like the lines of a topology's ``frr``, or lists them itself. The same holds for lines of FRR
    that the other end of a link has otherwise, and for sessions of BFD that are missing: the plan has their peer.
    """
    absent = {(each.node, each.interface, each.value) for each in planned if each.kind == "bfd session"}

    def is_planned(each: Difference) -> bool:
        if each.kind == "frr" or each.object == f"{OF_ANY_VALUE}{each.interface}":
            return True
        if each.kind == "bfd session" and (each.node, each.interface, each.value) in absent:
            return True
        return each.against == RULE and each.kind == "route" and (each.field, each.expected) == (PRESENCE, ABSENT)

    return [each for each in differences if not is_planned(each)]


def _places_of(found: Diagnosis) -> list[tuple[str, str]]:
    """Return pairs of a finding and its place: causes, places where packets are lost, and unexplained evidence."""
    named = [(cause.cause, place) for cause in found.causes if cause.fault for place in cause.places if place]
    named += [(each.effect.value, each.place) for each in found.located]
    return [*named, *((f"unexplained: {each.says}", each.of) for each in found.unexplained if each.of)]


def _setting(found: Difference, places: Iterable[tuple[str, str]], topology: Topology) -> DifferingSetting:
    if not found.interface and found.kind in _OF_SESSIONS:
        found = replace(found, interface=_named_port(found, topology))
    near = _near(found, topology)
    touched = {name for name, place in places if any(matches(place, each) for each in near)}
    return DifferingSetting(
        node=found.node,
        object=found.object,
        setting=found.field,
        value=found.value,
        expected=found.expected,
        against=found.against,
        kind=found.kind,
        interface=found.interface,
        touches=tuple(sorted(touched)),
    )


def _named_port(found: Difference, topology: Topology) -> str:
    """Return the cabled port of its node that an object's name has; "" for none, or several."""
    words = {*found.object.replace(" / ", " ").split()}
    ports = [link.end_at(found.node).interface for link in topology.links_of(found.node)]
    named = [port for port in ports if port in words]
    return named[0] if len(named) == 1 else ""


def _near(found: Difference, topology: Topology) -> list[str]:
    """Return the places of a setting: a port and the other end of its link, or the whole node."""
    if not found.interface:
        return [found.node]
    peers = [
        str(link.other(link.end_at(found.node)))
        for link in topology.links_of(found.node)
        if link.end_at(found.node).interface == found.interface
    ]
    return [f"{found.node}:{found.interface}", *peers]
