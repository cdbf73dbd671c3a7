"""Distribute the hosts of a regular fabric among tenants, and map hosts' ends to tenants."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.model.overlay.intent import Network
    from lab.model.topology import Endpoint, Topology

MAX_TENANTS: Final = 250
"""The most tenants to distribute: each uses an octet of 10.0.0.0/8."""
_FIRST_VLAN: Final = 10
_FIRST_L2VNI, _FIRST_L3VNI = 10_000, 50_000
_STEP: Final = 16
"""Networks of 10.n.0.0/16 are a /20 each, one for each rail."""


def deal(topology: Topology, tenants: int) -> Iterator[str]:
    """Yield the lines of ``tenants`` and ``networks``; hosts are assigned to tenants in turn.

    A tenant has a network for its hosts' first interfaces, one for the second ones, and so on. UsageError is raised
    if there are fewer hosts than tenants.
    """
    hosts = topology.hosts
    if tenants > len(hosts):
        raise UsageError(
            f"{tenants} tenants for {len(hosts)} hosts", f"--tenants {len(hosts)} or fewer, or more hosts"
        )
    yield "  tenants:"
    for number in range(1, tenants + 1):
        yield f"    tenant{number}: {{l3vni: {_FIRST_L3VNI + number}}}"
    yield "  networks:"
    rails = max(len(topology.links_of(host.name)) for host in hosts)
    for number in range(1, tenants + 1):
        for rail in range(1, rails + 1):
            own = [
                str(links[rail - 1].end_at(host.name)) if rails > 1 else host.name
                for host in hosts[number - 1 :: tenants]
                if len(links := topology.links_of(host.name)) >= rail
            ]
            yield from _network(number, rail, _FIRST_VLAN + (number - 1) * rails + rail - 1, own, rails > 1)


def _network(tenant: int, rail: int, vlan: int, own: list[str], several: bool) -> Iterator[str]:
    name = f"lan{tenant}-{rail}" if several else f"lan{tenant}"
    four, six = f"10.{tenant}.{(rail - 1) * _STEP}", f"fd00:{tenant}:{rail}:"
    yield f"    {name}:"
    yield f"      vlan: {vlan}"
    yield f"      l2vni: {_FIRST_L2VNI + vlan}"
    yield f"      tenant: tenant{tenant}"
    yield f'      subnets: [{four}.0/20, "{six}:/64"]'
    yield f'      gateways: [{four}.1, "{six}:1"]'
    yield from textwrap.wrap(
        f"untagged: [{', '.join(own)}]", 110, initial_indent=" " * 6, subsequent_indent=" " * 8,
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip


def tenants_of_ends(topology: Topology) -> Mapping[Endpoint, str]:
    """Return the tenant of each host's end: that of its untagged network, or of its first one."""
    found: dict[Endpoint, str] = {}
    for tagged in (False, True):
        for end, network in _of_tenants(topology, tagged=tagged):
            found.setdefault(end, network.tenant)
    return found


def reach_of_ends(topology: Topology) -> Mapping[Endpoint, tuple[str, str]]:
    """Return a key for each host's end; ends with the same key reach each other by their first addresses.

    The key is a tenant and "" or, if the network is only bridged, a tenant and the network, because a tenant's
    bridged networks may share addresses. Ends without an address are left out.
    """
    return {
        end: (network.tenant, "" if network.gateway_of(network.subnets[0]) is not None else network.name)
        for end, network in _of_tenants(topology, tagged=False)
        if network.subnets
    }


def _of_tenants(topology: Topology, *, tagged: bool) -> Iterator[tuple[Endpoint, Network]]:
    """Yield hosts' ends in networks of tenants; a bond is replaced by its members."""
    overlay = topology.overlay
    members = {bond.end: bond.members for bond in (overlay.bonds if overlay else ())}
    for network in overlay.networks if overlay else ():
        for attachment in network.attachments:
            if network.tenant and attachment.tagged is tagged:
                yield from ((end, network) for end in members.get(attachment.end, (attachment.end,)))
