"""What a kernel has no room for is refused before anything is built."""

import os

import pytest

from lab.backends import plumbing
from lab.errors import EnvironmentLacks
from lab.kernel.process import tuning
from lab.model.load import load_topology
from lab.model.topology import Topology


@pytest.fixture
def sixty_four_links() -> Topology:
    """Four spines and sixteen leaves: 128 ends between switches, and hosts, which count for nothing."""
    return load_topology(
        "name: wide\ngenerate: {shape: leaf-spine, spines: 4, leaves: 16, hosts_per_leaf: 2, rdma: false}\n"
    )


@pytest.fixture
def neighbours(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The kernel's settings, as this process sees them."""
    settings = {"net/ipv6/conf/all/forwarding": "1"}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(tuning, "has_sysctl", settings.__contains__)
    monkeypatch.setattr(tuning, "read_sysctls", lambda names: {name: settings[name] for name in names})
    return settings


def test_more_neighbours_than_the_kernel_holds_are_refused(
    sixty_four_links: Topology, neighbours: dict[str, str]
) -> None:
    neighbours["net/ipv6/neigh/default/gc_thresh3"] = "128"
    with pytest.raises(EnvironmentLacks) as refused:
        plumbing.check_kernel(sixty_four_links)
    assert refused.value.message == "wide has 64 links between switches, and this kernel room for 63"
    assert refused.value.remedy == "sysctl -w net.ipv6.neigh.default.gc_thresh3=512 makes some, or use --vm"


def test_as_many_neighbours_as_there_is_room_for_are_built(
    sixty_four_links: Topology, neighbours: dict[str, str]
) -> None:
    neighbours["net/ipv6/neigh/default/gc_thresh3"] = "129"
    plumbing.check_kernel(sixty_four_links)


def test_where_the_limit_is_not_to_be_seen_nothing_is_refused(
    sixty_four_links: Topology, neighbours: dict[str, str]
) -> None:
    assert "net/ipv6/neigh/default/gc_thresh3" not in neighbours
    plumbing.check_kernel(sixty_four_links)
