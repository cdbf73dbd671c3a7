"""Pods for the time of a job: a namespace on each host, with a sub-interface of the host's NIC and an RDMA device.

A pod with SR-IOV or Multus has a network interface with an address of its own, and an RDMA device of its own. Both
share the port of the host's NIC with it. Here the interface is a macvlan, which has its own MAC as a virtual function
does, or an ipvlan, which has the NIC's. Packets of a pod leave by the NIC's port, so its queues, PFC and ECN apply.

::

      rl-<fabric>.h1.pod      eth1 (macvlan), 100.64.0.1/31, RDMA device <fabric>.h1.pod
            |
      rl-<fabric>.h1          eth1, 10.0.0.1/31
            |
      rl-<fabric>.leaf1       swp3, 10.0.0.0/31 and 100.64.0.0/31, which BGP advertises

A host link with IPv4 has only two addresses, so each pod gets a link network of its own, from the shared address
space of RFC 6598. A host link with IPv6 is a /64 with room for the pod.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING, Any, Final

from lab.backends import netns_backend
from lab.backends.fabric_state import JournalKind
from lab.errors import CommandFailed, EnvironmentLacks, OperationFailed, UsageError
from lab.jobs.rank_placement import nic_links
from lab.kernel.netlink import ip_state
from lab.kernel.netlink.routes import RouteNews
from lab.kernel.process import locks, netns, netns_processes, process, signals, tuning
from lab.kernel.process.netns import Namespace
from lab.model.addressing import POD_LINKS
from lab.model.topology import Underlay
from lab.rdma import rxe
from lab.rdma.nic_choice import all_nics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.backends.backend import Fabric, Progress
    from lab.model.addressing import InterfacePlan
    from lab.rdma.measure import Nic

_NAME: Final = "pod"
_THIRD: Final = 3
"""The pod's address in the /64 of a host link; the leaf has the first and the host the second."""
_PATIENCE: Final = 30.0
"""Seconds until a leaf knows the routes to all pods."""


class PodKind(StrEnum):
    """The kind of a pod's interface."""

    MACVLAN = "macvlan"
    """A MAC of its own, as a virtual function of SR-IOV has."""
    IPVLAN = "ipvlan"
    """The MAC of the NIC, and an address of its own (mode L2)."""


_MODES: Final = {PodKind.MACVLAN: "macvlan mode bridge", PodKind.IPVLAN: "ipvlan mode l2"}


@dataclass(frozen=True, slots=True)
class JobPod:
    """A pod, the NIC below it, and what its leaf has for it."""

    nic: Nic
    """The NIC of the pod: its namespace, device and address."""
    host: Namespace
    address: str
    gateway: str
    leaf: str
    port: str
    network: IPv4Interface | None
    """The address of the leaf's port in the pod's network; None if the host link has room for the pod."""


@contextlib.contextmanager
def pods(fabric: Fabric, nics: Sequence[Nic], kind: PodKind, progress: Progress) -> Iterator[tuple[Nic, ...]]:
    """Create a pod on each NIC, yield the NICs of the pods in the same order, and remove the pods afterwards.

    Pods that a killed command left are removed first; ``down`` removes them, too. UsageError if a pod of a running
    job is there, or the fabric has no room for pods. EnvironmentLacks if the kernel lacks this kind of interface.
    """
    made = planned_pods(fabric, nics)
    with _reserved(fabric, made):
        with fabric.state.reading():
            _remove(fabric, _possible(fabric, made))
        try:
            with fabric.state.reading():
                _create(fabric, made, kind, progress)
                _await_routes(fabric, made)
            yield tuple(pod.nic for pod in made)
        finally:
            with signals.held(), contextlib.suppress(UsageError), fabric.state.reading():  # the fabric may be gone
                _remove(fabric, made)


def planned_pods(fabric: Fabric, nics: Sequence[Nic]) -> list[JobPod]:
    """Return the pods of NICs. UsageError if there can be none on one of them."""
    if fabric.backend.name != netns_backend.NetnsBackend.name:
        raise UsageError(f"{fabric.name} has no pods: rocelab did not create its namespaces", "leave out --pod")
    if railed := next((nic for nic in nics if nic.rails), None):
        raise UsageError(f"{railed.host} has several rails, and a pod has one", "name one device: NCCL_IB_HCA==eth1")
    pools = fabric.topology.addressing
    taken = (pools.leaf_loopbacks, pools.spine_loopbacks, pools.superspine_loopbacks, pools.vteps, pools.host_links)
    if found := next((pool for pool in taken if pool.overlaps(POD_LINKS)), None):
        raise UsageError(
            f"addresses of pods are in {POD_LINKS}, which overlaps {found} of {fabric.name}", "leave out --pod"
        )
    return [_plan(fabric, nic) for nic in nics]


def _possible(fabric: Fabric, made: Sequence[JobPod]) -> list[JobPod]:
    """Return the pods that hosts of ``made`` may have of a killed job, which may have used another NIC of a host."""
    hosts, found = {pod.nic.host for pod in made}, []
    for nic in all_nics(fabric):
        if nic.host in hosts:
            with contextlib.suppress(UsageError):
                found.append(_plan(fabric, nic))
    return found


def _plan(fabric: Fabric, nic: Nic) -> JobPod:
    number = [(each.host, each.interface) for each in all_nics(fabric)].index((nic.host, nic.interface))
    interface = fabric.plan[nic.host].interfaces.get(nic.interface)
    link = nic_links(fabric.topology, fabric.plan, nic)[0]
    leaf = link.other(link.end_at(nic.host))
    if interface is None or not _is_routed(fabric, interface, leaf.node, leaf.interface):
        raise UsageError(
            f"{nic.host}:{nic.interface} has no room for a pod: its leaf does not route on this link",
            "leave out --pod, or use a fabric without an overlay and without bonds",
        )
    network = None
    if nic.address.version == 4:
        network = IPv4Interface((POD_LINKS[2 * number], 31))
        address, gateway = f"{POD_LINKS[2 * number + 1]}/31", str(network.ip)
    else:
        assert interface.address is not None  # noqa: S101 - see _is_routed
        prefix = interface.address.network
        address, gateway = f"{prefix[_THIRD]}/{prefix.prefixlen}", str(interface.gateway)
    namespace = Namespace(f"{nic.namespace.name}.{_NAME}", nic.namespace.group)
    device = rxe.device_name(fabric.name, nic.host, _NAME)
    inside = type(nic.address)(address.partition("/")[0])
    return JobPod(
        nic=replace(nic, namespace=namespace, device=device, address=inside),
        host=nic.namespace,
        address=address,
        gateway=gateway,
        leaf=leaf.node,
        port=leaf.interface,
        network=network,
    )


def _is_routed(fabric: Fabric, interface: InterfacePlan, leaf: str, port: str) -> bool:
    """Whether the leaf's port has the address that is the host's gateway."""
    there = fabric.plan[leaf].interfaces[port].address
    return not interface.bond and there is not None and there.ip == interface.gateway


def _cookies(fabric: Fabric, made: Sequence[JobPod]) -> dict[str, int]:
    """Return the pods that exist by name, with their cookies, as far as rocelab created them."""
    known = fabric.state.proofs(JournalKind.POD)
    wanted = {pod.nic.namespace.name for pod in made}
    there = netns.own({name: cookie for name, cookie in known.items() if name in wanted})
    return {name: known[name] for name in there}


@contextlib.contextmanager
def _reserved(fabric: Fabric, made: Sequence[JobPod]) -> Iterator[None]:
    """Hold the locks of the hosts' pods; UsageError if another job holds one. A killed job holds none."""
    with contextlib.ExitStack() as held:
        for pod in made:
            lock = fabric.state.node_directory(f"{pod.nic.host}.{_NAME}")
            lock.parent.mkdir(exist_ok=True)
            if not held.enter_context(locks.held_if_free(lock, make=True)):
                raise UsageError(f"a job runs in the pod of {pod.nic.host}", "wait until it ends")
        yield


def _create(fabric: Fabric, made: Sequence[JobPod], kind: PodKind, progress: Progress) -> None:
    """Create the pods; each object is in the journal before it exists."""
    netns.create(
        [pod.nic.namespace.name for pod in made],
        lambda cookies: fabric.state.record(JournalKind.POD, cookies),
    )
    cookies = fabric.state.proofs(JournalKind.POD)
    homes = {pod.nic.device: cookies[pod.nic.namespace.name] for pod in made}
    fabric.state.record(JournalKind.RDMA_DEVICE, homes)
    for number, pod in enumerate(made):
        progress("pods", number, len(made))
        name, inside = pod.nic.interface, pod.nic.namespace
        try:
            ip_state.change(
                pod.host, "", [f"link add link {name} name {name} netns {inside.name} type {_MODES[kind]}"]
            )
        except CommandFailed as error:
            if "busy" in error.stderr:
                raise UsageError(
                    f"{pod.nic.host}:{name} has a sub-interface of another kind", "remove it: macvlan excludes ipvlan"
                ) from error
            if "Unknown device type" in error.stderr or "not supported" in error.stderr:
                raise EnvironmentLacks(f"this kernel has no {kind}", "use the VM: rocelab --vm") from error
            raise
        inside.inside(lambda name=name: tuning.disable_offloads([name]))  # type: ignore[misc]
        flag = " nodad" if pod.network is None else ""
        lines = ["link set lo up", f"addr add {pod.address} dev {name}{flag}", f"link set {name} up"]
        ip_state.change(inside, "", [*lines, f"route add default via {pod.gateway} dev {name}"])
        rxe.create(inside, pod.nic.device, name)
    progress("pods", len(made), len(made))
    for leaf, there in _by_leaf(made).items():
        namespace = fabric.namespace(leaf)
        ip_state.change(namespace, "-4", [f"addr replace {pod.network} dev {pod.port}" for pod in there])
        _advertise(fabric, leaf, there)


def _by_leaf(made: Sequence[JobPod]) -> dict[str, list[JobPod]]:
    """Return the pods with a network of their own by leaf."""
    found: dict[str, list[JobPod]] = {}
    for pod in made:
        if pod.network is not None:
            found.setdefault(pod.leaf, []).append(pod)
    return found


def _advertise(fabric: Fabric, leaf: str, there: Sequence[JobPod]) -> None:
    """Have BGP advertise the networks of pods. OSPF and IS-IS advertise all networks of their ports."""
    said = _configure(fabric, leaf, [f"network {pod.network.network}" for pod in there if pod.network is not None])
    if said is not None:
        raise OperationFailed(f"{leaf} does not advertise the networks of pods: {said}", "see its log")


def _withdraw(fabric: Fabric, leaf: str, gone: Sequence[JobPod]) -> None:
    """Have BGP no longer advertise the networks of pods. vtysh stops at the first one that is not advertised."""
    words = [f"no network {pod.network.network}" for pod in gone if pod.network is not None]
    if _configure(fabric, leaf, words) is not None:
        for word in words:
            _configure(fabric, leaf, [word])


def _configure(fabric: Fabric, leaf: str, words: Sequence[str]) -> str | None:
    """Configure BGP's IPv4 routes of a leaf, if it has BGP. Return the error of vtysh; None without one."""
    if fabric.topology.routing.underlay is not Underlay.EBGP:
        return None
    family = ["configure terminal", f"router bgp {fabric.plan[leaf].asn}", "address-family ipv4 unicast"]
    done = fabric.router(leaf).ask(*family, *words)
    return done.stdout.strip() if done.returncode else None


def _await_routes(fabric: Fabric, made: Sequence[JobPod]) -> None:
    """Wait until each leaf has a route to each network. OperationFailed if it has not in time."""
    wanted = {str(pod.network.network) for pod in made if pod.network is not None}
    leaves = {leaf: fabric.namespace(leaf) for leaf in _by_leaf(made)}
    deadline = time.monotonic() + _PATIENCE
    with RouteNews(leaves.values()) as news:
        while missing := {leaf: absent for leaf in leaves if (absent := wanted - _known(leaves[leaf]))}:
            left = deadline - time.monotonic()
            if left <= 0:
                leaf = min(missing)
                raise OperationFailed(f"{leaf} has no route to a pod: {min(missing[leaf])}", "rocelab status")
            news.wait(left)


def _known(leaf: Namespace) -> set[str]:
    routes: list[dict[str, Any]] = ip_state.ask(leaf, "-4", "route", "show", "root", str(POD_LINKS))
    return {str(route["dst"]) for route in routes}


def _remove(fabric: Fabric, pods_of_hosts: Sequence[JobPod]) -> None:
    """Remove the pods that exist, and what their leaves have for them.

    The namespaces come last: as long as they exist, a removal that was cut short can be repeated.
    """
    cookies = _cookies(fabric, pods_of_hosts)
    there = [pod for pod in pods_of_hosts if pod.nic.namespace.name in cookies]
    with netns_processes.inhabited(cookies) as places:
        process.kill(netns_processes.processes_in(places), meant=lambda pid: netns.place_of(pid) in places)
    for leaf, gone in _by_leaf(there).items():
        _withdraw(fabric, leaf, gone)
        for pod in gone:
            ip_state.attempt(fabric.namespace(leaf), "-4", f"addr del {pod.network} dev {pod.port}")
    devices = {pod.nic.device: pod.nic.namespace for pod in there}
    rxe.delete(*(device for device, namespace in devices.items() if rxe.is_in(namespace, device)))
    netns.delete(cookies)
