"""Fabrics that several files use one after the other: building one takes a minute of a core.

Each file must leave the fabric as it found it; ``SharedFabric.settle`` checks that when the file ends.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from lab.backends import lifecycle
from lab.backends.fabric_state import FabricState
from lab.faults import fault_engine
from lab.model.topology import Role
from tests.fabric.command import TOPOLOGIES, rocelab

if TYPE_CHECKING:
    from lab.backends.backend import Fabric

_CONVERGED: Final = 60.0
"""Seconds within which the daemons have certainly learnt their routes again."""


class SharedFabric:
    """The fabric that is up; there is one at a time."""

    def __init__(self) -> None:
        self.name = ""
        self._routes: dict[str, str] = {}

    def turn_to(self, name: str) -> None:
        """Take down the fabric that is up, unless it is ``name``; with "" it is always taken down."""
        if self.name not in {"", name}:
            lifecycle.down(FabricState(self.name))
        self.name = name

    def up(self, name: str) -> Fabric:
        """Return the fabric of the shipped topology ``name``, built unless it is up already."""
        self.turn_to(name)
        if not FabricState(name).ready:
            rocelab("up", TOPOLOGIES / f"{name}.yaml")
        fabric = lifecycle.open_fabric(name)
        self._routes = kernel_routes(fabric)
        return fabric

    def settle(self) -> None:
        """Wait until the routes are as they were when ``up`` returned; fail if a fault is left."""
        fabric = lifecycle.open_fabric(self.name)
        assert fault_engine.running(fabric) == ()
        await_routes(fabric, self._routes)


def kernel_routes(fabric: Fabric) -> dict[str, str]:
    """The routes in the kernel of each switch."""
    switches = [node.name for node in fabric.topology.nodes if node.role is not Role.HOST]
    return {name: fabric.namespace(name).run(["ip", "route"]).stdout for name in switches}


def await_routes(fabric: Fabric, expected: dict[str, str]) -> None:
    """Wait until the kernel's routes are ``expected``; fail if they do not come back."""
    deadline = time.monotonic() + _CONVERGED
    while (found := kernel_routes(fabric)) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
