"""The interface of a backend, and ``Fabric``: a topology together with the backend that runs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from lab.kernel.process import time_source
from lab.model.qos.resolve import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lab.backends.fabric_state import FabricState
    from lab.dataplane.numbering import Numbering
    from lab.kernel.process.netns import Namespace
    from lab.model.addressing import NodePlan
    from lab.model.qos.port import NodeQos
    from lab.model.topology import Topology
    from lab.routing.daemons import Router


class Progress(Protocol):
    """A callback for the progress of long work, called at each step of each stage."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` steps of ``stage`` are complete."""


def silent(stage: str, done: int, total: int) -> None:
    """Report nothing; the default callback."""


def in_lines(tell: Callable[[str], None]) -> Progress:
    """Return a callback that reports progress as lines of text.

    It prints one line when a stage begins, and one for each further quarter of its steps.
    """
    quarters: dict[str, int] = {}

    def show(stage: str, done: int, total: int) -> None:
        quarter = 4 * done // total if total else 4
        if quarter > quarters.get(stage, -1):
            quarters[stage] = quarter
            tell(f"{stage}: {done} of {total}")

    return show


class Backend(Protocol):
    """The interface of a backend, which builds and removes fabrics of one kind."""

    name: str

    def check(self, topology: Topology) -> None:
        """Raise UsageError or EnvironmentLacks if this machine cannot run the topology; change nothing."""

    def deploy(self, fabric: Fabric, progress: Progress) -> None:
        """Create the fabric; each object is written to the journal before it is created."""

    def remove(self, state: FabricState) -> None:
        """Remove everything in the journal; objects that do not exist are skipped, so this can be repeated."""

    def namespace(self, state: FabricState, node: str) -> Namespace:
        """Return the network namespace of a node."""

    def plan(self, state: FabricState, topology: Topology) -> Mapping[str, NodePlan]:
        """Return the interfaces and addresses of each node."""

    def indexes(self, state: FabricState) -> Mapping[str, Mapping[str, int]]:
        """Return the ifindex of each interface by node; empty if rocelab created the interfaces."""

    def router(self, state: FabricState, node: str) -> Router:
        """Return the routing daemons of a switch."""

    def complaints(self, state: FabricState) -> Mapping[str, str]:
        """Return a message for each node that was removed or restarted from outside; empty if there is none."""


@dataclass(frozen=True)
class Fabric:
    """A fabric that runs or is being built."""

    state: FabricState
    topology: Topology
    backend: Backend
    plan: Mapping[str, NodePlan] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plan", self.backend.plan(self.state, self.topology))

    @cached_property
    def numbering(self) -> Numbering:
        """The port ids and interface indexes of the fabric."""
        # NumPy takes seconds to import in a busy software-emulated VM, and most commands touch no port.
        from lab.dataplane.numbering import number_ports  # noqa: PLC0415

        return number_ports(self.topology, self.backend.indexes(self.state))

    @cached_property
    def qos(self) -> Mapping[str, NodeQos]:
        """The configured QoS of each node, with changes since ``up``; empty if links are only shaped."""
        return {**resolve(self.topology, time_source.reaction()), **self.state.load_qos()}

    @property
    def name(self) -> str:
        """The name of the fabric on this machine."""
        return self.state.name

    def namespace(self, node: str) -> Namespace:
        """Return the network namespace of a node."""
        return self.backend.namespace(self.state, node)

    def router(self, node: str) -> Router:
        """Return the routing daemons of a switch."""
        return self.backend.router(self.state, node)
