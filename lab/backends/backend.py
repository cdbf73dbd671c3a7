"""The boundary between what a fabric is and what plays it."""

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
    """Told of each step of a stage of long work."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """``done`` of ``total`` steps of ``stage`` are behind us."""


def silent(stage: str, done: int, total: int) -> None:
    """The progress of work that nobody watches."""


def in_lines(tell: Callable[[str], None]) -> Progress:
    """Progress as lines of text: one when a stage begins, and one for each further quarter of its steps."""
    quarters: dict[str, int] = {}

    def show(stage: str, done: int, total: int) -> None:
        quarter = 4 * done // total if total else 4
        if quarter > quarters.get(stage, -1):
            quarters[stage] = quarter
            tell(f"{stage}: {done} of {total}")

    return show


class Backend(Protocol):
    """Builds fabrics of one sort and takes them away again."""

    name: str

    def check(self, topology: Topology) -> None:
        """Raise UsageError or EnvironmentLacks when the topology cannot be played here; touch nothing."""

    def deploy(self, fabric: Fabric, progress: Progress) -> None:
        """Make everything, each thing recorded in the fabric's journal before it is made."""

    def remove(self, state: FabricState) -> None:
        """Take away whatever the journal names, however much of it is there. Can be repeated."""

    def namespace(self, state: FabricState, node: str) -> Namespace:
        """Where a node's programs run."""

    def plan(self, state: FabricState, topology: Topology) -> Mapping[str, NodePlan]:
        """Interfaces and addresses of each node."""

    def indexes(self, state: FabricState) -> Mapping[str, Mapping[str, int]]:
        """The index of each interface of each node, where somebody else has made them; empty where they are ours."""

    def router(self, state: FabricState, node: str) -> Router:
        """The routing daemons of a switch."""

    def complaints(self, state: FabricState) -> Mapping[str, str]:
        """What became of nodes that are not as they were made, for those whom it concerns; empty when all is well."""


@dataclass(frozen=True)
class Fabric:
    """A fabric that runs, or is about to: nodes you can run commands in."""

    state: FabricState
    topology: Topology
    backend: Backend
    plan: Mapping[str, NodePlan] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plan", self.backend.plan(self.state, self.topology))

    @cached_property
    def numbering(self) -> Numbering:
        """Which port is which."""
        # NumPy takes seconds to import in a busy software-emulated VM, and most commands touch no port.
        from lab.dataplane.numbering import number_ports  # noqa: PLC0415

        return number_ports(self.topology, self.backend.indexes(self.state))

    @cached_property
    def qos(self) -> Mapping[str, NodeQos]:
        """What each node's ports are to do, as built or as changed since; empty where links are only shaped."""
        return {**resolve(self.topology, time_source.reaction()), **self.state.load_qos()}

    @property
    def name(self) -> str:
        """What it is called on this machine."""
        return self.state.name

    def namespace(self, node: str) -> Namespace:
        """Where a node's programs run."""
        return self.backend.namespace(self.state, node)

    def router(self, node: str) -> Router:
        """The routing daemons of a switch."""
        return self.backend.router(self.state, node)
