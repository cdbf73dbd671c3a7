"""Rules about ports: links are up, nothing takes their packets, and thresholds of emulated ports are in order."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from lab.audit.difference import ABSENT, PRESENCE, PRESENT, Difference, described
from lab.audit.objects.device_objects import IN_KERNEL
from lab.audit.objects.kernel_objects import SHARING, InterfaceAudit
from lab.audit.rules.route_widths import RULE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.audit.audited import FabricAudit, NodeAudit
    from lab.audit.objects.device_objects import PortAudit
    from lab.audit.placement import FabricRoles

_ROCE_DSCP: Final = 26
_LOOPBACK: Final = "lo"
"""The interface that each namespace has: without it the interfaces of a node are not known."""
_NETEM: Final = "netem"
_NO_QUEUE: Final = "noqueue"
_UNQUEUED: Final = frozenset({"bond", "bridge", "vlan", "vrf", "vxlan"})
"""Kinds of interfaces whose packets another interface queues."""
_CLASSES: Final = range(8)


def of_links(node: NodeAudit, state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield ports that are missing, shut, or without carrier although the other end is not shut: a link is up."""
    having = {each.name for each in node.interfaces}
    ports = [port for name, port in placement.peers if name == node.name] if _LOOPBACK in having else []
    for port in (each for each in ports if each not in having):
        yield Difference(
            node=node.name, kind=InterfaceAudit.LABEL, object=f"{InterfaceAudit.LABEL} {port}", field=PRESENCE,
            value=ABSENT, expected=PRESENT, against=RULE, interface=port,
        )  # fmt: skip
    for each in node.interfaces:
        peer = placement.peers.get((node.name, each.name))
        if peer is None or (each.up and each.carrier):
            continue
        there = state.nodes.get(peer.node)
        shut = there is not None and any(port.name == peer.interface and not port.up for port in there.interfaces)
        if not (each.up and shut):
            setting = "carrier" if each.up else "up"
            yield Difference.of(node.name, each, setting, "no", "yes", RULE)


def of_sharing(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield interfaces that take packets from another one, if most nodes of the same tier have none of their kind."""
    tiers: dict[str, list[NodeAudit]] = defaultdict(list)
    for node in state.nodes.values():
        tiers[placement.roles(node.name, "")[0]].append(node)
    for members in tiers.values():
        having = Counter(kind for node in members for kind in SHARING & {each.kind for each in node.interfaces})
        few = {kind for kind, count in having.items() if 2 * count < len(members)}
        for node in members:
            for each in (each for each in node.interfaces if each.kind in few):
                yield Difference.of(node.name, each, PRESENCE, described(each), ABSENT, RULE)


def of_disturbances(node: NodeAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield queues that lose or delay packets on purpose, at interfaces without a cable, like bonds and VLANs.

    Such an interface has no queue unless a command gives it one (tc-netem(8)).
    """
    virtual = {each.name for each in node.interfaces if each.kind in _UNQUEUED}
    for each in node.qdiscs:
        cabled = (node.name, each.interface) in placement.peers
        if each.kind == _NETEM and each.interface in virtual and not cabled:
            yield Difference.of(node.name, each, "kind", each.kind, _NO_QUEUE, RULE)


def of_port(node: str, port: PortAudit, *, roce: bool) -> Iterator[Difference]:
    """Yield thresholds of an emulated port in the wrong order, and a class of RoCE that is not lossless."""

    def number(name: str) -> int:
        text = port.settings_in_full.get(name, "")
        return int(text) if text.isdigit() else 0

    def differs(name: str, value: object, expected: str) -> Difference:
        return Difference.of(node, port, name, str(value), expected, RULE)

    if not port.in_kernel:
        yield differs(IN_KERNEL, "no", "yes")
    lossless = number("pfc.priorities")
    for priority in (each for each in _CLASSES if lossless >> each & 1):
        group = f"groups.{number(f'priority_to_group.{priority}')}"
        queue = f"queues.{number(f'priority_to_queue.{priority}')}.ecn"
        xoff, xon = number(f"{group}.xoff"), number(f"{group}.xon")
        if xoff and xon >= xoff:
            yield differs(f"{group}.xon", xon, f"below XOFF, {xoff}")
        kmax = number(f"{queue}.kmax")
        if xoff and port.settings_in_full.get(f"{queue}.enabled") == "yes" and kmax > xoff:
            yield differs(f"{queue}.kmax", kmax, f"at most XOFF, {xoff}")
    if roce and lossless and port.settings_in_full.get("trust") == "dscp":
        priority = number(f"dscp_to_priority.{_ROCE_DSCP}")
        if not lossless >> priority & 1:
            yield differs(f"dscp_to_priority.{_ROCE_DSCP}", priority, "a lossless priority")
