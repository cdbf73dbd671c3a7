"""Lines of FRR's configuration that siblings do not have, or have otherwise.

A line that names a cabled interface belongs to that port, and compares with those of ports of the same role. Numbers
of autonomous systems, interfaces, addresses, and peer groups that only one node has, are left out. So
``neighbor swp2 route-map NEW in`` of one leaf is found, although no other leaf has the same interface at the same
place.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lab.audit.comparisons.siblings import SIBLINGS
from lab.audit.difference import ABSENT, PRESENCE, PRESENT, Difference, unread_kinds
from lab.audit.objects.routing_objects import FrrLineAudit
from lab.audit.placement import ADDRESS, FEWEST, PORT, generic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lab.audit.audited import FabricAudit, NodeAudit
    from lab.audit.placement import FabricRoles

_DEFINITIONS: Final = (
    "ip prefix-list ", "ipv6 prefix-list ", "route-map ", "access-list ", "ip access-list ", "ipv6 access-list ",
    "bgp as-path access-list ", "bgp community-list ", "bgp large-community-list ", "bgp extcommunity-list ",
)  # fmt: skip
"""Lines that have no effect without another line that names them."""
_SECTIONS: Final = ("router ", "interface ", "vrf ", "vni ", "key ", "line ")
"""Lines that begin a section with the name of an object: its lines are compared."""
_VRF: Final = "vrf "
_VNI: Final = "vni "
_PROCESS: Final = "router "
"""The beginning of the section of a routing process."""
_OF_ANY_SESSION: Final = frozenset({"remote-as", "activate", "timers", "update-source", "ebgp-multihop", "bfd"})
"""Words after a neighbour's name in the lines that each session with a router in a tenant needs."""
_IDENTITY: Final = frozenset({"description", "net"})
"""Words of lines that identify their node or port."""
_DIRECTIONS: Final = frozenset({"in", "out"})
"""Words that follow the name of a list or route map."""
_REDISTRIBUTE: Final = "redistribute "
_GROUP: Final = "<peer-group>"
"""In place of the name of a peer group that only one node has."""
_AS: Final = "<peer-AS>"
"""In place of the AS number of the node at the other end of a port."""


def is_definition(line: str) -> bool:
    """Return whether a line, or an object of that name, has no effect by itself, like a route map or its lines."""
    return line.removeprefix(f"{FrrLineAudit.LABEL} ").startswith(_DEFINITIONS)


@dataclass(frozen=True, slots=True)
class _GenericLine:
    """A line without the names of its node: lines of siblings are equal."""

    context: str
    text: str

    @property
    def start(self) -> str:
        """All words but the last, which is a value; "" if there is none, as in ``neighbor swp1 shutdown``."""
        words = self.text.split(" ")
        return "" if words[0] == "neighbor" and len(words) < 4 else " ".join(words[:-1])

    @property
    def setting(self) -> tuple[str, str]:
        """The context and the start: lines that only differ in their value have the same."""
        return self.context, self.start

    @property
    def unnamed(self) -> tuple[str, str]:
        """The setting, also without the name of a list or route map before its direction."""
        words = self.text.split(" ")
        named = len(words) > 3 and words[-1] in _DIRECTIONS
        return self.context, " ".join([*words[:-2], words[-1]]) if named else self.start


@dataclass(frozen=True, slots=True)
class _SlotLines:
    """The lines of a node, or of one of its ports."""

    node: str
    interface: str
    lines: Mapping[_GenericLine, str]
    """Each with the whole line as it is."""
    contexts: Mapping[str, str]
    """The contexts that the node has: as they are by generic ones, in which this slot's lines would be."""
    peer_as: str = ""
    """The AS number of the node at the other end of the port; "" if not known."""


def of_frr_lines(state: FabricAudit, placement: FabricRoles, silent: Collection[str] = ()) -> Iterator[Difference]:
    """Yield the lines that most slots of the same role have otherwise.

    With two slots of a role, all switches or ports of switches have to agree, and among them the other of the two.
    Of ``silent`` switches, whose networks no other switch has, it is enough that the others redistribute something
    else.
    """
    narrow: dict[str, list[_SlotLines]] = defaultdict(list)
    wide: dict[str, list[_SlotLines]] = defaultdict(list)
    numbers = {name: _as_number(node) for name, node in state.nodes.items()}
    external = _external_routers(state, placement)
    having = Counter(group for node in state.nodes.values() for group in _peer_groups(node))
    for name, node in state.nodes.items():
        if node.frr and FrrLineAudit.LABEL not in unread_kinds(node):
            own = frozenset(group for group in _peer_groups(node) if having[group] == 1)
            for slot in _slots(node, placement, numbers, own, external):
                roles = placement.roles(name, slot.interface)
                narrow[roles[0]].append(slot)
                wide[roles[1]].append(slot)
    for members in narrow.values():
        for slot in members:
            if len(members) >= FEWEST:
                yield from _of_slot(slot, members, unanimous=False)
            elif len(members) > 1:
                every = wide[placement.roles(slot.node, slot.interface)[1]]
                yield from _of_slot(slot, every, unanimous=True)
                if slot.node in silent and not slot.interface:
                    yield from _of_silent(slot, [each for each in members if each.node not in silent])


def _as_number(node: NodeAudit) -> str:
    """Return the AS number of a node, outside of VRFs; "" if it runs no BGP."""
    started = (each.line.split() for each in node.frr if each.line.startswith("router bgp "))
    return next((words[2] for words in started if len(words) == 3), "")


def _peer_groups(node: NodeAudit) -> set[str]:
    """Return the names of the peer groups that a node defines."""
    lines = (each.line.rpartition(" / ")[2].split() for each in node.frr)
    return {words[1] for words in lines if len(words) == 3 and (words[0], words[2]) == ("neighbor", "peer-group")}


def _slots(
    node: NodeAudit,
    placement: FabricRoles,
    numbers: Mapping[str, str],
    groups: frozenset[str],
    external: Collection[str],
) -> Iterator[_SlotLines]:
    """Yield the lines of a node, and of each of its cabled ports.

    ``numbers`` are the AS numbers of nodes, ``groups`` the peer groups that only this node has. ``external`` are
    addresses of routers in tenants: which leaf has a session with one follows from the cables.
    """
    ports = [interface for name, interface in placement.peers if name == node.name]
    lines: dict[str, dict[_GenericLine, str]] = {"": {}, **{port: {} for port in ports}}
    peer_as = {"": "", **{port: numbers.get(placement.peers[node.name, port].node, "") for port in ports}}
    headers: dict[str, str] = {"": ""}
    for each in node.frr:
        *contexts, last = each.line.split(" / ")
        context = " / ".join(contexts)
        headers[_generic_context(context, "")] = context
        if not contexts and last.startswith(_VRF):  # a VRF has a section without lines
            headers[last] = last
        if is_definition(each.line) or _is_own(last, context) or _is_of_external(last, external):
            continue
        named = [port for port in ports if port in each.line.replace(" / ", " ").split()]
        port = named[0] if len(named) == 1 else ""
        text = generic(last, port)
        if len(named) < 2 and not (text == last and any(word[:3] in {"swp", "eth"} for word in last.split())):
            text = _without_names(text, peer_as[port], groups)
            lines[port][_GenericLine(_generic_context(context, port), text)] = each.line
    for port, mine in lines.items():
        found = {_generic_context(context, port): context for context in headers.values()}
        if port:  # FRR leaves out the section of an interface without lines, and accepts it
            found[f"interface {PORT}"] = f"interface {port}"
        yield _SlotLines(node=node.name, interface=port, lines=mine, contexts=found, peer_as=peer_as[port])


def _without_names(text: str, peer_as: str, groups: frozenset[str]) -> str:
    """Return a line without the AS number of the other end, and without peer groups that only its node has."""
    words = [_GROUP if word in groups else word for word in text.split(" ")]
    if peer_as and words[-2:] == ["remote-as", peer_as]:
        words[-1] = _AS
    return " ".join(words)


def _external_routers(state: FabricAudit, placement: FabricRoles) -> frozenset[str]:
    """Return the addresses of hosts that run routing daemons."""
    hosts = (node for name, node in state.nodes.items() if not placement.topology.node(name).role.is_switch)
    return frozenset(address for node in hosts if node.daemons for address in node.bare_addresses())


def _is_of_external(last: str, external: Collection[str]) -> bool:
    """Return whether a line makes a session with an external router. Filters of routes and limits do not."""
    words = last.split(" ")
    return words[0] == "neighbor" and len(words) > 2 and words[1] in external and words[2] in _OF_ANY_SESSION


def _is_own(last: str, context: str) -> bool:
    """Return whether a line begins a section, or identifies its node or port.

    In the section of a VRF, ``vni`` begins none: it names the L3VNI of a tenant.
    """
    of_tenant = context.startswith(_VRF) and last.startswith(_VNI)
    return (last.startswith(_SECTIONS) and not of_tenant) or bool(_IDENTITY & {*last.split()})


def _generic_context(context: str, interface: str) -> str:
    """Return a context without the AS number of ``router bgp`` and without the name of an interface."""
    parts = [
        " ".join(["router bgp", *part.split()[3:]]) if part.startswith("router bgp ") else generic(part, interface)
        for part in context.split(" / ")
    ]  # fmt: skip
    return " / ".join(filter(None, parts))


def _of_slot(slot: _SlotLines, siblings: Sequence[_SlotLines], *, unanimous: bool) -> Iterator[Difference]:
    usual = _Usual(siblings, unanimous=unanimous)
    if not slot.interface:
        for section in usual.missing_sections(slot):
            yield _difference(slot, section, PRESENCE, ABSENT, PRESENT)
    yield from _compared(slot, usual.missing(slot), [line for line in slot.lines if usual.is_foreign(line)])


def _of_silent(slot: _SlotLines, others: Sequence[_SlotLines]) -> Iterator[Difference]:
    """Yield what all other slots redistribute, and one that advertises nothing does not."""

    def redistributed(each: _SlotLines) -> set[_GenericLine]:
        return {line for line in each.lines if line.text.startswith(_REDISTRIBUTE)}

    common = set.intersection(*map(redistributed, others)) if others else set()
    foreign = redistributed(slot) - {line for each in others for line in each.lines}
    missing = [line for line in common if line not in slot.lines and line.context in slot.contexts]
    yield from _compared(slot, sorted(missing, key=_order), sorted(foreign, key=_order))


def _compared(slot: _SlotLines, missing: Iterable[_GenericLine], extra: list[_GenericLine]) -> Iterator[Difference]:
    for line in missing:
        changed = next((each for each in extra if line.start and each.setting == line.setting), None)
        if changed is not None:
            extra.remove(changed)
            start, _, value = slot.lines[changed].rpartition(" ")
            yield _difference(slot, start, "value", value, _with_names(line.text, slot).rpartition(" ")[2])
        else:
            text = _with_names(line.text, slot)
            front = slot.contexts[line.context]
            yield _difference(slot, f"{front} / {text}" if front else text, PRESENCE, ABSENT, PRESENT)
    for line in sorted(extra, key=_order):
        yield _difference(slot, slot.lines[line], PRESENCE, PRESENT, ABSENT)


def _with_names(text: str, slot: _SlotLines) -> str:
    """Return a line of siblings as it is at a slot."""
    return text.replace(PORT, slot.interface).replace(_AS, slot.peer_as)


class _Usual:
    """The lines that siblings have in common: more than half of them, or all but one."""

    def __init__(self, siblings: Sequence[_SlotLines], *, unanimous: bool) -> None:
        self._unanimous = unanimous
        self._siblings = len(siblings)
        self._having = Counter(line for each in siblings for line in each.lines)
        self._within = Counter(context for each in siblings for context in each.contexts)
        self._starts = Counter(each for one in siblings for each in {line.unnamed for line in one.lines})
        self._nodes: dict[_GenericLine, set[str]] = defaultdict(set)
        for each in siblings:
            for line in each.lines:
                self._nodes[line].add(each.node)
        self._lines = [line for line in self._having if self._is_usual(line)]
        self._settings = {line.unnamed for line in self._lines}

    def _is_usual(self, line: _GenericLine) -> bool:
        having, most = self._having[line], self._within[line.context]
        return most >= FEWEST and (having >= most - 1 if self._unanimous else 2 * having > most)

    def missing(self, slot: _SlotLines) -> list[_GenericLine]:
        """Return the lines that a slot lacks. Those with addresses, and others of siblings only, are left out."""
        unknown = [ADDRESS, _GROUP] if slot.peer_as else [ADDRESS, _GROUP, _AS]
        lacking = [each for each in self._lines if each not in slot.lines and each.context in slot.contexts]
        return sorted((each for each in lacking if not any(mark in each.text for mark in unknown)), key=_order)

    def missing_sections(self, slot: _SlotLines) -> list[str]:
        """Return the routing processes that enough siblings run, and a slot does not."""
        least = max(FEWEST, self._siblings - 1 if self._unanimous else self._siblings // 2 + 1)
        return sorted(
            each
            for each, having in self._within.items()
            if each.startswith(_PROCESS) and having >= least and each not in slot.contexts and " / " not in each
        )

    def is_foreign(self, line: _GenericLine) -> bool:
        """Return whether only one node has a line, and its value does not identify it: siblings have none."""
        having, most = self._having[line], self._within[line.context]
        few = having == 1 if self._unanimous else 2 * having < most
        identity = line.start and self._starts[line.unnamed] > having and line.unnamed not in self._settings
        return most >= FEWEST and few and len(self._nodes[line]) == 1 and not identity


def _order(line: _GenericLine) -> tuple[str, str]:
    return line.context, line.text


def _difference(slot: _SlotLines, line: str, field: str, value: str, expected: str) -> Difference:
    found = Difference.of(slot.node, FrrLineAudit(line), field, value, expected, SIBLINGS)
    return replace(found, interface=slot.interface)
