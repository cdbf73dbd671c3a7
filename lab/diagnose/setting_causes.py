"""Settings as causes: one that differs, and within whose reach packets are lost or altered, is what is wrong there.

A cause that was concluded from packets alone is replaced. Settings add none beside a cause that
names the same setting, or that explains the same packets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lab.audit.comparisons.frr_lines import is_definition
from lab.audit.difference import PRESENT
from lab.audit.objects.device_objects import IN_KERNEL
from lab.audit.objects.routing_objects import BFD_SHUTDOWN
from lab.diagnose.causes.route_fixes import is_unlearned
from lab.diagnose.causes.setting_fixes import EITHER, remedies
from lab.diagnose.causes.setting_kinds import (
    INFERRED,
    SETTING_KINDS,
    SHUTDOWN,
    SettingReach,
    is_missing_interface,
    is_shut_port,
    is_shutdown,
    kind_of,
)
from lab.diagnose.consequences import DRAINED, FEWER_ROUTES, TIMERS, is_label, is_quiet, is_state, takes_sessions_down
from lab.diagnose.conservation.locations import PacketEffect
from lab.diagnose.diagnosis import DiagnosisOutcome, Found
from lab.diagnose.facts import ARROW
from lab.diagnose.route_paths import peer_of
from lab.diagnose.symptom import Evidence, matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lab.diagnose.causes.setting_kinds import SettingKind
    from lab.diagnose.diagnosis import Diagnosis
    from lab.diagnose.differing import DifferingSetting
    from lab.diagnose.route_paths import RoutePaths
    from lab.model.topology import Topology

_OF_ONE_NETWORK: Final = frozenset({
    "spine-as-bottleneck", "stale-neighbour", "duplicate-mac", "headroom-too-small", "acl-4791", "incast",
})  # fmt: skip
"""Causes that also show where hosts of several networks see each other's frames, and where frames loop."""
_FEWER_PATHS: Final = "one-path-only"
"""The cause that is concluded from the number of next hops."""
_OF_ALL_PORTS: Final = "pfc-watchdog-missing"
"""The cause that is concluded from all ports of a switch to hosts. Those of two leaves have no majority."""
_OF_SESSIONS: Final = "session-differs"
_RUNS: Final = "yes"
"""The value of a daemon's setting if it is alive."""
_OF_ALL_INTERFACES: Final = frozenset({"sysctl", "frr", "daemon"})
"""Kinds whose settings of a node change those of its interfaces and sessions."""
_PATHS_TAKEN: Final = 0.96
"""Confidence of missing paths, if a setting that takes them away is known."""
_AT_ITS_PLACE: Final = 0.93
"""Confidence, if packets are lost or altered within a setting's reach."""
_NEARBY: Final = 0.75
"""The same, if something is wrong at its node or the next one, and the place of the packets is not known."""
_ANYWHERE: Final = 0.6
"""The same, if something is wrong at an unknown place."""
_UNLIKELY: Final = 0.3
"""Confidence up to which a cause explains no packets: something else is more likely."""
_ONE_OF_TWO: Final = 0.6
"""The highest confidence, if the ends of a link differ from each other and nothing shows which one is wrong."""
_FIXES: Final = 8
"""The maximum number of commands of a fix."""
_LINES: Final = 8
"""The maximum number of evidence lines per cause."""


@dataclass(frozen=True, slots=True)
class _Effect:
    """Something wrong: at a place, or at an unknown one ("")."""

    place: str
    effect: PacketEffect | None
    """None if only its consequences are seen."""
    ping: bool = False
    """Whether a ping was not answered."""


@dataclass(frozen=True, slots=True)
class _Suspects:
    """The settings of one kind at one place that differ."""

    kind: SettingKind
    node: str
    place: str
    settings: tuple[DifferingSetting, ...]


def with_setting_causes(found: Diagnosis, paths: RoutePaths) -> Diagnosis:
    """Return the diagnosis with differing settings as causes, if they can have the effects that are seen."""
    topology = paths.topology
    found = replace(found, causes=tuple(_with_remedy(each, found, paths) for each in found.causes))
    effects = _open_effects(found)
    if not effects:
        return found
    suspects = list(_suspects(found.differing))
    shut = [each for each in suspects if each.kind.cause == SHUTDOWN]
    rated = [(each, level) for each in suspects if (level := _level(each, effects, shut, topology))]
    best = max((level for _, level in rated), default=0.0)
    if not best or any(_is_named(each, found.causes) for each, level in rated if level == best):
        return found
    likely = _without_consequences([each for each, level in rated if level == best], paths)
    names = tuple(dict.fromkeys(each.kind.cause for each in likely))
    causes = [
        _cause([each for each in likely if each.kind.cause == name], best / len(likely), found, topology)
        for name in names
    ]
    either = [replace(each, alternatives=tuple(name for name in names if name != each.cause)) for each in causes]
    joined = any(_joins_networks(one) for each in likely for one in each.settings)
    kept = [
        each
        for each in found.causes
        if not (each.fault and (_is_explained(each, likely, topology) or (joined and each.cause in _OF_ONE_NETWORK)))
    ]
    if best < _AT_ITS_PLACE and any(each.fault and each.cause in INFERRED for each in kept):
        return found  # it names a place of the packets, and these settings do not reach it
    ordered = sorted([*either, *kept], key=lambda each: (not each.fault, -each.confidence))
    return replace(found, outcome=DiagnosisOutcome.FAULT, causes=tuple(ordered), unexplained=())


def _with_remedy(cause: Found, found: Diagnosis, paths: RoutePaths) -> Found:
    """Return a cause with the commands that restore the settings that it names, in place of its general fix.

    If they are of one port, and the cause only names the port's node or its link, the port is the place. Missing
    paths are those of a session or a link elsewhere, whichever switch lacks them.
    """
    settings = found.differing
    if cause.cause == _OF_ALL_PORTS and not any(":" in place for place in cause.places):
        return cause
    if cause.cause == _FEWER_PATHS and (narrowed := _of_fewer_paths(cause, found, paths)):
        return narrowed
    mine = [
        each
        for each in settings
        if _is_of(cause, each)
        and not (is_state(each) or is_unlearned(each))
        and any(matches(place, _place_of(each)) for place in cause.places)
    ]
    cause = _narrowed(cause, mine, found.end)
    if (shut := [each for each in mine if is_shut_port(each)]) and len(cause.places) == 1:
        cause = _of_shut_ports(cause, shut, found.end)
    used = [each for each in mine if not _is_definition(each)]
    ports = {_place_of(each) for each in used or mine}
    if len(ports) == 1 and len(cause.places) == 1:
        (port,), (place,) = ports, cause.places
        if port.partition(":")[0] == place or port in place.split("--"):
            cause = replace(cause, places=(port,))
    if mine and cause.cause == _FEWER_PATHS:
        cause = replace(cause, confidence=_PATHS_TAKEN)
    commands = remedies(mine)
    if cause.fault and commands and all(command.removeprefix(EITHER).startswith("rocelab") for command in commands):
        return replace(cause, fix="; ".join(commands[:_FIXES]))
    return cause


def _of_shut_ports(cause: Found, shut: Sequence[DifferingSetting], at: float) -> Found:
    """Return a link that is down with the port that an administrator shut, if it is only one of its ends."""
    ports = dict.fromkeys(map(_place_of, shut))
    (place,) = cause.places
    if len(ports) != 1 or not {*ports} <= {*place.split("--")}:
        return cause
    by_frr = any(each.kind == "frr" for each in shut)
    title = f"a port is administratively shut down, {'by FRR' if by_frr else 'in the kernel'}"
    evidence = (*(evidence_of(each, at) for each in shut), *cause.evidence)[:_LINES]
    return replace(cause, title=title, evidence=evidence)


def _narrowed(cause: Found, settings: Sequence[DifferingSetting], at: float) -> Found:
    """Return a cause with the only one of several equal places that has settings that it names."""
    places = [each for each in cause.places if any(matches(each, _place_of(one)) for one in settings)]
    if cause.confidence >= _NEARBY or len(cause.places) < 2 or len(places) != 1:
        return cause
    evidence = (*(evidence_of(each, at) for each in settings), *cause.evidence)[:_LINES]
    return replace(cause, places=tuple(places), confidence=_AT_ITS_PLACE, evidence=evidence)


def _is_of(cause: Found, setting: DifferingSetting) -> bool:
    """Return whether a cause names a setting. A port that runs with other settings than its own can have any."""
    if (setting.kind, setting.setting) == ("port", IN_KERNEL):
        return any(cause.cause in each.same for each in SETTING_KINDS if setting.kind in each.objects)
    kind = kind_of(setting)
    return kind is not None and cause.cause in kind.same


def _of_fewer_paths(cause: Found, found: Diagnosis, paths: RoutePaths) -> Found | None:
    """Return missing paths at the place of the setting that takes them away; None without such a setting.

    That is a session that brings no prefix; if its configuration differs at one end, that end is the place. Without
    one, it is a line of FRR about a link on the way to the switch that lacks paths. If the ends of that link only
    differ from each other, one of them is wrong.
    """
    lines = [each for each in found.differing if each.kind == "frr" and not (is_quiet(each) or each.intended)]
    sessions = [each for each in found.differing if each.kind == "bgp session" and each.setting not in TIMERS]
    if sessions:
        ends = {
            place
            for each in sessions
            for place in (_place_of(each), peer_of(paths.topology, each.node, each.interface))
        }
        lines = [each for each in lines if _place_of(each) in ends]
        fix = "; ".join(remedies(lines)) or cause.fix
        places = tuple(dict.fromkeys(map(_place_of, lines or sessions)))
        return replace(cause, places=places, confidence=_PATHS_TAKEN, fix=fix)
    switches = {place.partition(":")[0] for place in cause.places}
    if any(each.kind != "frr" and each.node in switches and _is_of(cause, each) for each in found.differing):
        return None
    lines = [each for each in lines if _is_cabled(each.interface) and not is_definition(each.object)]
    lines = [each for each in lines if any(_narrows(each, switch, paths) for switch in switches)]
    mutual = [each for each in lines if each.against in {_place_of(other) for other in lines}]
    here = [each for each in lines if each.node in switches and each not in mutual]
    if not lines or (not mutual and len(here) == len(lines) and len(switches) == 1):
        return None
    lines = here or [each for each in lines if each not in mutual] or mutual
    certain = _PATHS_TAKEN if lines != mutual else _ONE_OF_TWO
    evidence = (*(evidence_of(each, found.end) for each in lines), *cause.evidence)[:_LINES]
    places = tuple(dict.fromkeys(map(_place_of, lines)))
    return replace(cause, places=places, confidence=certain, evidence=evidence, fix="; ".join(remedies(lines)))


def _narrows(line: DifferingSetting, switch: str, paths: RoutePaths) -> bool:
    """Return whether a line about a link can take paths from a switch: some lead over that link."""
    others = (each.name for each in paths.topology.switches if each.name != switch)
    return any(paths.leads(owner, switch, line) for owner in others)


def _place_of(setting: DifferingSetting) -> str:
    return f"{setting.node}:{setting.interface}" if _is_cabled(setting.interface) else setting.node


def _open_effects(found: Diagnosis) -> list[_Effect]:
    """Return what no cause with a proof of its own explains."""
    proven = [
        each for each in found.causes if each.fault and each.cause not in INFERRED and each.confidence > _UNLIKELY
    ]
    explained = [place for each in proven for place in each.places]
    effects = [_Effect(each.place, each.effect) for each in found.located]
    effects += [
        _Effect(place, PacketEffect.VANISH)
        for each in found.causes
        if each.fault and each.cause in INFERRED
        for place in each.places
    ]
    if not effects and not proven:
        effects = [_Effect(each.of, None, each.source == "ping") for each in found.unexplained]
        effects = effects or [_Effect(_place_of(each), None) for each in found.differing if _is_down(each)]
    if proven:  # whatever else is wrong, a session that an administrator shut is wrong, too
        shut = [each for each in found.differing if is_shutdown(each) and _is_down(each)]
        effects += [_Effect(_place_of(each), None) for each in shut]
    return [each for each in effects if not any(matches(each.place, place) for place in explained)]


def _is_down(setting: DifferingSetting) -> bool:
    """Return whether a session or a daemon is down, or routes are missing: wrong, also if no packet is lost yet.

    Routes that no probe uses can be those of IPv6. A switch can be drained by intent, but not by a dead daemon.
    """
    if setting.kind in {"daemon", "node"} or is_missing_interface(setting):
        return kind_of(setting) is not None and setting.value not in {PRESENT, _RUNS}
    if any(each.startswith(FEWER_ROUTES) for each in setting.touches) and not setting.intended:
        return not any(DRAINED in each for each in setting.touches)
    states = setting.setting in {"state", "status"} and setting.value != BFD_SHUTDOWN
    return is_state(setting) and states and setting.kind != "interface" and not setting.intended


def _suspects(settings: Sequence[DifferingSetting]) -> Iterable[_Suspects]:
    """Yield the settings that can disturb packets, those of one kind and place together."""
    groups: dict[tuple[str, str, str], list[DifferingSetting]] = {}
    kinds: dict[str, SettingKind] = {}
    for each in settings:
        kind = kind_of(each)
        if kind is not None:
            kinds[kind.cause] = kind
            groups.setdefault((kind.cause, each.node, each.interface), []).append(each)
    for (cause, node, interface), mine in _with_definitions(groups).items():
        whole = groups.get((cause, node, ""), ())
        if all(map(_is_definition, whole)):
            whole = ()
        if interface and any(each.kind in _OF_ALL_INTERFACES for each in whole):  # it has changed the interface's
            continue
        yield _Suspects(kind=kinds[cause], node=node, place=_place_of(mine[0]), settings=tuple(mine))


def _with_definitions(
    groups: Mapping[tuple[str, str, str], list[DifferingSetting]],
) -> dict[tuple[str, str, str], list[DifferingSetting]]:
    """Return groups of settings, with route maps and lists that a node defines at the port that uses them."""
    found = dict(groups)
    for (cause, node, interface), mine in groups.items():
        used = [key for key in groups if key[:2] == (cause, node) and key[2]]
        if not interface and used and all(map(_is_definition, mine)):
            del found[cause, node, interface]
            found[used[0]] = [*groups[used[0]], *mine]
    return found


def _is_definition(setting: DifferingSetting) -> bool:
    return setting.kind == "frr" and is_definition(setting.object)


def _is_cabled(interface: str) -> bool:
    return bool(interface) and interface not in {"lo", "all", "default"}


def _level(suspects: _Suspects, effects: Sequence[_Effect], shut: Sequence[_Suspects], topology: Topology) -> float:
    """Return how sure it is that settings have one of the effects; 0.0 if they cannot have any.

    If all effects are at ends of sessions that an administrator ``shut``, that is sure.
    """
    known = [each for each in effects if each.effect in suspects.kind.effects]
    if any(_reaches(suspects, each.place, topology) for each in known):
        return _AT_ITS_PLACE
    unknown = [each for each in effects if each.effect in {None, PacketEffect.REORDER}]
    unknown = [each for each in unknown if each.ping or not suspects.kind.pings]
    ended = [[each for each in unknown if _is_end(one, each.place, topology)] for one in shut]
    if (
        suspects in shut
        and ended[shut.index(suspects)]
        and all(any(each in mine for mine in ended) for each in unknown)
    ):
        return _AT_ITS_PLACE
    if not unknown or not (suspects.kind.effects or suspects.kind.pings):
        return 0.0
    links = topology.links_of(suspects.node)
    near = {suspects.node, *(link.other(link.end_at(suspects.node)).node for link in links)}
    if any(node in near for each in unknown for node in _nodes(each.place)):
        return _NEARBY
    return _ANYWHERE


def _is_end(suspects: _Suspects, place: str, topology: Topology) -> bool:
    """Return whether a place is one of the ends of a link of suspects: sessions were lost there."""
    node, _, interface = place.partition(":")
    ends = {place, node, peer_of(topology, node, interface)} if place else set()
    return suspects.place in ends or suspects.place in {end.partition(":")[0] for end in ends}


def _without_consequences(suspects: Sequence[_Suspects], paths: RoutePaths) -> list[_Suspects]:
    """Leave out states that follow from settings, and what a node may have by intent if something else differs.

    Lines that only name or describe something are left out as well, unless nothing else differs.
    A session that is down follows from another setting at either end that can take it down. Learned routes that are
    missing, not advertised, or have fewer next hops, follow from the sessions by which they are advertised.
    """
    unintended = [each for each in suspects if not all(one.intended for one in each.settings)]
    suspects = unintended or suspects
    suspects = [each for each in suspects if not all(map(is_label, each.settings))] or suspects
    states = [each for each in suspects if all(is_state(one) and not is_shutdown(one) for one in each.settings)]
    routes = [each for each in suspects if all(map(is_unlearned, each.settings))]
    others = [each for each in suspects if each not in states and each not in routes]
    sessions = [each for each in others if each.kind.cause == _OF_SESSIONS and not _is_timer(each)]
    routing = [one for each in (*states, *sessions) for one in each.settings]
    found = []
    for each in suspects:
        follows = each in states and any(_takes_down(root, each, paths.topology) for root in others)
        learned = each in routes and all(any(paths.passes(one, root) for root in routing) for one in each.settings)
        if not follows and not learned:
            found.append(each)
    return found


def _takes_down(root: _Suspects, state: _Suspects, topology: Topology) -> bool:
    """Return whether settings at either end of a session or link, or of its port there, can take it down."""
    _, _, interface = state.place.partition(":")
    ends = {state.place, peer_of(topology, state.node, interface)}
    places = ends | {end.partition(":")[0] for end in ends}
    down = (takes_sessions_down(one, session) for one in root.settings for session in state.settings)
    return root.place in places and any(down)


def _is_timer(suspects: _Suspects) -> bool:
    return all(each.kind == "bgp session" and each.setting in TIMERS for each in suspects.settings)


def _nodes(place: str) -> set[str]:
    """Return the nodes of a port, a link, or a transfer."""
    return {end.partition(":")[0] for end in place.replace(ARROW, "--").split("--") if end}


def _reaches(suspects: _Suspects, place: str, topology: Topology) -> bool:
    """Return whether an effect at a place can be that of settings."""
    ends = place.split("--")
    inside = len(ends) == 1
    node, _, interface = suspects.place.partition(":")
    peer = peer_of(topology, node, interface) if interface else ""
    if inside and ends[0].partition(":")[0] == node:
        return True
    if inside and any(ends[0].partition(":")[0] in each.owners for each in suspects.settings):
        return True  # frames with the MAC of an entry are flooded to the owner of its address, which drops them
    if inside and any(each.tunnel for each in suspects.settings):  # frames vanish at its other ends and on the way
        return topology.node(ends[0].partition(":")[0]).role.is_switch
    if suspects.kind.reach is SettingReach.PORT:
        return suspects.place in ends or (not interface and node in _nodes(place)) or (inside and ends[0] == peer)
    there = ends[0].partition(":")[0]
    return suspects.kind.reach is SettingReach.PEER and inside and bool(peer) and there == peer.partition(":")[0]


def _is_named(suspects: _Suspects, causes: Iterable[Found]) -> bool:
    """Return whether a cause already names the settings."""
    return any(
        each.cause in suspects.kind.same and any(matches(place, suspects.place) for place in each.places)
        for each in causes
    )


def _joins_networks(setting: DifferingSetting) -> bool:
    """Return whether a bridge ignores VLANs: it joins all networks, floods between their tunnels, and frames loop."""
    return setting.kind == "interface" and (setting.setting, setting.value) == ("vlan_filtering", "0")


def _is_explained(cause: Found, likely: Iterable[_Suspects], topology: Topology) -> bool:
    """Return whether a cause is only a conclusion from packets, which one of the settings explains."""
    if cause.cause not in INFERRED:
        return False
    return any(
        cause.cause in each.kind.same or any(_reaches(each, place, topology) for place in cause.places)
        for each in likely
    )


def evidence_of(setting: DifferingSetting, at: float) -> Evidence:
    """Return a setting that differs as a line of evidence, at a time."""
    if is_shutdown(setting) or is_shut_port(setting):
        says = f"{setting.object}: administratively shut down ({setting.against})"
        return Evidence(says=says, of=_place_of(setting), source="settings", value=1, at=at)
    differs = f"{setting.setting} is {setting.value}, and not {setting.expected} ({setting.against})"
    return Evidence(says=f"{setting.object}: {differs}", of=_place_of(setting), source="settings", value=1, at=at)


def _to_restore(suspects: Sequence[_Suspects]) -> list[DifferingSetting]:
    """Return the settings to restore: sessions that are down come up by themselves when their configuration is.

    What a node may have by intent is left out beside others.
    """
    settings = [each for one in suspects for each in one.settings]
    settings = [each for each in settings if not each.intended] or settings
    return [each for each in settings if not is_state(each)] or settings


def _places_of(suspects: Sequence[_Suspects], topology: Topology) -> tuple[str, ...]:
    """Return the places of suspects. A node replaces several interfaces of its own that have no cable.

    The MTU of one of them changes that of its bridge, and of the VLANs of that.
    """
    loose = [
        each for each in suspects if ":" in each.place and not peer_of(topology, *each.place.split(":", 1))
    ]  # fmt: skip
    several = {each.node for each in loose if sum(other.node == each.node for other in loose) > 1}
    whole = [each.place for each in loose if each.node in several]
    return tuple(dict.fromkeys(each.node if each.place in whole else each.place for each in suspects))


def _cause(suspects: Sequence[_Suspects], share: float, found: Diagnosis, topology: Topology) -> Found:
    """Return settings of one kind as one cause: any of them can be the fault.

    Each place has the ``share`` of the confidence. The cause's name, and its fix of all places, are right if any of
    them is the fault, so that their confidence is the sum. It is at most that of a single place.
    """
    lines = [
        evidence_of(each, found.end)
        for one in suspects
        for each in one.settings[: max(1, _LINES // 2 // len(suspects))]
    ]
    seen = [each.evidence for each in found.located] or found.unexplained
    kind = suspects[0].kind
    return Found(
        cause=kind.cause,
        title=kind.title,
        fault=True,
        places=_places_of(suspects, topology),
        priority=None,
        confidence=round(share * len(suspects), 2),
        evidence=(*lines[: _LINES // 2], *seen)[:_LINES],
        rival="",
        tell="",
        fix="; ".join(remedies(_to_restore(suspects))[:_FIXES]),
        words=kind.words,
        since=found.start,
    )
