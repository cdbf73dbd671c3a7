"""The backend of adopted labs: containerlab labs that rocelab did not deploy, and restores on ``down``.

The lab's namespaces are changed only to add lossless ports or RDMA devices on request. Besides, rocelab adds a second
name for each namespace, the files of these names, and a cgroup for the programs that its commands start there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lab.backends.adopted import adopted_facts
from lab.backends.containerlab_backend import ContainerRouter
from lab.backends.fabric_state import JournalKind
from lab.backends.netns_backend import NetnsBackend, refuse_inside
from lab.errors import UsageError
from lab.kernel.process import cgroup, netns, netns_files

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import NoReturn

    from lab.backends.backend import Fabric, Progress
    from lab.backends.fabric_state import FabricState
    from lab.model.addressing import NodePlan
    from lab.model.topology import Topology
    from lab.routing.daemons import Router


class AdoptedBackend(NetnsBackend):
    """Uses the containers and links of an existing lab, and never removes them."""

    name: str = "adopted"

    def check(self, topology: Topology) -> NoReturn:
        """Raise UsageError: rocelab adopts such labs and cannot build them."""
        raise UsageError(f"{topology.name} cannot be built as an adopted lab", "rocelab adopt takes one that runs")

    def plan(self, state: FabricState, topology: Topology) -> Mapping[str, NodePlan]:
        """Return the plan with the addresses that the lab had when it was adopted."""
        return adopted_facts.plan_of(topology, adopted_facts.load(kept(state)))

    def indexes(self, state: FabricState) -> Mapping[str, Mapping[str, int]]:
        """Return the indexes that the interfaces had when the lab was adopted."""
        return adopted_facts.indexes(adopted_facts.load(kept(state)))

    def furnish(self, fabric: Fabric, progress: Progress) -> None:
        """Add the lossless ports and RDMA devices of the topology, if it has any, to the lab."""
        from lab.backends.adopted import adopted_ports  # noqa: PLC0415 - pyroute2 and NumPy, which only this needs

        nodes = fabric.numbering.nodes
        if fabric.topology.qos is not None:
            had = {name: adopted_ports.look(fabric.namespace(name), node) for name, node in nodes.items()}
            adopted_ports.save(replaced(fabric.state), had)
            with self._ports(fabric, progress) as programs:
                adopted_ports.put_on(fabric, programs, had)
        self._start_rdma(fabric, progress)

    def router(self, state: FabricState, node: str) -> Router:
        """Return the daemons in the container of ``node``; their sockets are in FRR's default directory."""
        found = adopted_facts.load(kept(state))[node]
        sockets = Path(f"/proc/{found.pid}/root/run/frr")
        return ContainerRouter(
            name=node, namespace=self.namespace(state, node), directory=sockets, container=found.container
        )

    def complaints(self, state: FabricState) -> Mapping[str, str]:
        """Return a message for each container that was removed, stopped, or restarted."""
        found = {}
        for node, known in adopted_facts.load(kept(state)).items():
            if netns.place_of(known.pid) != self.namespace(state, node).place:
                found[node] = "its container was removed or started again: rocelab down, then rocelab adopt"
        return found

    def remove(self, state: FabricState) -> None:
        """Remove programs that commands started, RDMA devices, ports, and names; the lab keeps its namespaces."""
        refuse_inside(state)
        groups = [Path(name) for name in state.recorded(JournalKind.GROUP)]
        for group in groups:
            cgroup.end(group)
        cookies = state.proofs(JournalKind.NAMESPACE)
        names = netns.own(cookies)
        self._remove_rdma(state, names)
        self._take_ports_off(state, names)
        netns.let_go(names)
        netns_files.remove(cookies)
        for group in groups:
            cgroup.remove(group)
        self._remove_programs(state)

    def _take_ports_off(self, state: FabricState, names: Collection[str]) -> None:
        if not replaced(state).exists():
            return
        from lab.backends.adopted import adopted_ports  # noqa: PLC0415 - see furnish
        from lab.dataplane.port_maps import qdisc_kind  # noqa: PLC0415 - see furnish

        for node, had in adopted_ports.load(replaced(state)).items():
            namespace = self.namespace(state, node)
            if namespace.name in names:
                adopted_ports.take_off(namespace, qdisc_kind(state.name), had)


def kept(state: FabricState) -> Path:
    """Return the file with the facts of the lab."""
    return state.lab / "seen.json"


def replaced(state: FabricState) -> Path:
    """Return the file with the settings that the ports replaced."""
    return state.lab / "replaced.json"


def refuse_change(fabric: Fabric, what: str) -> None:
    """Raise UsageError if the fabric is an adopted lab; ``what`` is the verb of the rejected change."""
    if fabric.backend.name == AdoptedBackend.name:
        raise UsageError(f"{fabric.name} is an adopted lab, and rocelab {what} only fabrics of its own",
                         "rocelab import containerlab makes a fabric of it")  # fmt: skip
