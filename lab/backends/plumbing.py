"""Links, addresses, routes and sysctls of a fabric, configured in three passes with batched netlink requests."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.backends import overlay_plumbing
from lab.dataplane import attach, port_maps
from lab.errors import EnvironmentLacks
from lab.kernel.bpf import probe
from lab.kernel.netlink import links, rtnl
from lab.kernel.process import threads, tuning
from lab.model.host_routes import host_routes
from lab.model.overlay.plan import plan_overlay
from lab.model.sysctls import HASH_SEED, sysctls_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.backends.backend import Fabric
    from lab.dataplane.numbering import Numbering
    from lab.dataplane.port_maps import Programs
    from lab.kernel.process.netns import Namespace
    from lab.model.addressing import NodePlan
    from lab.model.qos.port import NodeQos
    from lab.model.topology import Endpoint, Link, Topology

_CABLES_AT_ONCE: Final = 64
"""Links in one batch; the namespaces of their ends are held open meanwhile."""
_NEIGHBOURS: Final = "net/ipv6/neigh/default/gc_thresh3"


@dataclass(frozen=True)
class Blueprint:
    """Input of ``plumb``: topology, plan, namespaces and port ids; ``programs`` is None without emulated ports."""

    topology: Topology
    plan: Mapping[str, NodePlan]
    namespaces: Mapping[str, Namespace]
    numbering: Numbering
    qos: Mapping[str, NodeQos]
    programs: Programs | None


def plumb(blueprint: Blueprint) -> None:
    """Build all parts of a fabric that need no process, in existing namespaces."""
    threads.in_thread(lambda: _prepare(blueprint))
    for start in range(0, len(blueprint.topology.links), _CABLES_AT_ONCE):
        _cable(blueprint, blueprint.topology.links[start : start + _CABLES_AT_ONCE])
    threads.in_thread(lambda: _finish(blueprint))


def _cable(blueprint: Blueprint, cables: Sequence[Link]) -> None:
    batch = rtnl.NetlinkBatch()
    with contextlib.ExitStack() as stack:
        descriptors = {}
        for node in {end.node for link in cables for end in link.ends}:
            descriptors[node] = os.open(blueprint.namespaces[node].path, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, descriptors[node])
        for link in cables:
            links.add_veth(batch, *(_veth_end(blueprint, end, link.mtu, descriptors) for end in link.ends))
        batch.commit()


def _veth_end(blueprint: Blueprint, end: Endpoint, mtu: int, descriptors: Mapping[str, int]) -> links.VethEnd:
    return links.VethEnd(
        namespace=descriptors[end.node],
        name=end.interface,
        index=blueprint.numbering.index(end.node, end.interface),
        mac=blueprint.plan[end.node].interfaces[end.interface].mac,
        mtu=mtu,
    )


def _prepare(blueprint: Blueprint) -> None:
    """Set the sysctls of every namespace that interfaces inherit when they are created."""
    seeded = tuning.has_sysctl(HASH_SEED)
    for node, namespace in blueprint.namespaces.items():
        namespace.enter()
        plan = blueprint.plan[node]
        tuning.write_sysctls(sysctls_of(plan, blueprint.topology.routing))
        if seeded and plan.hash_seed:
            tuning.write_sysctls({HASH_SEED: plan.hash_seed})


def _finish(blueprint: Blueprint) -> None:
    """Configure addresses, routes, and ports or shapers, then set interfaces up.

    Receive processing of the interfaces is distributed over the CPUs in turn.
    """
    tuning.own_mounts()
    planned = plan_overlay(blueprint.topology)
    layer = None if planned is None else overlay_plumbing.OverlayPlumber(planned, blueprint.numbering, blueprint.plan)
    cpus = sorted(os.sched_getaffinity(0))
    dealt = 0
    for node, namespace in blueprint.namespaces.items():
        namespace.enter()
        if layer is not None:
            layer.prepare(node)
        _configure(blueprint, node)
        if layer is not None:
            layer.lay(blueprint.plan[node])
        interfaces = list(blueprint.plan[node].interfaces)
        tuning.disable_offloads(interfaces)
        tuning.steer_receive({name: cpus[(dealt + i) % len(cpus)] for i, name in enumerate(interfaces)})
        dealt += len(interfaces)


def _configure(blueprint: Blueprint, node: str) -> None:
    batch = rtnl.NetlinkBatch()
    plan = blueprint.plan[node]
    links.set_up(batch, links.LOOPBACK_INDEX, "lo")
    for loopback in plan.loopbacks:
        links.add_address(batch, links.LOOPBACK_INDEX, loopback)
    if blueprint.programs is not None:
        attach.attach(batch, blueprint.numbering.nodes[node], blueprint.qos[node], blueprint.programs)
    for link in blueprint.topology.links_of(node):
        name = link.end_at(node).interface
        index = blueprint.numbering.index(node, name)
        links.add_altname(batch, index, altname(blueprint.namespaces[node], name))
        if blueprint.programs is None:
            _shape(batch, index, link)
        planned = plan.interfaces[name]
        for address in (planned.address, planned.borrowed):
            if address is not None:
                links.add_address(batch, index, address)
        links.set_up(batch, index, name)
    _route_host(batch, plan, blueprint.numbering)
    batch.commit()


def restore_port(fabric: Fabric, end: Endpoint, programs: Programs | None) -> None:
    """Configure a switch's interface that lost its queues, programs and alternative name, without its addresses.

    Call it in the namespace of its node. ``programs`` is None without emulated ports. The interface is up afterwards.
    """
    batch = rtnl.NetlinkBatch()
    index = fabric.numbering.index(end.node, end.interface)
    links.add_altname(batch, index, altname(fabric.namespace(end.node), end.interface))
    if programs is None:
        (link,) = (each for each in fabric.topology.links_of(end.node) if end in each.ends)
        _shape(batch, index, link)
    else:
        attach.attach_port(batch, fabric.numbering.nodes[end.node], end.interface, programs)
    links.set_up(batch, index, end.interface)
    batch.commit()


def altname(namespace: Namespace, interface: str) -> str:
    """Return the alternative name of an interface, which is unique on the machine."""
    return f"{namespace.name}-{interface}"


def _shape(batch: rtnl.NetlinkBatch, index: int, link: Link) -> None:
    """Set the rate and delay of a link without emulated ports."""
    links.add_shaper(batch, index, rate=link.rate, mtu=link.mtu)
    if link.delay:
        links.add_delay(batch, index, delay=link.delay, rate=link.rate, mtu=link.mtu)


def _route_host(batch: rtnl.NetlinkBatch, plan: NodePlan, numbering: Numbering) -> None:
    """Add a default route for each NIC; with several NICs, source rules select the NIC that owns the address."""
    for route in host_routes(plan):
        index = numbering.index(plan.node.name, route.interface)
        links.add_default_route(batch, route.gateway, index, metric=route.metric)
        if route.table:
            links.add_default_route(batch, route.gateway, index, table=route.table)
            links.add_source_rule(batch, route.source, route.table)


def check_kernel(topology: Topology) -> None:
    """Raise EnvironmentLacks without root, or if this kernel lacks a feature that the topology needs."""
    if os.geteuid() != 0:
        raise EnvironmentLacks("building namespaces needs root", "use sudo, or --vm")
    if not tuning.has_sysctl("net/ipv6/conf/all/forwarding"):
        raise EnvironmentLacks("IPv6 is off in this kernel", "boot it without ipv6.disable=1, or use --vm")
    _check_neighbours(topology)
    overlay_plumbing.check_kernel(topology)
    if topology.qos is not None:
        port_maps.check()
        return
    delayed = next((link for link in topology.links if link.delay), None)
    if delayed is not None and not probe.has_qdisc("netem"):
        raise EnvironmentLacks(
            f"link {delayed}: delay needs the kernel's sch_netem", "modprobe sch_netem, or use --vm"
        )


def _check_neighbours(topology: Topology) -> None:
    """Raise EnvironmentLacks if the kernel's IPv6 neighbour table is too small for the links between switches.

    Each end of such a link needs a permanent entry, and all namespaces share one table. If it is full, sessions stay
    down, and only the kernel log has the reason. Its limit is set by the machine's administrator (arp(7)), and is
    visible only in the initial namespace.
    """
    if not tuning.has_sysctl(_NEIGHBOURS):
        return
    room = int(tuning.read_sysctls([_NEIGHBOURS])[_NEIGHBOURS])
    between = [link for link in topology.links if all(topology.node(end.node).role.is_switch for end in link.ends)]
    if (ends := 2 * len(between)) >= room:
        raise EnvironmentLacks(
            f"{topology.name} has {len(between)} links between switches, and this kernel room for {(room - 1) // 2}",
            f"sysctl -w {_NEIGHBOURS.replace('/', '.')}={4 * ends} makes some, or use --vm",
        )
