"""The programs of a network engineer run in every node, and take names: traceroute, mtr, tcpdump.

    h1 -- leaf1 -- spine1|spine2 -- leaf2 -- h3      where the TTL of a packet runs out

Judge: the addressing plan.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.fabric.command import TOPOLOGIES, forked, rocelab, rocelab_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fabric.resident import Begun

pytestmark = [pytest.mark.fabric, pytest.mark.backends, pytest.mark.timeout(300), pytest.mark.usefixtures("fabric")]
NAME = "tools"
HOPS = ({"leaf1"}, {"spine1", "spine2"}, {"leaf2"}, {"h3"})


@pytest.fixture(scope="module")
def fabric() -> Iterator[None]:
    rocelab("up", TOPOLOGIES / "clos-2x2.yaml", "--name", NAME, "--no-rdma")
    yield
    rocelab("down", "--fabric", NAME)


def in_node(node: str, *words: str) -> str:
    return rocelab("exec", node, "--", *words).stdout


def owners() -> dict[str, str]:
    """By address: the node that has it."""
    return {
        address.partition("/")[0]: node["name"]
        for node in rocelab_json("inspect")["nodes"]
        for address in [*node["loopbacks"], *(each["address"] for each in node["interfaces"] if each["address"])]
    }


def await_words(begun: Begun, told: str) -> None:
    while told not in begun.so_far():
        assert not begun.is_over(0.05), f"ended without {told!r}"


def passed(addresses: list[str]) -> None:
    """That packets expired in the nodes between h1 and h3."""
    known = owners()
    nodes = [known.get(address, address) for address in addresses]
    assert len(nodes) == len(HOPS), nodes
    assert all(node in hop for node, hop in zip(nodes, HOPS, strict=True)), nodes


def test_traceroute_names_each_hop() -> None:
    """One probe after the other: else it gives up one that takes ten times as long as the answer to the next."""
    lines = in_node("h1", "traceroute", "-n", "-q", "1", "-N", "1", "-w", "20,0,0", "h3").splitlines()[1:]
    passed([line.split()[1] for line in lines])


def test_mtr_reports_each_hop_and_no_loss() -> None:
    report = json.loads(in_node("h1", "mtr", "--json", "--no-dns", "--report-cycles", "2", "h3"))["report"]
    passed([hub["host"] for hub in report["hubs"]])
    assert {hub["Loss%"] for hub in report["hubs"]} == {0.0}


def test_tcpdump_sees_a_ping_that_passes_a_leaf() -> None:
    with forked("exec", "leaf1", "--", "tcpdump", "-nn", "-c", "2", "-i", "swp3", "icmp") as tcpdump:
        await_words(tcpdump, "listening on swp3")
        in_node("h1", "ping", "-c", "1", "h3")
        seen = tcpdump.end(60).stdout
    assert [line.count("echo request") - line.count("echo reply") for line in seen.splitlines()] == [1, -1]
