"""Differences from siblings: objects with the same role should have the same settings.

The expected value is that of more than half of at least three siblings. A setting whose values have no majority
identifies its object, like a MAC address. A port's setting that equals that of the other end of its link is a
property of the link, and no difference.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from lab.audit.difference import ABSENT, PRESENCE, PRESENT, Difference, described, unread_kinds
from lab.audit.objects.device_objects import PortAudit
from lab.audit.objects.kernel_objects import InterfaceAudit, RuleAudit, SysctlAudit
from lab.audit.placement import FEWEST, PORT, generic, interface_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lab.audit.audited import FabricAudit, NodeAudit
    from lab.audit.objects.audited_object import AuditedObject
    from lab.audit.placement import FabricRoles

SIBLINGS: Final = "siblings"
_SETTINGS: Final = frozenset({"interface", "sysctl", "qdisc", "port"})
"""Kinds whose settings are compared."""
_SHARED: Final = frozenset({"interface", "qdisc", "port"})
"""Kinds whose settings may be a property of a link. Sysctls are not: hosts do not forward, and their leaves do."""
_PRESENCE: Final = frozenset({"sysctl", "qdisc", "filter", "nft", "rule"})
"""Kinds whose objects all siblings have in common."""
_QUEUEING: Final = frozenset({"filter", "qdisc"})
"""Kinds of objects that are compared at interfaces without a cable as well, like tunnels, if they are new."""
_OF_PROTOCOL: Final = ("bridge_id", "root_id", "root_port", "root_path_cost", "pool", "port state", "port root_id",
                       "port bridge_id", "port root_path_cost", "port cost", "port no", "port id",
                       "port designated_port", "port designated_cost", "active_slave", "port queue_id",
                       "port perm_hwaddr", "priority")  # fmt: skip
"""Options that spanning tree or LACP chooses, and the buffer that depends on the number of ports."""
_VRF_RULE: Final = "l3mdev"
"""In the rule that the kernel adds with the first VRF of a node."""
_LOCAL: Final = "lookup local"
"""The action of a rule that comes after that of VRFs, and before all others on nodes without VRFs."""
_OF_NETWORKS: Final = frozenset({"vxlan", "vlan"})
"""Kinds of interfaces that exist once for each network."""
_ANY_NAME: Final = " of any name"
"""The end of a role of interfaces for different networks."""
_OF_NETWORK: Final = frozenset({"mac", "id", "master", "port table", "local", "group"})
"""Options that belong to one network: gateways share a MAC, and the routers of tenants have their own.

The table of a gateway's routes is that of its VRF.
"""
_HOOK: Final = "clsact"
"""The qdisc that tc attaches filters to."""
_LACP: Final = ("ad_", "port ad_")
_OF_LINK: Final = ("rate", "mtu", "delay")
"""Settings of a port on which its thresholds depend."""

_JOINED: Final = frozenset({"bridge", "bond"})
"""Kinds of masters whose members have no addresses, and sysctls of IPv6 of their own. Those of a VRF are routed."""
_NetworkValue: TypeAlias = tuple[str, str, str]
"""The role of a network's tunnels or gateways, a setting, and its value."""
Objects: TypeAlias = "dict[str, AuditedObject]"
"""Objects by their names without those of interfaces and addresses."""


class _Slot(NamedTuple):
    """A part of a node that has siblings."""

    node: str
    interface: str = ""
    """"" for the node itself."""
    part: str = ""
    """"" for all objects but the sysctls of a port, which only ports with the same kind of master have in common."""


@dataclass(frozen=True, slots=True)
class _Usual:
    """The settings and objects of most siblings."""

    siblings: int
    having: Counter[str]
    """The number of siblings that have an object."""
    settings: Mapping[str, Mapping[str, str]]
    """The usual settings of each object that enough siblings have; those without a majority are left out."""
    known: Objects
    """An example of each object."""


def of_siblings(state: FabricAudit, placement: FabricRoles) -> list[Difference]:
    """Return the settings and objects that differ from those of most siblings."""
    slots = {slot: objects for slot, objects in _slots(state, placement).items() if not _is_unread(state, slot)}
    roles = {slot: _roles(slot, objects, placement) for slot, objects in slots.items()}
    groups: dict[str, list[_Slot]] = defaultdict(list)
    for slot, mine in roles.items():
        for role in mine:
            groups[role].append(slot)
    usual = {
        role: _usual([slots[each] for each in members]) for role, members in groups.items() if len(members) >= FEWEST
    }
    unbonded = _without_bonds(state, placement)
    designed = _of_whole_networks(slots, roles)
    found: list[Difference] = []
    for slot, objects in slots.items():
        role = next((role for role in roles[slot] if role in usual), "")
        if expected := usual.get(role):
            peer = placement.peers.get((slot.node, slot.interface))
            opposite = _Slot(peer.node, peer.interface) if peer else None
            there = slots.get(opposite, {}) if opposite else {}
            theirs = (
                next((usual[role] for role in roles.get(opposite, ()) if role in usual), None) if opposite else None
            )
            differing = _of_settings(slot.node, objects, expected, there, theirs)
            found += [
                each
                for each in differing
                if not role.endswith(_ANY_NAME)
                or not (each.field in _OF_NETWORK or designed[roles[slot][0], each.field, each.value] > 1)
            ]
            whole = peer is not None or slot.interface in {"", "lo"}
            hidden = unread_kinds(state.nodes[slot.node])
            found += [
                each
                for each in _of_presence(slot, objects, expected)
                if each.kind not in hidden
                and (whole or (each.kind in _QUEUEING and each.value == PRESENT))
                and not (slot.node in unbonded and each.value == ABSENT and _is_hook(each))
            ]
    return found


def _without_bonds(state: FabricAudit, placement: FabricRoles) -> set[str]:
    """Return the switches without bonds, of a tier in which others have some.

    Leaves of a multihomed host filter what the other leaves of its segment have flooded (RFC 8365 section 8.3.1).
    """
    bonded = {name for name, node in state.nodes.items() if any(each.kind == "bond" for each in node.interfaces)}
    tiers = {placement.topology.node(name).role for name in bonded}
    roles = {name: placement.topology.node(name).role for name in state.nodes}
    return {name for name, role in roles.items() if role.is_switch and role in tiers and name not in bonded}


def _is_hook(found: Difference) -> bool:
    """Return whether a difference is a filter, or the qdisc that filters are attached to."""
    return found.kind == "filter" or (found.kind == "qdisc" and _HOOK in found.expected)


def _of_whole_networks(
    slots: Mapping[_Slot, Objects], roles: Mapping[_Slot, Sequence[str]]
) -> Counter[_NetworkValue]:
    """Count the tunnels or gateways of one network with the same value: one that several have is by design."""
    return Counter(
        (mine[0], setting, value)
        for slot, mine in roles.items() if mine[-1].endswith(_ANY_NAME)
        for each in slots[slot].values()
        for setting, value in each.settings().items()
    )  # fmt: skip


def _is_unread(state: FabricAudit, slot: _Slot) -> bool:
    """Return whether the kernel of a node did not answer: then it is no sibling that lacks something."""
    return "interface" in unread_kinds(state.nodes[slot.node])


def _roles(slot: _Slot, objects: Objects, placement: FabricRoles) -> tuple[str, ...]:
    """Return the roles of a slot, the narrowest first.

    Tunnels and gateways of one tier are siblings whatever their names are: a network can be at two leaves only.
    """
    roles = tuple(f"{role}{slot.part}" for role in placement.roles(slot.node, slot.interface))
    kinds = {each.kind for each in objects.values() if isinstance(each, InterfaceAudit)} & _OF_NETWORKS
    tier = placement.topology.node(slot.node).role
    return (*roles, *(f"{tier} {kind}{_ANY_NAME}" for kind in kinds))


def _usual(siblings: Sequence[Objects]) -> _Usual:
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    known: Objects = {}
    for objects in siblings:
        for name, each in objects.items():
            found[name].append(each.settings())
            known[name] = each
    settings = {
        name: _usual_settings(have)
        for name, have in found.items()
        if known[name].LABEL in _SETTINGS and len(have) >= FEWEST
    }
    return _Usual(
        siblings=len(siblings),
        having=Counter({name: len(have) for name, have in found.items()}),
        settings=settings,
        known=known,
    )


def _usual_settings(have: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the value of each setting that more than half have."""
    found = {}
    for setting in {name for each in have for name in each}:
        value, count = Counter(each.get(setting, ABSENT) for each in have).most_common(1)[0]
        if 2 * count > len(have):
            found[setting] = value
    return found


def _slots(state: FabricAudit, placement: FabricRoles) -> dict[_Slot, Objects]:
    slots: dict[_Slot, Objects] = defaultdict(dict)
    for name, node in state.nodes.items():
        slots[_Slot(name)] = {}
        masters = _kinds_of_masters(node)
        for each in node.objects():
            if each.LABEL in _SETTINGS | _PRESENCE and not each.transient:
                interface = interface_of(each)
                of_port = isinstance(each, SysctlAudit) and (name, interface) in placement.peers
                part = f", sysctls, {masters.get(interface) or 'routed'}" if of_port else ""
                slots[_Slot(name, interface, part)][generic(each.identity, interface)] = each
    return dict(slots)


def _kinds_of_masters(node: NodeAudit) -> dict[str, str]:
    """Return the kind of the bridge or bond that each member belongs to."""
    kinds = {each.name: each.kind for each in node.interfaces if each.kind in _JOINED}
    return {each.name: kinds[each.master] for each in node.interfaces if each.master in kinds}


def _of_settings(
    node: str, objects: Objects, usual: _Usual, there: Objects, theirs: _Usual | None
) -> Iterator[Difference]:
    """Yield the settings of a node or an interface that most siblings have otherwise.

    ``there`` is the other end of a link, and ``theirs`` what is usual at such ends. A NIC neither marks nor has a
    watchdog: an emulated port without these is no property of the link.
    """
    for name, each in objects.items():
        if name not in usual.settings:
            continue
        settings = each.settings()
        if each.LABEL == "port" and any(settings.get(key) != usual.settings[name].get(key) for key in _OF_LINK):
            continue
        opposite = there[name].settings() if name in there and each.LABEL in _SHARED else None
        normal = theirs.settings.get(name, {}) if theirs is not None and each.LABEL == PortAudit.LABEL else {}
        for setting, expected in usual.settings[name].items():
            if setting in _OF_PROTOCOL or setting.startswith(_LACP):
                continue
            value = settings.get(setting, ABSENT)
            shared = opposite is not None and opposite.get(setting, ABSENT) == value != normal.get(setting)
            if value != expected and not shared:
                yield Difference.of(node, each, setting, value, expected, SIBLINGS)


def _of_presence(slot: _Slot, objects: Objects, usual: _Usual) -> Iterator[Difference]:
    """Yield the objects that most siblings have and this one lacks, and those that most siblings lack."""
    node, interface = slot.node, slot.interface
    for name, each in usual.known.items():
        if each.LABEL not in _PRESENCE or _VRF_RULE in name:
            continue
        if _is_local(each) and any(_is_local(mine, each) for mine in objects.values()):
            continue
        if name in objects and 2 * usual.having[name] < usual.siblings:
            yield Difference.of(node, objects[name], PRESENCE, PRESENT, ABSENT, SIBLINGS)
        elif name not in objects and 2 * usual.having[name] > usual.siblings:
            named = name.replace(PORT, interface) if interface else name
            yield Difference(
                node=node,
                kind=each.LABEL,
                object=named,
                field=PRESENCE,
                value=ABSENT,
                expected=described(each),
                against=SIBLINGS,
                interface=interface,
            )


def _is_local(found: AuditedObject, of: AuditedObject | None = None) -> bool:
    """Return whether an object is the rule that looks up addresses of the node, of the same family as another one."""
    if not isinstance(found, RuleAudit) or found.selector or found.action != _LOCAL:
        return False
    return not isinstance(of, RuleAudit) or found.family == of.family
