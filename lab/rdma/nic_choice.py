"""Find the RDMA interface that a user names by ``h1`` or ``h1:eth2``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lab.errors import UsageError
from lab.model.topology import Role
from lab.rdma.measure import Nic, Pair
from lab.rdma.rxe import device_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.kernel.process.netns import Namespace
    from lab.model.addressing import NodePlan


class Hosts(Protocol):
    """The part of a running fabric that this module needs."""

    @property
    def name(self) -> str:
        """The name of the fabric."""

    @property
    def plan(self) -> Mapping[str, NodePlan]:
        """Its nodes, with addresses."""

    def namespace(self, node: str) -> Namespace:
        """Return the network namespace of a node."""


def nics_of(fabric: Hosts, host: str) -> tuple[Nic, ...]:
    """Return all RDMA interfaces of a host, in the order of its links; empty if it has no RDMA."""
    plan = fabric.plan[host]
    if not plan.node.rdma:
        return ()
    namespace = fabric.namespace(host)
    addressed = [interface for interface in plan.interfaces.values() if interface.address is not None]
    return tuple(
        Nic(
            host=host,
            interface=interface.name,
            namespace=namespace,
            device=device_name(fabric.name, host, interface.name),
            address=interface.address.ip,
            only=len(addressed) == 1,
        )
        for interface in addressed
        if interface.address is not None
    )


def all_nics(fabric: Hosts) -> tuple[Nic, ...]:
    """Return all RDMA interfaces of all hosts."""
    hosts = [name for name, plan in fabric.plan.items() if plan.node.role is Role.HOST]
    return tuple(nic for host in hosts for nic in nics_of(fabric, host))


def find_nic(fabric: Hosts, text: str) -> Nic:
    """Return the interface ``h1:eth2``, or the first one of ``h1``; UsageError lists those that exist."""
    host, _, interface = text.partition(":")
    plan = fabric.plan.get(host)
    if plan is None or plan.node.role is not Role.HOST:
        hosts = ", ".join(name for name, plan in fabric.plan.items() if plan.node.role is Role.HOST)
        what = f"{host} is a switch" if plan else f"no host {host!r} in fabric {fabric.name}"
        raise UsageError(what, f"hosts are {hosts or 'none'}")
    nics = nics_of(fabric, host)
    if not nics:
        raise UsageError(
            f"{host} has no RDMA", "write rdma: true for it in the topology, then down, and up without --no-rdma"
        )
    for nic in nics:
        if interface in {"", nic.interface}:
            return nic
    raise UsageError(f"{host} has no interface {interface!r}", f"it has {', '.join(nic.interface for nic in nics)}")


def find_pair(fabric: Hosts, src: str, dst: str) -> Pair:
    """Return the pair from ``src`` to ``dst``; UsageError as for either of them, or if both are the same host."""
    return Pair(find_nic(fabric, src), find_nic(fabric, dst))
