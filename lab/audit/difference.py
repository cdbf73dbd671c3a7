"""Differences between two states of a fabric, setting by setting."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.audit.objects.kernel_objects import AddressAudit, FdbAudit, InterfaceAudit, RouteAudit, VlanAudit
from lab.audit.objects.routing_objects import BfdSessionAudit, BgpSessionAudit, FrrLineAudit
from lab.audit.placement import interface_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from lab.audit.audited import FabricAudit, NodeAudit, UnreadPart
    from lab.audit.objects.audited_object import AuditedObject

PLAN: Final = "plan"
"""``Difference.against`` for the state that rocelab built."""
PRESENT: Final = "present"
ABSENT: Final = "absent"
PRESENCE: Final = "presence"
UNLIKE: Final = "another one than "
"""The beginning of an expected value that only has to differ from that of other nodes, whose names follow."""
ANSWER: Final = "answer"
UNPROTECTED: Final = f"{ABSENT}: only timers of routing notice a dead link"
"""The value of a BFD session that one end of a link, or both, do not have."""
_NEIGHBOUR: Final = re.compile(r"(^| / )neighbor \S+$")
"""The end of a line of FRR's configuration without its last word, which is the name of an option."""
_OF_KERNEL: Final = frozenset(
    {"interface", "address", "rule", "qdisc", "filter", "route", "neighbour", "fdb", "vlan"}
)
_OF_ROUTER: Final = frozenset({"frr", "bgp session", "bfd session", "vni"})
_MISSING: Final = {
    "node": _OF_KERNEL | _OF_ROUTER | {"sysctl", "nft", "daemon", "port", "rdma device", "gid"},
    "kernel": _OF_KERNEL,
    "ipsec": frozenset({"filter"}),
    "router": _OF_ROUTER | {"daemon"},
    "sysctls": frozenset({"sysctl"}),
    "nft": frozenset({"nft"}),
    "ports": frozenset({"port"}),
    "rdma": frozenset({"rdma device", "gid"}),
    "counters": frozenset(),
}
"""The kinds of objects that are missing if a part does not answer. Any other part is a routing daemon."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting of one object of one node that is not as expected."""

    node: str
    kind: str
    """The kind of the object: ``interface``, ``route``, ``sysctl``, ``frr``, ``port``, ..."""
    object: str
    """The object's name on its node, like ``route 10.0.0.4/31``."""
    field: str
    """The setting; ``presence`` if the object itself is missing or new, ``answer`` if a part did not answer."""
    value: str
    expected: str
    against: str
    """The standard of comparison: ``plan``, siblings, the other end of the link, a rule, or an earlier time."""
    interface: str = ""
    """The interface that the object belongs to; "" for none."""

    @classmethod
    def of(  # noqa: PLR0913, PLR0917 - a setting of an object of a node has three names and two values
        cls, node: str, found: AuditedObject, field: str, value: str, expected: str, against: str
    ) -> Difference:
        """Return the difference of an object, at the interface that it is or belongs to."""
        return cls(node, found.LABEL, found.identity, field, value, expected, against, interface_of(found))

    @classmethod
    def unanswered(cls, node: str, part: UnreadPart, against: str) -> Difference:
        """Return the difference of a part of a node that did not answer."""
        return cls(node, "node", part.part, ANSWER, part.reason, "answers", against)


def first_of_each(differences: Iterable[Difference]) -> list[Difference]:
    """Return the first difference of each setting."""
    found: dict[tuple[str, str, str], Difference] = {}
    for each in differences:
        found.setdefault((each.node, each.object, each.field), each)
    return list(found.values())


def compare(now: FabricAudit, then: FabricAudit, against: str = PLAN) -> list[Difference]:
    """Return the differences of the state ``now`` from the state ``then``, by node: configured objects first."""
    return [each for name, node in then.nodes.items() for each in compare_nodes(now.nodes.get(name), node, against)]


def compare_nodes(now: NodeAudit | None, then: NodeAudit, against: str) -> Iterator[Difference]:
    """Yield the differences of one node. Objects of a part that did not answer are not compared."""
    if now is None:
        yield Difference(
            node=then.name,
            kind="node",
            object=then.name,
            field=PRESENCE,
            value=ABSENT,
            expected=PRESENT,
            against=against,
        )
        return
    for each in now.unread:
        if each not in then.unread:
            yield Difference.unanswered(now.name, each, against)
    hidden = unread_kinds(now) | unread_kinds(then)
    yield from _of_objects(now, _visible(now, hidden), _visible(then, hidden), against)


def unread_kinds(node: NodeAudit) -> frozenset[str]:
    """Return the kinds of objects that are missing, because their part of the node did not answer."""
    parts = [each.part for each in node.unread] + [each.name for each in node.daemons if not each.running]
    return frozenset(kind for part in parts for kind in _MISSING.get(part, _OF_ROUTER))


def _visible(node: NodeAudit, hidden: Collection[str]) -> dict[str, AuditedObject]:
    return {each.identity: each for each in node.objects() if each.LABEL not in hidden}


def _of_objects(
    node: NodeAudit, now: Mapping[str, AuditedObject], then: Mapping[str, AuditedObject], against: str
) -> Iterator[Difference]:
    gone = [each for name, each in then.items() if name not in now and _is_lost(each)]
    new = [each for name, each in now.items() if name not in then and not each.transient]
    both = [(each, then[name]) for name, each in now.items() if name in then and each != then[name]]
    moved = _moved_interfaces(gone, new, both)
    for each, earlier in both:
        if not _follows(moved, each, earlier):
            yield from _of_settings(node.name, each, earlier, against)
    lost, added = ([each.line for each in some if isinstance(each, FrrLineAudit)] for some in (gone, new))
    yield from _of_lines(node.name, _topmost(lost), _topmost(added), against)
    for some, value, expected in ((gone, ABSENT, PRESENT), (new, PRESENT, ABSENT)):
        for each in some:
            if not isinstance(each, FrrLineAudit) and not _follows(moved, each):
                have, want = (described(each) if said == PRESENT else _absence(each) for said in (value, expected))
                yield Difference.of(node.name, each, PRESENCE, have, want, against)


def _absence(missing: AuditedObject) -> str:
    """Return that an object is absent, and what follows if nothing else shows that."""
    return UNPROTECTED if isinstance(missing, BfdSessionAudit) else ABSENT


def _is_lost(earlier: AuditedObject) -> bool:
    """Return whether the absence of an earlier object is a difference: sessions do not come and go with traffic."""
    return not earlier.transient or isinstance(earlier, BgpSessionAudit | BfdSessionAudit)


@dataclass(frozen=True, slots=True)
class _MovedInterfaces:
    """The interfaces of a node whose change explains that of other objects."""

    whole: frozenset[str]
    """New, or gone: with everything that belongs to them."""
    down: frozenset[str]
    """With another state: the kernel adds or removes their link-local addresses and routes."""
    addressed: frozenset[str]
    """With another address: the kernel adds or removes its routes."""
    in_vlans: frozenset[tuple[str, str]]
    """With the VLANs that they are new in, or gone from: the kernel adds or removes the entry of their own MAC."""


def _moved_interfaces(
    gone: Iterable[AuditedObject],
    new: Iterable[AuditedObject],
    both: Iterable[tuple[AuditedObject, AuditedObject]],
) -> _MovedInterfaces:
    changed = [*gone, *new]
    down = [
        one.name
        for one, other in both
        if isinstance(one, InterfaceAudit)
        and isinstance(other, InterfaceAudit)
        and (one.up, one.carrier, one.mac) != (other.up, other.carrier, other.mac)
    ]
    return _MovedInterfaces(
        whole=frozenset(each.name for each in changed if isinstance(each, InterfaceAudit)),
        down=frozenset(down),
        addressed=frozenset(each.interface for each in changed if isinstance(each, AddressAudit)),
        in_vlans=frozenset((each.interface, str(each.vlan)) for each in changed if isinstance(each, VlanAudit)),
    )


def _follows(moved: _MovedInterfaces, *states: AuditedObject) -> bool:
    """Return whether the change of an object follows from that of an interface or an address."""
    first = states[0]
    if first.place in moved.whole:
        return True
    if isinstance(first, AddressAudit):
        return first.scope == "link" and first.interface in moved.down
    if isinstance(first, FdbAudit):
        return (first.interface, first.vlan) in moved.in_vlans
    routes = [each for each in states if isinstance(each, RouteAudit)]
    if not routes or any(each.protocol != "kernel" for each in routes):
        return False
    devices = moved.whole | moved.down | moved.addressed
    left = [[hop for hop in each.next_hops if not devices & set(hop.split())] for each in routes]
    return left[0] == left[1] if len(left) > 1 else not left[0]


def described(found: AuditedObject) -> str:
    """Return that an object is present, with its first settings."""
    said = [f"{name} {value}" for name, value in found.settings().items() if value not in {"none", "no"}]
    return f"{PRESENT}: {', '.join(said[:4])}" if said else PRESENT


def _of_settings(node: str, now: AuditedObject, then: AuditedObject, against: str) -> Iterator[Difference]:
    have, want = now.settings(), then.settings()
    if not have or not want:  # a neighbour that is not resolved, a session that has not come up yet
        return
    if (leading := now.LEADING) and have[leading] != want[leading]:
        have, want = ({leading: each[leading]} for each in (have, want))
    for name in {**want, **have}:
        value, expected = have.get(name, ABSENT), want.get(name, ABSENT)
        if value != expected:
            yield Difference.of(node, now, name, value, expected, against)


def _of_lines(node: str, lost: list[str], added: list[str], against: str) -> Iterator[Difference]:
    """Yield the differences of a running configuration: lines that differ in their last word are one change.

    The last word of ``neighbor swp1 bfd`` and ``neighbor swp1 shutdown`` is no value of one setting.
    """
    by_start: dict[str, list[str]] = defaultdict(list)
    for line in added:
        by_start[line.rpartition(" ")[0]].append(line)
    for line in lost:
        start, _, value = line.rpartition(" ")
        if start and not _NEIGHBOUR.search(start) and by_start[start]:
            other = by_start[start].pop(0)
            added.remove(other)
            yield Difference.of(node, FrrLineAudit(start), "value", other.rpartition(" ")[2], value, against)
        else:
            yield Difference.of(node, FrrLineAudit(line), PRESENCE, ABSENT, PRESENT, against)
    for line in added:
        yield Difference.of(node, FrrLineAudit(line), PRESENCE, PRESENT, ABSENT, against)


def _topmost(lines: list[str]) -> list[str]:
    """Return the lines whose context is not itself among them."""
    whole = set(lines)
    return [line for line in lines if not any(context in whole for context in _contexts(line))]


def _contexts(line: str) -> Iterator[str]:
    parts = line.split(" / ")
    yield from (" / ".join(parts[:count]) for count in range(1, len(parts)))
