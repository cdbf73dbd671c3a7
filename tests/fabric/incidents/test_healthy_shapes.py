"""Healthy fabrics of all shapes differ neither from their plan, nor do their nodes from each other."""

from __future__ import annotations

import pytest

from lab.audit.reader import audit
from lab.audit.without_plan import differences_without_plan
from lab.backends.lifecycle import reading
from tests.fabric.command import TOPOLOGIES, rocelab

pytestmark = [pytest.mark.fabric, pytest.mark.usefixtures("unchanged")]


@pytest.mark.parametrize("shape", ["clos-2x4", "clos-3tier", "isis", "ospf", "rail-optimised"])
def test_a_healthy_fabric_has_no_differences(shape: str) -> None:
    """Those of other shapes need kernel features that only the VM has."""
    rocelab("up", TOPOLOGIES / f"{shape}.yaml", "--no-rdma")
    rocelab("drift")
    with reading(shape) as fabric:
        assert differences_without_plan(audit(fabric), fabric.topology) == []
