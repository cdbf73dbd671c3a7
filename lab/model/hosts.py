"""Names of a fabric's nodes and of pairs of nodes, as users write them and as in ``/etc/hosts`` (hosts(5))."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from ipaddress import IPv4Address, IPv6Address

    from lab.model.addressing import NodePlan

_LOCAL: Final = ("127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback")


def hosts_file(plan: Mapping[str, NodePlan]) -> str:
    """Return a hosts file with a line for each loopback of each node, and for the first address of each interface.

    The first interface of a host has the name of the host, and also ``h1-eth1`` like the others. A switch's name
    resolves to its loopbacks, and its interfaces are named like ``leaf1-swp1``.
    """
    lines = list(_LOCAL)
    for name, node in plan.items():
        lines += (f"{address} {' '.join(names)}" for address, names in _named(name, node))
    return "\n".join(lines) + "\n"


def addresses_of(plan: Mapping[str, NodePlan], name: str) -> list[IPv4Address | IPv6Address]:
    """Return every IP address of a node; raise UsageError if the fabric has no such node."""
    if name not in plan:
        raise unknown_node(name, plan)
    node = plan[name]
    own = [interface.address.ip for interface in node.interfaces.values() if interface.address is not None]
    own += [address.ip for addresses in node.further.values() for address in addresses]
    return [*own, *(loopback.ip for loopback in node.loopbacks), *([node.vtep] if node.vtep is not None else [])]


def address_of(plan: Mapping[str, NodePlan], name: str) -> IPv4Address | IPv6Address:
    """Return the address of interface ``h1:eth2``, or the first one of ``h1``; raise UsageError if there is none."""
    host, _, interface = name.partition(":")
    if host not in plan:
        raise unknown_node(host, plan)
    for label, known in plan[host].interfaces.items():
        if known.address is not None and interface in {"", label}:
            return known.address.ip
    raise UsageError(f"{name} has no address", f"see the addresses of {host}: rocelab status")


def parse_pair(text: str) -> tuple[str, str]:
    """Split ``h1:h5``, ``h1:eth2:h5:eth2`` or ``h1->h5`` into two names; raise UsageError for other forms."""
    parts = text.replace("->", ":").split(":")
    middle = {2: 1, 4: 2}.get(len(parts))
    if middle is None or not all(parts):
        raise UsageError(f"{text!r} is no pair", "write it like h1:h5, or h1:eth2:h5:eth2")
    return ":".join(parts[:middle]), ":".join(parts[middle:])


def unknown_node(name: str, known: Iterable[str]) -> UsageError:
    """Return the error for a name that no node has."""
    return UsageError(f"no node {name!r} in the fabric", f"there is {', '.join(known)}")


def _named(name: str, node: NodePlan) -> Iterator[tuple[object, list[str]]]:
    for loopback in (node.loopback4, node.loopback6):
        if loopback is not None:
            yield loopback, [name]
    addressed = [(label, plan.address) for label, plan in node.interfaces.items() if plan.address is not None]
    tagged = {label: addresses for label, addresses in node.further.items() if label not in node.interfaces}
    addressed += [(label, addresses[0]) for label, addresses in tagged.items()]
    for number, (label, address) in enumerate(addressed):
        own = [] if node.node.role.is_switch or number else [name]
        yield address.ip, [*own, f"{name}-{label}"]
