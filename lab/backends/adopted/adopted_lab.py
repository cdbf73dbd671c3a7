"""Labs of containerlab that somebody else has deployed: looked at, and given back as they were.

Nothing in their namespaces is changed, but where they were asked to have lossless ports or RDMA devices. What else is
ours is a second name for each namespace, the files of these names, and the cgroup of programs that commands start
there.
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
    """Containers and links are another's, and stay."""

    name: str = "adopted"

    def check(self, topology: Topology) -> NoReturn:
        """Refuse: such a lab is found, and not made."""
        raise UsageError(f"{topology.name} cannot be built as an adopted lab", "rocelab adopt takes one that runs")

    def plan(self, state: FabricState, topology: Topology) -> Mapping[str, NodePlan]:
        """Its addresses as they were found."""
        return adopted_facts.plan_of(topology, adopted_facts.load(kept(state)))

    def indexes(self, state: FabricState) -> Mapping[str, Mapping[str, int]]:
        """Those that the interfaces were found with."""
        return adopted_facts.indexes(adopted_facts.load(kept(state)))

    def furnish(self, fabric: Fabric, progress: Progress) -> None:
        """Lossless ports and RDMA devices, where its topology has any, on the lab as it was found."""
        from lab.backends.adopted import adopted_ports  # noqa: PLC0415 - pyroute2 and NumPy, which only this needs

        nodes = fabric.numbering.nodes
        if fabric.topology.qos is not None:
            had = {name: adopted_ports.look(fabric.namespace(name), node) for name, node in nodes.items()}
            adopted_ports.save(replaced(fabric.state), had)
            with self._ports(fabric, progress) as programs:
                adopted_ports.put_on(fabric, programs, had)
        self._start_rdma(fabric, progress)

    def router(self, state: FabricState, node: str) -> Router:
        """The daemons in the container of ``node``, whose sockets are where FRR has them."""
        found = adopted_facts.load(kept(state))[node]
        sockets = Path(f"/proc/{found.pid}/root/run/frr")
        return ContainerRouter(node, self.namespace(state, node), sockets, found.container)

    def complaints(self, state: FabricState) -> Mapping[str, str]:
        """Which containers were removed, stopped, or started again."""
        found = {}
        for node, known in adopted_facts.load(kept(state)).items():
            if netns.place_of(known.pid) != self.namespace(state, node).place:
                found[node] = "its container was removed or started again: rocelab down, then rocelab adopt"
        return found

    def remove(self, state: FabricState) -> None:
        """What commands have started there, devices, ports, and the names; who has the namespaces keeps them."""
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
    """The file of what was found."""
    return state.lab / "seen.json"


def replaced(state: FabricState) -> Path:
    """The file of what ports have taken the place of."""
    return state.lab / "replaced.json"


def refuse_change(fabric: Fabric, what: str) -> None:
    """UsageError for a fabric that is another's lab."""
    if fabric.backend.name == AdoptedBackend.name:
        raise UsageError(f"{fabric.name} is an adopted lab, and rocelab {what} only fabrics of its own",
                         "rocelab import containerlab makes a fabric of it")  # fmt: skip
