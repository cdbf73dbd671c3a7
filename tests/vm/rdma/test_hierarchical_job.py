"""A hierarchical AllReduce on hosts with two NICs: each rail carries its part, and nothing crosses the spine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from tests.fabric.command import only_line, rocelab, rocelab_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.backend import Fabric
    from tests.vm.shared_fabric import SharedFabric

pytestmark = [pytest.mark.vm, pytest.mark.backends, pytest.mark.timeout(600)]
SIZE: Final = 2**20
HOSTS: Final = 4
RAILS: Final = 2
JOB: Final = ("job", "allreduce", "--algorithm", "hierarchical", "--size", "1MiB", "--warmup", "0")


@pytest.fixture(scope="module")
def rails(shared_fabric: SharedFabric) -> Iterator[Fabric]:
    """topologies/rails.yaml: four hosts with two NICs each."""
    yield shared_fabric.up("rails")
    shared_fabric.settle()


def sent(fabric: Fabric, node: str) -> dict[str, int]:
    """Bytes that each interface of a node has sent."""
    links = json.loads(fabric.namespace(node).run(["ip", "-json", "-stats", "link"]).stdout)
    return {link["ifname"]: link["stats64"]["tx"]["bytes"] for link in links}


def test_each_nic_carries_the_sum_of_its_rail(rails: Fabric) -> None:
    hosts, leaves = [f"h{number}" for number in range(1, HOSTS + 1)], ("leaf1", "leaf2")
    before = {node: sent(rails, node) for node in (*hosts, *leaves)}
    answer = rocelab_json(*JOB, "--iterations", "1")
    assert [f"{rank['host']}:{rank['interface']}" for rank in answer["ranks"]] == [
        f"{host}:eth{rail}" for host in hosts for rail in (1, 2)
    ]
    (row,) = answer["rows"]
    assert (row["wrong"], answer["ranks_per_host"]) == (0, RAILS)
    ring = 2 * (HOSTS - 1) / HOSTS * SIZE / RAILS
    for host in hosts:
        after = sent(rails, host)
        for nic in ("eth1", "eth2"):
            assert ring < after[nic] - before[host][nic] < 1.08 * ring, f"{host}:{nic}"
    for leaf in leaves:
        assert sent(rails, leaf)["swp1"] - before[leaf]["swp1"] < 0.02 * SIZE
    assert row["jct_ratio"] > 1


@pytest.mark.long
@pytest.mark.usefixtures("rails")
def test_without_the_rdma_device_of_a_rank_it_is_named() -> None:
    """Memory that ranks of one host share is no way around it. In CI, test_jobs.py names a rank without a device."""
    rocelab("fault", "inject", "rdma-device-lost", "h2:eth2")
    try:
        failed = rocelab(*JOB, "--iterations", "1", expect=4)
    finally:
        rocelab("fault", "heal", "--all")
    assert only_line(failed.stderr).startswith("error: rank 3 at h2:eth2 has no RDMA device rails.h2.eth2")
