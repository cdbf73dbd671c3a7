"""The default backend: nodes are network namespaces on this kernel."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.backends.fabric_state import JournalKind
from lab.errors import EnvironmentLacks, OperationFailed, UsageError
from lab.kernel.bpf import pins
from lab.kernel.process import cgroup, netns, netns_files, netns_processes, process, signals
from lab.kernel.process.netns import Namespace
from lab.model.addressing import plan_addresses
from lab.model.hosts import hosts_file
from lab.model.overlay.plan import plan_overlay
from lab.model.qos.presets import UNCONTROLLED
from lab.rdma import rxe
from lab.routing import daemons
from lab.routing.daemons import Router
from lab.routing.frr_config import user_lines
from lab.routing.frr_config.render import has_routers, render_external, render_router

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.backends.backend import Fabric, Progress
    from lab.backends.fabric_state import FabricState
    from lab.dataplane.port_maps import Programs
    from lab.model.addressing import NodePlan
    from lab.model.topology import Topology

PREFIX: Final = "rl-"
"""Prefix of the names of rocelab's namespaces."""
_DAEMON_STARTERS: Final = 4 * (os.cpu_count() or 1)
_DESCRIPTORS: Final = 12
"""File descriptors that each parallel start of a daemon needs."""
_SWEEPS: Final = 20


class NetnsBackend:
    """Builds fabrics from namespaces, veths, FRR and rxe."""

    name: str = "netns"

    def check(self, topology: Topology) -> None:
        """Raise EnvironmentLacks without root, FRR, or the kernel features that the topology needs."""
        from lab.backends.plumbing import check_kernel  # noqa: PLC0415 - see deploy

        check_kernel(topology)
        self._check_programs(topology)
        if any(host.rdma for host in topology.hosts):
            try:
                rxe.check()
            except EnvironmentLacks as error:
                raise EnvironmentLacks(error.message, f"{error.remedy}; or do without: --no-rdma") from error

    def _check_programs(self, topology: Topology) -> None:
        """Check that the programs of the nodes are installed, and that the user's FRR lines are valid."""
        if topology.switches and has_routers(topology):
            daemons.check()
        user_lines.check(topology)

    def namespace(self, state: FabricState, node: str) -> Namespace:
        """Return the namespace ``rl-<fabric>.<node>``; neither part contains a dot, so the name is unique."""
        return Namespace(f"{PREFIX}{state.name}.{node}", state.groups / node)

    def plan(self, state: FabricState, topology: Topology) -> Mapping[str, NodePlan]:  # noqa: ARG002 - it is built so
        """Return the plan from which the fabric is built."""
        return plan_addresses(topology)

    def indexes(self, state: FabricState) -> Mapping[str, Mapping[str, int]]:  # noqa: ARG002 - it makes them all
        """Return nothing: the interfaces have the planned indexes."""
        return {}

    def router(self, state: FabricState, node: str) -> Router:
        """Return the daemons of ``node``; their files are in the fabric's state directory."""
        return Router(node, self.namespace(state, node), state.node_directory(node))

    def complaints(self, state: FabricState) -> Mapping[str, str]:  # noqa: ARG002 - there is nothing to ask
        """Return nothing: a namespace exists as long as its name does."""
        return {}

    def deploy(self, fabric: Fabric, progress: Progress) -> None:
        """Build the plumbing in batches, start daemons in parallel, and create RDMA devices one by one.

        Parallel creation of rxe devices runs into races in rxe.
        """
        # pyroute2 takes over a second to import in the software-emulated VM, and only building needs it.
        from lab.backends.plumbing import Blueprint, plumb  # noqa: PLC0415

        namespaces = {node.name: fabric.namespace(node.name) for node in fabric.topology.nodes}
        _refuse_taken(namespaces.values())
        ports = contextlib.nullcontext() if fabric.topology.qos is None else self._ports(fabric, progress)
        with ports as programs:
            self._make_nodes(fabric, namespaces, progress)
            progress("plumbing", 0, 1)
            plumb(
                Blueprint(
                    topology=fabric.topology,
                    plan=fabric.plan,
                    namespaces=namespaces,
                    numbering=fabric.numbering,
                    qos=fabric.qos,
                    programs=programs,
                )
            )
            netns_files.write_hosts([namespace.name for namespace in namespaces.values()], hosts_file(fabric.plan))
            progress("plumbing", 1, 1)
        make_group(fabric.state)
        self._start_routers(fabric, progress)
        self._start_rdma(fabric, progress)

    def _make_nodes(self, fabric: Fabric, namespaces: Mapping[str, Namespace], progress: Progress) -> None:
        """Create the namespace of each node; its cookie is in the journal before it gets its name."""
        progress("plumbing", 0, 1)
        names = [namespace.name for namespace in namespaces.values()]
        netns.create(names, lambda cookies: fabric.state.record(JournalKind.NAMESPACE, cookies))

    @contextlib.contextmanager
    def _ports(self, fabric: Fabric, progress: Progress) -> Iterator[Programs]:
        """Load and configure the emulated ports of a fabric with QoS, and yield their programs."""
        from lab.dataplane import port_maps, slot_budget  # noqa: PLC0415 - see deploy

        progress("ports", 0, 1)
        fabric.state.record(JournalKind.DATAPLANE, [fabric.name])
        places = slot_budget.per_port(fabric.numbering, fabric.qos, slot_budget.available_memory())
        port_maps.load(fabric.name, fabric.numbering, fabric.state.owner, places)
        port_maps.write(port_maps.open_maps(fabric.name, writable=True), fabric.numbering, fabric.qos, fabric.plan)
        with port_maps.programs(fabric.name) as programs:
            progress("ports", 1, 1)
            yield programs

    def _start_routers(self, fabric: Fabric, progress: Progress) -> None:
        launches = daemons.Launches()

        overlay = plan_overlay(fabric.topology)
        externals = overlay.externals if overlay else {}

        def start(name: str) -> None:
            router = fabric.router(name)
            config = (
                render_external(fabric.topology, fabric.plan, externals[name])
                if name in externals
                else render_router(fabric.topology, fabric.plan, name)
            )
            router.write(config)
            router.start(config, launches)

        switches = fabric.topology.switches if has_routers(fabric.topology) else ()
        names = [*(node.name for node in switches), *externals]
        process.allow_descriptors(_DAEMON_STARTERS * _DESCRIPTORS)
        progress("daemons", 0, len(names))
        with ThreadPoolExecutor(_DAEMON_STARTERS) as starters:
            try:
                with signals.held():  # an interrupted start would leave a thread that is never joined
                    futures = [starters.submit(start, name) for name in names]
                for done, future in enumerate(as_completed(futures), start=1):
                    future.result()
                    progress("daemons", done, len(futures))
            except BaseException:
                with signals.held():  # no daemon may start once cleanup begins
                    launches.give_up()
                    starters.shutdown(wait=True, cancel_futures=True)
                raise

    def _start_rdma(self, fabric: Fabric, progress: Progress) -> None:
        wanted = [
            (host.name, interface)
            for host in fabric.topology.hosts
            if host.rdma
            for interface in fabric.plan[host.name].nics
        ]
        devices = rxe.device_names(fabric.name, wanted)
        cookies = fabric.state.proofs(JournalKind.NAMESPACE)
        homes = [cookies[fabric.namespace(host).name] for host, _ in wanted]
        fabric.state.record(JournalKind.RDMA_DEVICE, dict(zip(devices, homes, strict=True)))
        progress("rdma", 0, len(wanted))
        if wanted and fabric.topology.qos is not None:
            _learn_queue_pairs(fabric)
        for done, ((host, interface), device) in enumerate(zip(wanted, devices, strict=True), start=1):
            rxe.create(fabric.namespace(host), device, interface)
            progress("rdma", done, len(wanted))

    def remove(self, state: FabricState) -> None:
        """Remove processes, RDMA devices, namespaces with their links, and the pins of the port programs.

        RDMA devices are removed one by one. Another owner may use a name of the journal by now, so only objects
        whose proof matches are removed.
        """
        cookies = _namespaces(state)
        groups = [Path(name) for name in state.recorded(JournalKind.GROUP)]
        refuse_inside(state)
        _end_processes(cookies, groups)
        names = netns.own(cookies)
        self._remove_rdma(state, names)
        netns.delete(names)
        netns_files.remove(cookies)
        for group in groups:
            cgroup.remove(group)
        self._remove_programs(state)

    def _remove_rdma(self, state: FabricState, names: Iterable[str]) -> None:
        """Delete the journal's RDMA devices that are in these namespaces, which belong to the fabric."""
        cookies = _namespaces(state)
        homes = {cookies[name]: Namespace(name) for name in names}
        devices = state.proofs(JournalKind.RDMA_DEVICE).items()
        rxe.delete(*(device for device, home in devices if home in homes and rxe.is_in(homes[home], device)))

    def _remove_programs(self, state: FabricState) -> None:
        """Remove the pins of the port programs, which no interface uses any more."""
        for name in state.recorded(JournalKind.DATAPLANE):
            pins.unpin_own(pins.folder_of(name), state.owner)


def _namespaces(state: FabricState) -> dict[str, int]:
    """Return the namespaces of nodes and of pods by name, with their cookies."""
    return {**state.proofs(JournalKind.NAMESPACE), **state.proofs(JournalKind.POD)}


def _learn_queue_pairs(fabric: Fabric) -> None:
    """Learn which QPs are connected. A kernel that cannot is an error only if a NIC has congestion control."""
    from lab.dataplane import qp_pairs  # noqa: PLC0415 - see deploy

    try:
        qp_pairs.learn(fabric.name)
    except EnvironmentLacks as error:
        if any(port.cc is not None for node in fabric.qos.values() for port in node.ports.values()):
            remedy = f"{error.remedy}; without congestion control (qos: {UNCONTROLLED}) it is not needed"
            raise EnvironmentLacks(f"congestion control: {error.message}", remedy) from error


def _refuse_taken(namespaces: Iterable[Namespace]) -> None:
    for namespace in namespaces:
        if namespace.exists():
            raise UsageError(
                f"namespace {namespace.name} exists, but rocelab did not create it",
                "use another --name, or remove it",
            )


def make_group(state: FabricState) -> None:
    """Create a cgroup with a unique name for the fabric's programs.

    If the machine has no usable cgroups, the programs are found through their namespaces.
    """
    group = cgroup.place_for(f"{state.name}.{state.owner}")
    if group is None:
        return
    state.record(JournalKind.GROUP, [str(group)])
    if cgroup.create(group):
        state.groups.symlink_to(group)


def refuse_inside(state: FabricState) -> None:
    """Raise UsageError if the caller runs inside the fabric that it is about to remove."""
    home = netns.own_cookie()
    cookies = _namespaces(state)
    inside = next((name.removeprefix(PREFIX) for name, cookie in cookies.items() if cookie == home), None)
    if inside or any(cgroup.holds_us(Path(name)) for name in state.recorded(JournalKind.GROUP)):
        raise UsageError(f"this shell runs inside {inside or 'the fabric'}", "leave it first, then run rocelab down")


def _end_processes(cookies: Mapping[str, int], groups: Iterable[Path]) -> None:
    """End the processes in the cgroups, then those in the namespaces, until none is left.

    OperationFailed if new ones keep starting.
    """
    for group in groups:
        cgroup.end(group)
    for _ in range(_SWEEPS):
        with netns_processes.inhabited(cookies) as places:
            found = netns_processes.processes_in(places)
            if not found:
                return
            process.kill(found, meant=lambda pid, places=places: netns.place_of(pid) in places)  # type: ignore[misc]
    raise OperationFailed(
        f"processes keep starting in {', '.join(sorted(set(found.values())))}", "stop what starts them"
    )
