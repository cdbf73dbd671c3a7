"""An underlay of OSPF: one area, every link between switches unnumbered (RFC 2328, RFC 5340), all equal paths used.

It takes two daemons: OSPFv2 for what is IPv4, OSPFv3 for what is IPv6. A /32 address on a point-to-point link is for
ospfd one that the link has borrowed, and the link is not told as a subnet (RFC 2328 section 12.4.1.1).
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
"""Milliseconds between two versions of what a switch tells of itself; by FRR's own 5 s a fabric would start later."""


@dataclass(frozen=True, slots=True)
class Timers:
    """Seconds between hellos, and without any until a neighbour is down; the profile of BFD, "" where that is off."""

    hello: int
    dead: int
    bfd: str


def ospf_lines(topology: Topology, plan: NodePlan, timers: Timers) -> Iterator[str]:
    """OSPFv2 of a switch; nothing where the underlay is another."""
    if topology.routing.underlay is Underlay.OSPF:
        yield from _interfaces(topology, plan, timers, "ip ospf", 4)
        yield "router ospf"
        yield f" ospf router-id {plan.loopback4}"
        yield f" timers throttle lsa all {_SOON}"
        yield f" timers lsa min-arrival {_SOON}"
        yield "exit"


def ospf6_lines(topology: Topology, plan: NodePlan, timers: Timers) -> Iterator[str]:
    """OSPFv3 of a switch; nothing where the underlay is another."""
    if topology.routing.underlay is Underlay.OSPF:
        yield from _interfaces(topology, plan, timers, "ipv6 ospf6", 6)
        yield "router ospf6"
        yield f" ospf6 router-id {plan.loopback4}"
        yield f" timers lsa min-arrival {_SOON}"
        yield "exit"


def _interfaces(topology: Topology, plan: NodePlan, timers: Timers, word: str, version: int) -> Iterator[str]:
    """Links to switches have neighbours; loopbacks, and links to hosts of the underlay, are told and have none."""
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
