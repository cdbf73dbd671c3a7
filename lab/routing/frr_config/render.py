"""Render the FRR configuration of one switch from its topology and plan.

The underlay is eBGP on unnumbered links (RFC 7938; RFC 8950, formerly RFC 5549, for IPv4 routes with IPv6 next hops).
All equal paths are used whatever their AS numbers, and BFD runs on every session. Alternatives are OSPF
(``render_ospf``) and IS-IS (``render_isis``), with BGP only for an overlay. Each daemon reads its own file: FRR 8.4
to 10.x accept these without vtysh, which saves a process for each router.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Final, TypeAlias

from lab.model.overlay.plan import plan_overlay
from lab.model.topology import Role
from lab.routing.frr_config.render_evpn import bgp_family, bgp_sessions, bgp_vrfs, policies, speaks_as, zebra_vrfs
from lab.routing.frr_config.render_external import external_router
from lab.routing.frr_config.render_isis import isis_lines
from lab.routing.frr_config.render_ospf import Timers, ospf6_lines, ospf_lines
from lab.routing.frr_config.render_pim import asked_for, pim_lines
from lab.routing.frr_config.render_segments import script, segment_lines, zebra_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.model.addressing import NodePlan
    from lab.model.overlay.node_plan import External
    from lab.model.topology import Bfd, Endpoint, Topology

Network: TypeAlias = IPv4Network | IPv6Network

KEEPALIVE: Final = 3
HOLD_TIME: Final = 9
"""Seconds. BFD is faster; the hold time detects a bgpd that runs but does not work."""
CONNECT_RETRY: Final = 1
"""Seconds between attempts to open a session."""
COALESCE: Final = 0
"""Milliseconds that bgpd delays the first update of an update group, for other neighbours to join it. FRR's default
is 1,000 plus 50 for each neighbour: 2.6 s at a spine of 32 leaves, during which no leaf learns of another.
"""
MAXIMUM_PATHS: Final = 64

_NO_GROUPS: Final = "no zebra nexthop kernel enable"
"""Each route has its own next hops instead of a kernel nexthop group. The kernel removes a link that goes down from a
group, and zebra does not restore it when the link is up again (FRR 8.4 to 10.2, issues 12239 and 15505).
"""
_GROUP: Final = "FABRIC"
_BFD_PROFILE: Final = "fabric"


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """The configuration of one router, by daemon."""

    header: str
    """The first lines of each file."""
    zebra: str
    bfdd: str
    bgpd: str
    staticd: str = ""
    ospfd: str = ""
    ospf6d: str = ""
    isisd: str = ""
    pimd: str = ""
    late: tuple[str, ...] = ()
    """Lines for pimd, applied when it has its interfaces."""
    own: tuple[str, ...] = ()
    """The user's lines, applied when the daemons run."""
    managed: str = ""
    """VRFs and interfaces for zebra: appended to its file, or configured by mgmtd (FRR 10)."""
    script: str = ""
    """The Lua script that zebra runs on its decisions (``render_segments``); "" without bonds."""

    @property
    def files(self) -> Mapping[str, str]:
        """The text of each daemon that runs, in start order. staticd runs only for the user's lines.

        Daemons that discover neighbours start early, so that discovery overlaps with the start of the others. pimd is
        before those that bring routes (see ``render_pim``).
        """
        texts = {
            "zebra": self.zebra,
            "pimd": self.pimd,
            "ospfd": self.ospfd,
            "ospf6d": self.ospf6d,
            "isisd": self.isisd,
            "bgpd": self.bgpd,
            "bfdd": self.bfdd,
            "staticd": self.staticd,
        }
        return {daemon: text for daemon, text in texts.items() if text}

    @property
    def integrated(self) -> str:
        """The whole configuration in one file, for vtysh (``service integrated-vtysh-config``)."""
        return self.header + "".join(text.removeprefix(self.header) for text in self.files.values())


def has_routers(topology: Topology) -> bool:
    """Return whether switches run FRR: in plain VLANs they only bridge, and have no daemons."""
    return topology.overlay is None or not topology.overlay.plain


def render_router(topology: Topology, plan: Mapping[str, NodePlan], name: str) -> RouterConfig:
    """Return the configuration of switch ``name``."""
    bfd = topology.routing.bfd
    own = tuple(line.strip() for _, line in own_lines(topology, name))
    header = _text("frr defaults datacenter", f"hostname {name}", "!")
    overlay = plan_overlay(topology)
    leaf = overlay.leaves.get(name) if overlay else None
    tenants = bgp_vrfs(topology, plan[name], leaf, MAXIMUM_PATHS)
    timers = Timers(KEEPALIVE, HOLD_TIME, _BFD_PROFILE if bfd.enabled else "")
    by_igp = (ospf_lines, ospf6_lines, isis_lines)
    ospf, ospf6, isis = (tuple(lines(topology, plan[name], timers)) for lines in by_igp)
    pim = tuple(pim_lines(topology, plan, name))
    return RouterConfig(
        header=header,
        zebra=header + _text(_NO_GROUPS, *zebra_lines(overlay, name)),
        bfdd=header + _text(*_bfd_profile(bfd)) if bfd.enabled else "",
        bgpd=header
        + _text(
            *policies(leaf),
            *_bgp(topology, plan, name),
            *bgp_family(topology, _GROUP, leaf, plan[name]),
            "exit",
            *tenants,
        )
        if topology.has_bgp
        else "",
        staticd=header if own else "",
        ospfd=header + _text(*ospf) if ospf else "",
        ospf6d=header + _text(*ospf6) if ospf6 else "",
        isisd=header + _text(*isis) if isis else "",
        pimd=header + _text(*pim) if pim else "",
        late=tuple(asked_for(topology, overlay, plan, name)),
        own=own,
        managed=_text(*_router_advertisements(topology, name), *zebra_vrfs(leaf), *segment_lines(leaf)),
        script=script(overlay, name),
    )


def render_external(topology: Topology, plan: Mapping[str, NodePlan], external: External) -> RouterConfig:
    """Return the configuration of an external router."""
    header = _text("frr defaults datacenter", f"hostname {external.host}", "!")
    lines = external_router(external, speaks_as(topology, plan[external.leaf]))
    return RouterConfig(header=header, zebra=header + _text(_NO_GROUPS), bfdd="", bgpd=header + _text(*lines))


def own_lines(topology: Topology, name: str) -> list[tuple[int, str]]:
    """Return the user's lines for a switch with their line numbers, from 1, without comments."""
    lines = enumerate(topology.frr.get(name, "").splitlines(), start=1)
    return [(number, line) for number, line in lines if line.strip() and not line.lstrip().startswith(("!", "#"))]


def _text(*lines: str) -> str:
    return "".join(line + "\n" for line in lines)


def advertised(plan: NodePlan) -> tuple[Network, ...]:
    """Return the prefixes that a switch originates: its loopbacks, then its links to hosts."""
    addresses = (interface.address for interface in plan.interfaces.values())
    links = tuple(address.network for address in addresses if address is not None)
    return (*(loopback.network for loopback in plan.loopbacks), *links)


def _bfd_profile(bfd: Bfd) -> Iterator[str]:
    milliseconds = round(bfd.interval * 1000)
    yield "bfd"
    yield f" profile {_BFD_PROFILE}"
    yield f"  transmit-interval {milliseconds}"
    yield f"  receive-interval {milliseconds}"
    yield f"  detect-multiplier {bfd.multiplier}"
    yield " exit"
    yield "exit"


def _bgp(topology: Topology, plans: Mapping[str, NodePlan], name: str) -> Iterator[str]:
    plan = plans[name]
    yield f"router bgp {speaks_as(topology, plan)}"
    yield f" bgp router-id {plan.loopback4}"
    yield " no bgp ebgp-requires-policy"
    yield " no bgp default ipv4-unicast"
    yield " bgp bestpath as-path multipath-relax"
    yield f" timers bgp {KEEPALIVE} {HOLD_TIME}"
    yield f" coalesce-time {COALESCE}"
    if not topology.routing.underlay.is_igp:
        yield from _peers(topology, plan)
    yield from bgp_sessions(topology, plans, name, CONNECT_RETRY)
    for family in (IPv4Network, IPv6Network) if not topology.routing.underlay.is_igp else ():
        yield from _address_family(plan, family)


def _peers(topology: Topology, plan: NodePlan) -> Iterator[str]:
    yield f" neighbor {_GROUP} peer-group"
    yield f" neighbor {_GROUP} remote-as external"
    if speaks_as(topology, plan) != plan.asn:
        yield f" neighbor {_GROUP} local-as {plan.asn} no-prepend replace-as"
    yield f" neighbor {_GROUP} timers connect {CONNECT_RETRY}"
    yield f" neighbor {_GROUP} capability extended-nexthop"
    if topology.routing.bfd.enabled:
        yield f" neighbor {_GROUP} bfd"
        yield f" neighbor {_GROUP} bfd profile {_BFD_PROFILE}"
    for here, there in _unnumbered(topology, plan.node.name):
        yield f" neighbor {here.interface} interface peer-group {_GROUP}"
        yield f" neighbor {here.interface} description {there}"


def _router_advertisements(topology: Topology, name: str) -> Iterator[str]:
    """Yield router advertisements on links (RFC 4861 section 6.2), by which neighbours learn each other's address.

    bgpd also enables them, but only when it starts. Then a session waits up to a second for the neighbour's next one.
    """
    if not topology.routing.underlay.is_igp:
        for here, _ in _unnumbered(topology, name):
            yield f"interface {here.interface}"
            yield " no ipv6 nd suppress-ra"
            yield "exit"


def _unnumbered(topology: Topology, name: str) -> Iterator[tuple[Endpoint, Endpoint]]:
    """Yield both ends of each link to another switch, the near end first."""
    for link in topology.links_of(name):
        here = link.end_at(name)
        there = link.other(here)
        if topology.node(there.node).role is not Role.HOST:
            yield here, there


def _address_family(plan: NodePlan, family: type[Network]) -> Iterator[str]:
    yield " !"
    yield f" address-family {'ipv4' if family is IPv4Network else 'ipv6'} unicast"
    for prefix in advertised(plan):
        if isinstance(prefix, family):
            yield f"  network {prefix}"
    yield f"  neighbor {_GROUP} activate"
    yield f"  maximum-paths {MAXIMUM_PATHS}"
    yield " exit-address-family"
