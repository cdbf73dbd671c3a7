"""Namespaces, cables, addresses and knobs of a fabric, made in three passes and as few system calls as it takes."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.dataplane import attach, plant
from lab.errors import EnvironmentLacks
from lab.kernel import libc, links, netns, probe, rtnl, tuning

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.dataplane.numbering import Numbering
    from lab.dataplane.plant import Programs
    from lab.kernel.netns import Namespace
    from lab.model.addressing import NodePlan
    from lab.model.qos.port import NodeQos
    from lab.model.topology import Endpoint, Link, Topology

_FIRST_TABLE: Final = 100
"""Routing table of a host's first NIC, when it has several."""
HASH_SEED: Final = "net/ipv4/fib_multipath_hash_seed"

_EVERY_NODE: Final = {
    "net/ipv4/conf/all/rp_filter": 0,
    "net/ipv4/conf/default/rp_filter": 0,
    "net/ipv4/conf/default/arp_announce": 2,
    "net/ipv4/conf/default/arp_ignore": 1,
    "net/ipv4/conf/all/accept_redirects": 0,
    "net/ipv4/conf/default/send_redirects": 0,
    "net/ipv6/conf/all/disable_ipv6": 0,
    "net/ipv6/conf/default/disable_ipv6": 0,
    "net/ipv6/conf/default/accept_dad": 0,
    "net/ipv6/conf/default/accept_ra": 0,
    "net/ipv6/conf/default/addr_gen_mode": 0,
}
_EVERY_SWITCH: Final = {
    "net/ipv4/ip_forward": 1,
    "net/ipv6/conf/all/forwarding": 1,
    "net/ipv6/conf/default/forwarding": 1,
    "net/ipv4/conf/all/ignore_routes_with_linkdown": 1,
    "net/ipv6/conf/all/ignore_routes_with_linkdown": 1,
    "net/ipv4/fib_multipath_use_neigh": 1,
}


@dataclass(frozen=True)
class Site:
    """What is built: names and numbers of a fabric, and the emulated ports where it has them."""

    topology: Topology
    plan: Mapping[str, NodePlan]
    namespaces: Mapping[str, Namespace]
    numbering: Numbering
    qos: Mapping[str, NodeQos]
    programs: Programs | None


def plumb(site: Site, announce: netns.Announce) -> None:
    """Build everything of a fabric that has no process; ``announce`` is told of namespaces before they have names."""
    netns.create([namespace.name for namespace in site.namespaces.values()], announce)
    with _opened(site.namespaces) as descriptors:
        netns.in_thread(lambda: _prepare(site.topology, site.plan, descriptors))
        batch = rtnl.Batch()
        for link in site.topology.links:
            links.add_veth(batch, *(_veth_end(site, end, link.mtu, descriptors) for end in link.ends))
        batch.commit()
        netns.in_thread(lambda: _finish(site, descriptors))


@contextlib.contextmanager
def _opened(namespaces: Mapping[str, Namespace]) -> Iterator[dict[str, int]]:
    with contextlib.ExitStack() as stack:
        descriptors = {}
        for node, namespace in namespaces.items():
            descriptors[node] = os.open(namespace.path, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, descriptors[node])
        yield descriptors


def _veth_end(site: Site, end: Endpoint, mtu: int, descriptors: Mapping[str, int]) -> links.VethEnd:
    return links.VethEnd(
        namespace=descriptors[end.node],
        name=end.interface,
        index=site.numbering.index(end.node, end.interface),
        mac=site.plan[end.node].interfaces[end.interface].mac,
        mtu=mtu,
    )


def _prepare(topology: Topology, plan: Mapping[str, NodePlan], descriptors: Mapping[str, int]) -> None:
    """Set what interfaces inherit at birth, in every namespace."""
    policy = topology.routing.hash_policy.sysctl
    seeded = tuning.has_sysctl(HASH_SEED)
    for node, descriptor in descriptors.items():
        libc.setns(descriptor, libc.CLONE_NEWNET)
        tuning.write_sysctls(_EVERY_NODE)
        if plan[node].node.role.is_switch:
            tuning.write_sysctls(_EVERY_SWITCH)
            hashing = {"net/ipv4/fib_multipath_hash_policy": policy, "net/ipv6/fib_multipath_hash_policy": policy}
            if seeded and plan[node].hash_seed:
                hashing[HASH_SEED] = plan[node].hash_seed
            tuning.write_sysctls(hashing)


def _finish(site: Site, descriptors: Mapping[str, int]) -> None:
    """Addresses, routes, ports or shapers, then up; a CPU for each receiving interface, dealt out in turn."""
    tuning.own_mounts()
    cpus = sorted(os.sched_getaffinity(0))
    dealt = 0
    for node in site.namespaces:
        libc.setns(descriptors[node], libc.CLONE_NEWNET)
        _configure(site, node)
        interfaces = list(site.plan[node].interfaces)
        tuning.disable_offloads(interfaces)
        tuning.steer_receive({name: cpus[(dealt + i) % len(cpus)] for i, name in enumerate(interfaces)})
        dealt += len(interfaces)


def _configure(site: Site, node: str) -> None:
    batch = rtnl.Batch()
    plan = site.plan[node]
    links.set_up(batch, links.LOOPBACK_INDEX, "lo")
    for loopback in plan.loopbacks:
        links.add_address(batch, links.LOOPBACK_INDEX, loopback)
    if site.programs is not None:
        attach.attach(batch, site.numbering.nodes[node], site.qos[node], site.programs)
    for link in site.topology.links_of(node):
        name = link.end_at(node).interface
        index = site.numbering.index(node, name)
        links.add_altname(batch, index, f"{site.namespaces[node].name}-{name}")
        if site.programs is None:
            _shape(batch, index, link)
        address = plan.interfaces[name].address
        if address is not None:
            links.add_address(batch, index, address)
        links.set_up(batch, index, name)
    _route_host(batch, plan, site.numbering)
    batch.commit()


def _shape(batch: rtnl.Batch, index: int, link: Link) -> None:
    """The rate and delay of a link whose ends are no emulated ports."""
    links.add_shaper(batch, index, rate=link.rate, mtu=link.mtu)
    if link.delay:
        links.add_delay(batch, index, delay=link.delay, rate=link.rate, mtu=link.mtu)


def _route_host(batch: rtnl.Batch, plan: NodePlan, numbering: Numbering) -> None:
    """A default route for each NIC; where there are several, what is sent from a NIC's address leaves by that NIC."""
    several = len(plan.interfaces) > 1
    for position, nic in enumerate(plan.interfaces.values()):
        if nic.gateway is not None and nic.address is not None:
            index, table = numbering.index(plan.node.name, nic.name), _FIRST_TABLE + position
            links.add_default_route(batch, nic.gateway, index, metric=table)
            if several:
                links.add_default_route(batch, nic.gateway, index, table=table)
                links.add_source_rule(batch, nic.address.ip, table)


def check_kernel(topology: Topology) -> None:
    """Raise EnvironmentLacks when the topology asks for what this kernel has not got."""
    if os.geteuid() != 0:
        raise EnvironmentLacks("building namespaces needs root", "use sudo, or --vm")
    if not tuning.has_sysctl("net/ipv6/conf/all/forwarding"):
        raise EnvironmentLacks("IPv6 is off in this kernel", "boot it without ipv6.disable=1, or use --vm")
    if topology.qos is not None:
        plant.check()
        return
    delayed = next((link for link in topology.links if link.delay), None)
    if delayed is not None and not probe.has_qdisc("netem"):
        raise EnvironmentLacks(
            f"link {delayed}: delay needs the kernel's sch_netem", "modprobe sch_netem, or use --vm"
        )
