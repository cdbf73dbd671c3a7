"""What users type for hosts, interfaces and pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from lab.errors import UsageError
from lab.kernel.process.netns import Namespace
from lab.model.addressing import plan_addresses
from lab.model.hosts import parse_pair
from lab.model.topology import Endpoint, Link, Node, Role, Topology
from lab.rdma.nic_choice import all_nics, find_nic, find_pair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.model.addressing import NodePlan


@dataclass
class Stub:
    """A fabric that exists on paper."""

    plan: Mapping[str, NodePlan]
    name: str = "lab"

    def namespace(self, node: str) -> Namespace:
        return Namespace(f"rl-lab-{node}")


@pytest.fixture
def fabric() -> Stub:
    """Two leaves; h1 with two interfaces, h2 with one, h3 without RDMA."""
    hosts = (Node("h1", Role.HOST, rdma=True), Node("h2", Role.HOST, rdma=True), Node("h3", Role.HOST))
    nodes = (Node("leaf1", Role.LEAF), Node("leaf2", Role.LEAF), *hosts)
    ends = [("leaf1", "swp1", "h1", "eth1"), ("leaf2", "swp1", "h1", "eth2"), ("leaf1", "swp2", "h2", "eth1")]
    ends.append(("leaf2", "swp2", "h3", "eth1"))
    links = tuple(Link(Endpoint(a, b), Endpoint(c, d), 10**8, 9000) for a, b, c, d in ends)
    return Stub(plan_addresses(Topology("lab", nodes, links)))


def test_a_host_means_its_first_interface(fabric: Stub) -> None:
    nic = find_nic(fabric, "h1")
    assert (str(nic), nic.device, nic.namespace.name, str(nic.address)) == (
        "h1:eth1",
        "lab.h1.eth1",
        "rl-lab-h1",
        "10.0.0.1",
    )
    assert str(find_nic(fabric, "h1:eth2")) == "h1:eth2"
    assert str(find_nic(fabric, "h2")) == "h2"
    assert [str(nic) for nic in all_nics(fabric)] == ["h1:eth1", "h1:eth2", "h2"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("h9", "no host 'h9' in fabric lab: hosts are h1, h2, h3"),
        ("", "no host '' in fabric lab: hosts are h1, h2, h3"),
        ("leaf1", "leaf1 is a switch: hosts are h1, h2, h3"),
        ("h3", "h3 has no RDMA: write rdma: true for it in the topology, then down, and up without --no-rdma"),
        ("h1:eth9", "h1 has no interface 'eth9': it has eth1, eth2"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(fabric: Stub, text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_nic(fabric, text)
    assert str(caught.value).startswith(why)


def test_pairs_need_two_hosts(fabric: Stub) -> None:
    assert str(find_pair(fabric, "h1:eth2", "h2")) == "h1:eth2 -> h2"
    with pytest.raises(UsageError, match="are the same host"):
        find_pair(fabric, "h2", "h2")


@pytest.mark.parametrize(
    ("text", "names"),
    [("h1:h5", ("h1", "h5")), ("h1->h5", ("h1", "h5")), ("h1:eth2:h5:eth1", ("h1:eth2", "h5:eth1"))],
)
def test_pairs_are_written_with_colons(text: str, names: tuple[str, str]) -> None:
    assert parse_pair(text) == names


@pytest.mark.parametrize("text", ["", "h1", "h1:", ":h2", "h1:eth1:h2", "a:b:c:d:e"])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no pair"):
        parse_pair(text)
