"""The RDMA devices of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.rdma.rxe import device_name

if TYPE_CHECKING:
    from lab.backends.backend import Fabric


def devices_of(fabric: Fabric, node: str) -> list[str]:
    """Return the names of the devices in the order of the node's interfaces; empty without RDMA."""
    plan = fabric.plan[node]
    return [device_name(fabric.name, node, nic) for nic in plan.nics] if plan.node.rdma else []
