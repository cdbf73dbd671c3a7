"""Render an OSPF underlay: one area, unnumbered links between switches (RFC 2328, RFC 5340), all equal paths used.

It takes two daemons, OSPFv2 for IPv4 and OSPFv3 for IPv6. ospfd treats a /32 address on a point-to-point link as
borrowed, and does not advertise the link as a subnet (RFC 2328 section 12.4.1.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.model.topology import Underlay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.addressing import NodePlan
    from lab.model.topology import Topology

_AREA: Final = "0.0.0.0"  # noqa: S104 - the backbone's number
_SOON: Final = 50
"""Milliseconds between two versions of an LSA. FRR's default of 5 s would delay the start of a fabric."""


@dataclass(frozen=True, slots=True)
class Timers:
    """Hello interval and dead interval in seconds, and the BFD profile ("" without BFD)."""

    hello: int
    dead: int
    bfd: str


def ospf_lines(topology: Topology, plan: NodePlan, timers: Timers) -> Iterator[str]:
    """Yield the OSPFv2 configuration of a switch; nothing for other underlays."""
    if topology.routing.underlay is Underlay.OSPF:
        yield from _interfaces(topology, plan, timers, "ip ospf", 4)
        yield "router ospf"
        yield f" ospf router-id {plan.loopback4}"
        yield f" timers throttle lsa all {_SOON}"
        yield f" timers lsa min-arrival {_SOON}"
        yield "exit"


def ospf6_lines(topology: Topology, plan: NodePlan, timers: Timers) -> Iterator[str]:
    """Yield the OSPFv3 configuration of a switch; nothing for other underlays."""
    if topology.routing.underlay is Underlay.OSPF:
        yield from _interfaces(topology, plan, timers, "ipv6 ospf6", 6)
        yield "router ospf6"
        yield f" ospf6 router-id {plan.loopback4}"
        yield f" timers lsa min-arrival {_SOON}"
        yield "exit"


def _interfaces(topology: Topology, plan: NodePlan, timers: Timers, word: str, version: int) -> Iterator[str]:
    """Yield the interfaces: links to switches have neighbours, links to hosts are passive."""
    yield from ("interface lo", f" {word} area {_AREA}", "exit")
    for link in topology.links_of(plan.node.name):
        here = link.end_at(plan.node.name)
        address = plan.interfaces[here.interface].address
        if topology.node(link.other(here).node).role.is_switch:
            yield f"interface {here.interface}"
            yield f" {word} area {_AREA}"
            yield f" {word} network point-to-point"
            yield f" {word} hello-interval {timers.hello}"
            yield f" {word} dead-interval {timers.dead}"
            if timers.bfd:
                yield f" {word} bfd"
                yield f" {word} bfd profile {timers.bfd}"
            yield "exit"
        elif address is not None and address.version == version:
            yield from (f"interface {here.interface}", f" {word} area {_AREA}", f" {word} passive", "exit")
