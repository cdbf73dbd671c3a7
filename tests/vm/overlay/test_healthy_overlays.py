"""Healthy fabrics of shapes that only the VM has: no differences. That of two tenants is in test_overlay.py."""

from __future__ import annotations

import pytest

from tests.fabric.command import TOPOLOGIES, rocelab
from tests.vm.tenants import assert_healthy

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(900)]
SHAPES = ("flood", "four-spines", "l2vni", "multicast", "multihomed", "one-spine", "roce-tenant", "vlans")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_healthy_fabric_of_this_shape_has_no_differences(shape: str) -> None:
    rocelab("up", TOPOLOGIES / f"{shape}.yaml")
    try:
        assert_healthy(shape)
    finally:
        rocelab("down", "--fabric", shape)
