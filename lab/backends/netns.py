"""Fabrics of network namespaces on this kernel: the backend that everything else is measured against."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Final

from lab.backends.state import Kind
from lab.errors import EnvironmentLacks, OperationFailed, UsageError
from lab.kernel import netns, node_files, pins, process, signals
from lab.kernel.netns import Namespace
from lab.model.hosts import hosts_file
from lab.rdma import rxe
from lab.routing import daemons
from lab.routing.daemons import Router
from lab.routing.render import render_router

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.backends.base import Fabric, Progress
    from lab.backends.state import FabricState
    from lab.dataplane.plant import Programs
    from lab.model.topology import Topology

PREFIX: Final = "rl-"
"""Every namespace of ours begins so."""
_DAEMON_STARTERS: Final = 4 * (os.cpu_count() or 1)
_SWEEPS: Final = 20


class NetnsBackend:
    """Namespaces, veths, FRR and rxe."""

    name: str = "netns"

    def check(self, topology: Topology) -> None:
        """Refuse without root, FRR, or what the links ask of the kernel."""
        from lab.backends.plumbing import check_kernel  # noqa: PLC0415 - see deploy

        check_kernel(topology)
        if topology.switches:
            daemons.check()
        if any(host.rdma for host in topology.hosts):
            try:
                rxe.check()
            except EnvironmentLacks as error:
                raise EnvironmentLacks(error.message, f"{error.remedy}; or do without: --no-rdma") from error

    def namespace(self, fabric: str, node: str) -> Namespace:
        """``rl-<fabric>-<node>``."""
        return Namespace(f"{PREFIX}{fabric}-{node}")

    def router(self, state: FabricState, node: str) -> Router:
        """The daemons of ``node``, with their files below the fabric's state."""
        return Router(node, self.namespace(state.name, node), state.node_directory(node))

    def deploy(self, fabric: Fabric, progress: Progress) -> None:
        """Plumbing in one go, daemons in parallel, RDMA devices one by one (rxe races with itself)."""
        # pyroute2 takes over a second to import in the software-emulated VM, and only building needs it.
        from lab.backends.plumbing import Site, plumb  # noqa: PLC0415

        namespaces = {node.name: fabric.namespace(node.name) for node in fabric.topology.nodes}
        names = [namespace.name for namespace in namespaces.values()]
        _refuse_taken(namespaces.values())
        with self._ports(fabric, progress) as programs:
            fabric.state.record(Kind.NAMESPACE, names)
            progress("plumbing", 0, 1)
            plumb(Site(fabric.topology, fabric.plan, namespaces, fabric.numbering, fabric.qos, programs))
            node_files.write_hosts(names, hosts_file(fabric.plan))
            progress("plumbing", 1, 1)
        self._start_routers(fabric, progress)
        self._start_rdma(fabric, progress)

    @contextlib.contextmanager
    def _ports(self, fabric: Fabric, progress: Progress) -> Iterator[Programs | None]:
        """The programs of the emulated ports, configured; None for a fabric without QoS."""
        if fabric.topology.qos is None:
            yield None
            return
        from lab.dataplane import plant  # noqa: PLC0415 - see deploy

        progress("ports", 0, 1)
        fabric.state.record(Kind.DATAPLANE, [fabric.name])
        plant.load(fabric.name, fabric.numbering)
        plant.write(plant.open_plant(fabric.name), fabric.numbering, fabric.qos, fabric.plan)
        with plant.programs(fabric.name) as programs:
            progress("ports", 1, 1)
            yield programs

    def _start_routers(self, fabric: Fabric, progress: Progress) -> None:
        def start(name: str) -> None:
            router = fabric.router(name)
            config = render_router(fabric.topology, fabric.plan, name)
            router.write(config)
            router.start(config)

        switches = [node.name for node in fabric.topology.switches]
        progress("daemons", 0, len(switches))
        with ThreadPoolExecutor(_DAEMON_STARTERS) as starters:
            futures = [starters.submit(start, name) for name in switches]
            try:
                for done, future in enumerate(as_completed(futures), start=1):
                    future.result()
                    progress("daemons", done, len(futures))
            except BaseException:
                with signals.held():  # nothing may be started any more when the undoing begins
                    starters.shutdown(wait=True, cancel_futures=True)
                raise

    def _start_rdma(self, fabric: Fabric, progress: Progress) -> None:
        wanted = [
            (host.name, interface)
            for host in fabric.topology.hosts
            if host.rdma
            for interface in fabric.plan[host.name].interfaces
        ]
        devices = [rxe.device_name(fabric.name, host, interface) for host, interface in wanted]
        fabric.state.record(Kind.RDMA_DEVICE, devices)
        progress("rdma", 0, len(wanted))
        for done, ((host, interface), device) in enumerate(zip(wanted, devices, strict=True), start=1):
            rxe.create(fabric.namespace(host), device, interface)
            progress("rdma", done, len(wanted))

    def remove(self, state: FabricState) -> None:
        """Processes, RDMA devices one by one, namespaces and with them the links, then the pins of their programs."""
        names = state.recorded(Kind.NAMESPACE)
        _end_processes(names)
        for device in state.recorded(Kind.RDMA_DEVICE):
            rxe.delete(device)
        netns.delete(names)
        node_files.remove(names)
        for name in state.recorded(Kind.DATAPLANE):
            pins.unpin(pins.folder_of(name))


def _refuse_taken(namespaces: Iterable[Namespace]) -> None:
    for namespace in namespaces:
        if namespace.exists():
            raise UsageError(f"namespace {namespace.name} exists and is not ours", "use another --name, or remove it")


def _end_processes(names: Sequence[str]) -> None:
    """End all that runs in the namespaces, and again until nothing does: a process may have forked meanwhile."""
    for _ in range(_SWEEPS):
        found = netns.processes_in(names)
        if os.getpid() in found:
            node = found[os.getpid()].removeprefix(PREFIX)
            raise UsageError(f"this shell runs inside {node}", "leave it first, then run rocelab down")
        if not found:
            return
        process.kill(found)
    raise OperationFailed(
        f"processes keep starting in {', '.join(sorted(set(found.values())))}", "stop what starts them"
    )
