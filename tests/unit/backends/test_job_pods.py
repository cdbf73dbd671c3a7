"""Where pods go: their addresses, their leaves' addresses, and the fabrics that have no room for them."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from lab.backends.backend import Fabric
from lab.backends.fabric_state import FabricState
from lab.backends.job_pods import planned_pods
from lab.backends.netns_backend import NetnsBackend
from lab.errors import UsageError
from lab.model.load import load_topology
from lab.rdma.nic_choice import find_nic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.backends.job_pods import JobPod

TOPOLOGIES: Final = Path(__file__).parents[3] / "topologies"


def fabric(name: str, **changes: str) -> Fabric:
    text = (TOPOLOGIES / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in changes.items():
        text = text.replace(f"{old}:", f"{new}\n{old}:", 1)
    topology = load_topology(text)
    return Fabric(FabricState(topology.name), topology, NetnsBackend())


def pods_of(made: Fabric, hosts: Sequence[str]) -> list[JobPod]:
    return planned_pods(made, [find_nic(made, host) for host in hosts])


def test_a_pod_has_a_network_of_its_own_with_its_leaf() -> None:
    """Two addresses of the shared address space for each NIC, which no other NIC has."""
    one, other = pods_of(fabric("rails"), ["h1:eth2", "h2"])
    assert (one.address, one.gateway, one.network) == ("100.64.0.3/31", "100.64.0.2", ip_interface("100.64.0.2/31"))
    assert (one.leaf, one.nic.device, one.nic.interface) == ("leaf2", "rails.h1.pod", "eth2")
    assert (one.host.name, one.nic.namespace.name) == ("rl-rails.h1", "rl-rails.h1.pod")
    assert (other.leaf, other.nic.address) == ("leaf1", ip_address("100.64.0.5"))


def test_a_host_link_with_ipv6_has_room_for_a_pod() -> None:
    made = fabric("incast", defaults="routing: {host_family: ipv6}")
    (pod,) = pods_of(made, ["h2"])
    address = made.plan["h2"].interfaces["eth1"].address
    assert address is not None
    assert ip_interface(pod.address).network == address.network
    assert pod.nic.address not in {address.ip, ip_address(pod.gateway)}
    assert pod.network is None, "the leaf needs no further address"


def test_a_pod_has_one_rail() -> None:
    made = fabric("rails")
    railed = replace(find_nic(made, "h1"), rails=(find_nic(made, "h1:eth2"),))
    with pytest.raises(UsageError, match="several rails"):
        planned_pods(made, [railed])


@pytest.mark.parametrize("name", ["roce-tenant", "multihomed"])
def test_a_host_in_an_overlay_network_has_no_room(name: str) -> None:
    made = fabric(name)
    host = next(each.name for each in made.topology.hosts if each.rdma)
    with pytest.raises(UsageError, match="no room for a pod"):
        pods_of(made, [host])
