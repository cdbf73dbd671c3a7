"""The spanning tree of a fabric of plain VLANs: the state of all bridges, and whether it forms a tree."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.errors import NotConverged
from lab.kernel.netlink.bridges import SETTLED, tree_state
from lab.model.overlay.plan import BRIDGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lab.kernel.netlink.bridges import TreeState
    from lab.kernel.process.netns import Namespace
    from lab.model.topology import Link, Topology

_POLL: Final = 0.1


@dataclass(frozen=True)
class SpanningTree:
    """The spanning-tree state of every switch; None for a switch without a bridge."""

    topology: Topology
    switches: Mapping[str, TreeState | None]

    @property
    def root(self) -> str:
        """The switch that all switches consider the root; "" if they disagree, or it is not in the fabric."""
        roots = {switch.root for switch in self.switches.values() if switch is not None}
        return next((name for name, each in self.switches.items() if each is not None and {each.bridge} == roots), "")

    @property
    def links(self) -> tuple[Link, ...]:
        """The links between switches."""
        return tuple(link for link in self.topology.links if all(end.node in self.switches for end in link.ends))

    @property
    def carrying(self) -> tuple[Link, ...]:
        """Links between switches that forward at both ends."""
        return tuple(link for link in self.links if self._states(link) == ["forwarding", "forwarding"])

    @property
    def blocked(self) -> tuple[Link, ...]:
        """Links between switches with a blocking end: they are up, and carry nothing."""
        return tuple(link for link in self.links if "blocking" in self._states(link))

    @property
    def gaps(self) -> tuple[str, ...]:
        """Reasons why there is no single agreed tree; empty if there is one."""
        return tuple(self._gaps())

    def _states(self, link: Link) -> list[str]:
        states = []
        for end in link.ends:
            switch = self.switches[end.node]
            ports = switch.ports if switch is not None else ()
            states.append(next((port.state for port in ports if port.name == end.interface), "disabled"))
        return states

    def _gaps(self) -> Iterator[str]:
        roots: dict[str, str] = {}
        for name, switch in self.switches.items():
            if switch is None:
                yield f"{name} has no bridge in a spanning tree"
                continue
            roots.setdefault(switch.root, name)
            for port in switch.ports:
                if port.state not in SETTLED:
                    yield f"{name}:{port.name} is {port.state}"
        if len(roots) > 1:
            yield f"{' and '.join(f'{name} has {root}' for root, name in roots.items())} for the root"
        reached = self._reached()
        yield from (f"{name} is not in the tree" for name in self.switches if name not in reached)
        if len(self.carrying) > len(self.switches) - 1:
            yield f"{len(self.carrying)} links carry: more than a tree of {len(self.switches)} switches has"

    def _reached(self) -> set[str]:
        """Return the switches reachable from the first one over forwarding links."""
        reached = set(list(self.switches)[:1])
        for _ in self.switches:
            for link in self.carrying:
                ends = {end.node for end in link.ends}
                reached |= ends if ends & reached else set()
        return reached


def read_tree(topology: Topology, namespace: Callable[[str], Namespace]) -> SpanningTree:
    """Read the state of every switch in parallel; raise OperationFailed if one is gone."""
    names = [switch.name for switch in topology.switches]
    with ThreadPoolExecutor() as readers:
        states = readers.map(lambda name: tree_state(namespace(name), BRIDGE), names)
        return SpanningTree(topology, dict(zip(names, states, strict=True)))


def await_tree(
    topology: Topology,
    namespace: Callable[[str], Namespace],
    timeout: float,
    progress: Callable[[int, int], None],
) -> None:
    """Return when there is a tree and no port listens or learns; raise NotConverged after ``timeout`` seconds.

    ``progress`` is called with the number of settled switches and of all switches.
    """
    deadline = time.monotonic() + timeout
    while gaps := (tree := read_tree(topology, namespace)).gaps:
        progress(_settled(tree), len(tree.switches))
        if time.monotonic() > deadline:
            raise NotConverged(f"no spanning tree after {timeout:g} s: {gaps[0]}", "rocelab status shows it")
        time.sleep(_POLL)
    progress(len(tree.switches), len(tree.switches))


def _settled(tree: SpanningTree) -> int:
    states = [{port.state for port in switch.ports} for switch in tree.switches.values() if switch is not None]
    return sum(each <= SETTLED for each in states)
