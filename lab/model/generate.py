"""Generate regular fabrics from a few counts, and number interfaces. Pure: a spec in, nodes and cables out.

Names are numbered through the whole fabric (spine1.., leaf1.., h1..). Uplinks come before links to hosts. So in a
leaf-spine fabric swp1 of every leaf connects to spine1, and swpN of every spine to leafN.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from lab.model.spec import ClosSpec, LeafSpineSpec, RailOptimisedSpec
from lab.model.topology import Endpoint, Link, Node, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lab.model.spec import DefaultsSpec


@dataclass(frozen=True, slots=True)
class Cable:
    """A link whose ends may still lack an interface: ``leaf1`` or ``leaf1:swp3``."""

    ends: tuple[str, str]
    rate: int
    mtu: int
    delay: float


@dataclass(frozen=True, slots=True)
class _Pod:
    """One block of leaves, fully meshed with its spines. Numbers count from 1."""

    number: int
    spines: range
    leaves: range


def node_of(end: str) -> str:
    """Return the node of ``leaf1`` or ``leaf1:swp3``."""
    return end.partition(":")[0]


def census(spec: LeafSpineSpec | ClosSpec | RailOptimisedSpec) -> tuple[int, int]:
    """Return the number of nodes and links of ``spec`` without generating them."""
    if isinstance(spec, LeafSpineSpec):
        hosts = spec.leaves * spec.hosts_per_leaf
        fabric = spec.leaves * spec.spines * spec.uplinks_per_pair
        return spec.spines + spec.leaves + hosts, fabric + hosts
    if isinstance(spec, ClosSpec):
        spines, leaves = spec.pods * spec.spines_per_pod, spec.pods * spec.leaves_per_pod
        hosts = leaves * spec.hosts_per_leaf
        fabric = leaves * spec.spines_per_pod * spec.uplinks_per_pair + spines * spec.superspines
        return spec.superspines + spines + leaves + hosts, fabric + hosts
    hosts, leaves = spec.units * spec.hosts_per_unit, spec.units * spec.rails
    return spec.spines + leaves + hosts, leaves * spec.spines * spec.uplinks_per_pair + hosts * spec.rails


def generate(
    spec: LeafSpineSpec | ClosSpec | RailOptimisedSpec, defaults: DefaultsSpec
) -> tuple[list[Node], list[Cable]]:
    """Return the nodes and cables of the fabric that ``spec`` describes, both from the top tier down."""
    if isinstance(spec, LeafSpineSpec):
        return _leaf_spine(spec, defaults)
    if isinstance(spec, ClosSpec):
        return _clos(spec, defaults)
    return _rail_optimised(spec, defaults)


def _switches(role: Role, numbers: Iterable[int], pod: int = 0) -> list[Node]:
    return [Node(f"{role}{number}", role, pod) for number in numbers]


def _mesh(pod: _Pod, parallel: int, template: Cable) -> Iterator[Cable]:
    for leaf in pod.leaves:
        for spine in pod.spines:
            for _ in range(parallel):
                yield replace(template, ends=(f"leaf{leaf}", f"spine{spine}"))


def _template(rate: int | None, defaults: DefaultsSpec, mtu: int | None = None) -> Cable:
    return Cable(
        ends=("", ""),
        rate=defaults.rate if rate is None else rate,
        mtu=defaults.mtu if mtu is None else mtu,
        delay=defaults.delay,
    )


def _leaf_spine(spec: LeafSpineSpec, defaults: DefaultsSpec) -> tuple[list[Node], list[Cable]]:
    block = _Pod(0, range(1, spec.spines + 1), range(1, spec.leaves + 1))
    nodes = _switches(Role.SPINE, block.spines) + _switches(Role.LEAF, block.leaves)
    cables = list(_mesh(block, spec.uplinks_per_pair, _template(spec.fabric_rate, defaults, spec.fabric_mtu)))
    hosts, access = _hosts_of([block], spec, defaults)
    return nodes + hosts, cables + access


def _hosts_of(
    pods: Sequence[_Pod], spec: LeafSpineSpec | ClosSpec, defaults: DefaultsSpec
) -> tuple[list[Node], list[Cable]]:
    template = _template(spec.host_rate, defaults)
    names = (f"h{number}" for number in count(1))
    hosts, cables = [], []
    for pod in pods:
        for leaf in pod.leaves:
            for _ in range(spec.hosts_per_leaf):
                host = Node(name=next(names), role=Role.HOST, pod=pod.number, rdma=spec.rdma)
                hosts.append(host)
                cables.append(replace(template, ends=(host.name, f"leaf{leaf}")))
    return hosts, cables


def _clos(spec: ClosSpec, defaults: DefaultsSpec) -> tuple[list[Node], list[Cable]]:
    def block(size: int, pod: int) -> range:
        return range((pod - 1) * size + 1, pod * size + 1)

    pods = [
        _Pod(pod, block(spec.spines_per_pod, pod), block(spec.leaves_per_pod, pod)) for pod in range(1, spec.pods + 1)
    ]
    fabric = _template(spec.fabric_rate, defaults, spec.fabric_mtu)
    top = fabric if spec.superspine_rate is None else replace(fabric, rate=spec.superspine_rate)
    nodes = _switches(Role.SUPERSPINE, range(1, spec.superspines + 1))
    for role, numbers in ((Role.SPINE, [pod.spines for pod in pods]), (Role.LEAF, [pod.leaves for pod in pods])):
        for pod, members in zip(pods, numbers, strict=True):
            nodes += _switches(role, members, pod.number)
    cables = [
        replace(top, ends=(f"spine{spine}", f"superspine{superspine}"))
        for pod in pods
        for spine in pod.spines
        for superspine in range(1, spec.superspines + 1)
    ]
    for pod in pods:
        cables += _mesh(pod, spec.uplinks_per_pair, fabric)
    hosts, access = _hosts_of(pods, spec, defaults)
    return nodes + hosts, cables + access


def _rail_optimised(spec: RailOptimisedSpec, defaults: DefaultsSpec) -> tuple[list[Node], list[Cable]]:
    spines, units = range(1, spec.spines + 1), range(1, spec.units + 1)
    nodes = _switches(Role.SPINE, spines)
    for unit in units:
        nodes += _switches(Role.LEAF, range((unit - 1) * spec.rails + 1, unit * spec.rails + 1), unit)
    everything = _Pod(0, spines, range(1, spec.units * spec.rails + 1))
    cables = list(_mesh(everything, spec.uplinks_per_pair, _template(spec.fabric_rate, defaults, spec.fabric_mtu)))
    access = _template(spec.host_rate, defaults)
    for number in range(spec.units * spec.hosts_per_unit):
        unit = number // spec.hosts_per_unit + 1
        host = Node(name=f"h{number + 1}", role=Role.HOST, pod=unit, rdma=spec.rdma)
        nodes.append(host)
        leaves = range((unit - 1) * spec.rails + 1, unit * spec.rails + 1)
        cables += [replace(access, ends=(host.name, f"leaf{leaf}")) for leaf in leaves]
    return nodes, cables


def number_interfaces(cables: Sequence[Cable], roles: Mapping[str, Role]) -> tuple[Link, ...]:
    """Return the links, with an interface for every end: the one it names, or the lowest unused one of its node."""
    taken: dict[str, set[str]] = {name: set() for name in roles}
    for cable in cables:
        for end in cable.ends:
            node, _, interface = end.partition(":")
            taken[node].add(interface)
    free = {name: _free_interfaces(role, taken[name]) for name, role in roles.items()}

    def resolve(end: str) -> Endpoint:
        node, _, interface = end.partition(":")
        return Endpoint(node, interface or next(free[node]))

    return tuple(
        Link(a=resolve(cable.ends[0]), b=resolve(cable.ends[1]), rate=cable.rate, mtu=cable.mtu, delay=cable.delay)
        for cable in cables
    )


def _free_interfaces(role: Role, taken: set[str]) -> Iterator[str]:
    prefix = interface_prefix(role)
    return (name for number in count(1) if (name := f"{prefix}{number}") not in taken)


def interface_prefix(role: Role) -> str:
    """Return the prefix of interface names: ``swp`` on switches, ``eth`` on hosts."""
    return "swp" if role.is_switch else "eth"


class LinkIndex:
    """Find links by name: ``leaf2--spine1``, or ``leaf2:swp1--spine1:swp2``, either end first."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = links
        self._between: dict[frozenset[str], list[int]] = {}
        for place, link in enumerate(links):
            self._between.setdefault(frozenset((link.a.node, link.b.node)), []).append(place)

    def called(self, name: str) -> list[int]:
        """Return the list index of every link that matches ``name``."""
        ends = name.split("--")
        candidates = self._between.get(frozenset(map(node_of, ends)), [])
        return [place for place in candidates if all(self._has(place, end) for end in ends)]

    def _has(self, place: int, end: str) -> bool:
        return any(end in {other.node, str(other)} for other in self._links[place].ends)
