"""Bring fabrics up and down, and open running ones."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from lab.backends import recorders, registry
from lab.backends.backend import Fabric, silent
from lab.backends.fabric_state import FabricState, JournalKind, find_fabric
from lab.errors import OperationFailed, UsageError
from lab.kernel.process import signals
from lab.routing.frr_config.render import has_routers
from lab.routing.spanning_tree import await_tree
from lab.routing.wait.convergence import await_convergence
from lab.routing.wait.route_expectations import expectations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.backend import Backend, Progress
    from lab.kernel.process.locks import Waiting
    from lab.model.topology import Topology

CONVERGENCE_TIMEOUT: Final = 120.0
"""Seconds; far more than the slowest machine, an emulated CPU, needs for the largest fabric that it can hold."""


@dataclass
class Stopwatch:
    """Measures the seconds of each stage, from its first progress report to that of the next stage."""

    seconds: dict[str, float] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _stage: str = ""

    def note(self, stage: str) -> None:
        """Record that ``stage`` is running now; "" stops the clock."""
        now = time.monotonic()
        if self._stage:
            self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._began
        self._stage, self._began = stage, now


def up(
    topology: Topology,
    backend: Backend,
    *,
    progress: Progress = silent,
    timeout: float = CONVERGENCE_TIMEOUT,
    waiting: Waiting | None = None,
) -> tuple[Fabric, Stopwatch]:
    """Build a fabric and return when it has converged; on any failure, everything is removed again.

    If another command uses the fabric, call ``waiting`` with its name, then wait; FabricBusy without ``waiting``.
    Raises UsageError if the name is in use, EnvironmentLacks if this machine cannot run the topology, and
    NotConverged after ``timeout`` seconds.
    """
    backend.check(topology)
    state = FabricState(topology.name)
    fabric = Fabric(state, topology, backend)
    watch = Stopwatch()

    def report(stage: str, done: int, total: int) -> None:
        watch.note(stage)
        progress(stage, done, total)

    with state.locked(waiting):
        if state.exists():
            raise UsageError(
                f"fabric {state.name} exists", f"rocelab down --fabric {state.name}, or use another --name"
            )
        try:
            state.begin(backend.name)
            state.save_topology(topology)
            backend.deploy(fabric, report)
            _await(fabric, timeout, watch, progress)
            state.mark_ready()
        except BaseException:
            take_away(state, backend)
            raise
    return fabric, watch


def reopen(
    topology: Topology,
    *,
    progress: Progress = silent,
    timeout: float = CONVERGENCE_TIMEOUT,
    waiting: Waiting | None = None,
) -> tuple[Fabric, Stopwatch]:
    """Return the fabric of this topology that ``up`` built before the VM's checkpoint was saved.

    Waits for convergence as ``up`` does. OperationFailed if the checkpoint's fabric has another topology;
    NotConverged as in ``up``.
    """
    watch = Stopwatch()
    with reading(topology.name, waiting) as fabric:
        if fabric.topology != topology:
            raise OperationFailed(f"fabric {topology.name} of the checkpoint is another one", "rocelab vm down")
        _await(fabric, timeout, watch, progress)
    return fabric, watch


def _await(fabric: Fabric, timeout: float, watch: Stopwatch, progress: Progress) -> None:
    watch.note("convergence")

    def told(done: int, total: int) -> None:
        progress("convergence", done, total)

    if not has_routers(fabric.topology):
        await_tree(fabric.topology, fabric.namespace, timeout, told)
        watch.note("")
        return
    routers = {node.name: fabric.router(node.name) for node in fabric.topology.switches}
    expected = expectations(fabric.topology, fabric.plan)
    await_convergence(fabric.topology, routers, expected, timeout, told)
    watch.note("")


def down(state: FabricState, waiting: Waiting | None = None) -> None:
    """Remove a fabric, complete or not; does nothing if it is gone already. Waits as ``up`` does."""
    with state.locked(waiting):
        recorders.stop_all(state)
        names = state.recorded(JournalKind.BACKEND)
        take_away(state, registry.backend(names[0] if names else registry.DEFAULT))


def take_away(state: FabricState, backend: Backend) -> None:
    """Remove everything in the journal, then the journal; the caller holds the fabric's lock."""
    with signals.held():  # a second Ctrl-C must not interrupt the cleanup
        backend.remove(state)
        state.forget()


@contextlib.contextmanager
def reading(name: str | None = None, waiting: Waiting | None = None) -> Iterator[Fabric]:
    """Yield the running fabric called ``name``, or the only one, under a shared lock; waits as ``up`` does.

    UsageError if there is none, or if its ``up`` did not complete.
    """
    state = find_fabric(name)
    with state.reading(waiting):
        if not state.ready:
            raise UsageError(f"fabric {state.name} is in pieces", f"rocelab down --fabric {state.name}")
        yield Fabric(state, state.load_topology(), registry.backend(state.recorded(JournalKind.BACKEND)[0]))


def open_fabric(name: str | None = None, waiting: Waiting | None = None) -> Fabric:
    """Return the fabric as ``reading`` does, but without the lock, for long-running callers.

    The fabric may be changed or removed at any time.
    """
    with reading(name, waiting) as fabric:
        return fabric


def without_rdma(topology: Topology) -> Topology:
    """Return the topology with plain Ethernet on every host."""
    return replace(topology, nodes=tuple(replace(node, rdma=False) for node in topology.nodes))
