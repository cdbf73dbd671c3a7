"""Render an IS-IS underlay: one area, level 2, point-to-point links between switches, all equal paths used.

One daemon and one adjacency a link carry IPv4 (RFC 1195) and IPv6 (RFC 5308). Links use the address of the loopback,
as with OSPF (``render_ospf``), because isisd advertises it as the next hop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.model.topology import Underlay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address

    from lab.model.addressing import NodePlan
    from lab.model.topology import Topology
    from lab.routing.frr_config.render_ospf import Timers

INSTANCE: Final = "fabric"
_AREA: Final = "49.0001"
_SPF: Final = "init-delay 50 short-delay 200 long-delay 2000 holddown 4000 time-to-learn 500"
"""Milliseconds (RFC 8405): SPF runs soon after a first change, and less often in a storm of changes."""
_LSP_INTERVAL: Final = 1
"""Seconds between two versions of a switch's own LSP: FRR's minimum; its default is 30."""
_LSP_MTU: Final = 1497
"""Bytes of an LSP: FRR's default. isisd rejects interfaces with a smaller MTU."""
_LLC: Final = 3
"""Bytes before an IS-IS packet: the IEEE 802.2 header."""


def isis_lines(topology: Topology, plan: NodePlan, timers: Timers) -> Iterator[str]:
    """Yield the IS-IS configuration of a switch; nothing for other underlays."""
    if topology.routing.underlay is not Underlay.ISIS:
        return
    yield f"router isis {INSTANCE}"
    yield " is-type level-2-only"
    yield " metric-style wide"
    yield f" lsp-gen-interval level-2 {_LSP_INTERVAL}"
    yield f" spf-delay-ietf {_SPF}"
    least = min((link.mtu for link in topology.links_of(plan.node.name)), default=_LSP_MTU) - _LLC
    if least < _LSP_MTU:
        yield f" lsp-mtu {least}"
    # Must follow the intervals: the next LSP is scheduled with the interval in force when the first one is made, by
    # default 30 s.
    yield f" net {network_entity_title(plan.loopback4)}"
    yield "exit"
    yield from _interfaces(topology, plan, timers)


def network_entity_title(loopback: IPv4Address | None) -> str:
    """Return a switch's NET (ISO 10589 section 7.1): area, system id from the loopback's digits, selector 0."""
    digits = "".join(f"{octet:03d}" for octet in (loopback.packed if loopback is not None else bytes(4)))
    return f"{_AREA}.{digits[:4]}.{digits[4:8]}.{digits[8:]}.00"


def _interfaces(topology: Topology, plan: NodePlan, timers: Timers) -> Iterator[str]:
    """Yield the interfaces: links to switches have neighbours; loopbacks and links to hosts are passive."""
    yield from _interface("lo", (4, 6), passive=True)
    for link in topology.links_of(plan.node.name):
        here = link.end_at(plan.node.name)
        address = plan.interfaces[here.interface].address
        if topology.node(link.other(here).node).role.is_switch:
            yield from _interface(here.interface, (4, 6), passive=False, timers=timers)
        elif address is not None:
            yield from _interface(here.interface, (address.version,), passive=True)


def _interface(name: str, versions: tuple[int, ...], *, passive: bool, timers: Timers | None = None) -> Iterator[str]:
    yield f"interface {name}"
    yield from (f" {'ip' if version == 4 else 'ipv6'} router isis {INSTANCE}" for version in versions)
    if passive:
        yield " isis passive"
    if timers is not None:
        yield " isis circuit-type level-2-only"
        yield " isis network point-to-point"
        yield " no isis hello padding"
        yield f" isis hello-interval level-2 {timers.hello}"
        yield f" isis hello-multiplier level-2 {timers.dead // timers.hello}"
        if timers.bfd:
            yield " isis bfd"
            yield f" isis bfd profile {timers.bfd}"
    yield "exit"
