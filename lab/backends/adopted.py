"""Labs of containerlab that somebody else has deployed: looked at, and given back as they were.

Nothing in their namespaces is changed. What is ours is a second name for each namespace, the files of these names,
and the cgroup of programs that commands start there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lab.backends import seen
from lab.backends.containerlab import ContainerRouter
from lab.backends.netns import NetnsBackend, refuse_inside
from lab.backends.state import Kind
from lab.errors import UsageError
from lab.kernel import cgroup, netns, node_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from lab.backends.base import Fabric
    from lab.backends.state import FabricState
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
        return seen.plan_of(topology, seen.load(kept(state)))

    def router(self, state: FabricState, node: str) -> Router:
        """The daemons in the container of ``node``, whose sockets are where FRR has them."""
        found = seen.load(kept(state))[node]
        sockets = Path(f"/proc/{found.pid}/root/run/frr")
        return ContainerRouter(node, self.namespace(state, node), sockets, found.container)

    def complaints(self, state: FabricState) -> Mapping[str, str]:
        """Which containers were removed, stopped, or started again."""
        found = {}
        for node, known in seen.load(kept(state)).items():
            if netns.place_of(known.pid) != self.namespace(state, node).place:
                found[node] = "its container was removed or started again: rocelab down, then rocelab adopt"
        return found

    def remove(self, state: FabricState) -> None:
        """What commands have started there, then the names; whatever has the namespaces keeps them."""
        refuse_inside(state)
        groups = [Path(name) for name in state.recorded(Kind.GROUP)]
        for group in groups:
            cgroup.end(group)
        cookies = state.proofs(Kind.NAMESPACE)
        netns.let_go(netns.own(cookies))
        node_files.remove(cookies)
        for group in groups:
            cgroup.remove(group)


def kept(state: FabricState) -> Path:
    """The file of what was found."""
    return state.lab / "seen.json"


def refuse_change(fabric: Fabric, what: str) -> None:
    """UsageError for a fabric that is another's lab."""
    if fabric.backend.name == AdoptedBackend.name:
        raise UsageError(f"{fabric.name} is an adopted lab, and rocelab {what} only fabrics of its own",
                         "rocelab import containerlab makes a fabric of it")  # fmt: skip
