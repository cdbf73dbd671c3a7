"""What a network engineer looks around with runs in every node, and takes names: traceroute, mtr, tcpdump, iperf3.

    h1 -- leaf1 -- spine1|spine2 -- leaf2 -- h5      incast: where the TTL of a packet runs out

Judge: the addressing plan, and the arithmetic of what was asked for.
"""

import json
from typing import IO

import pytest

from tests.fabric.command import rocelab, rocelab_json, running

pytestmark = [pytest.mark.vm, pytest.mark.backends, pytest.mark.timeout(300), pytest.mark.usefixtures("incast")]
HOPS = ({"leaf1"}, {"spine1", "spine2"}, {"leaf2"}, {"h5"})


def in_node(node: str, *words: str) -> str:
    return rocelab("exec", node, "--", *words).stdout


def owners() -> dict[str, str]:
    """By address: the node that has it."""
    return {
        address.partition("/")[0]: node["name"]
        for node in rocelab_json("inspect")["nodes"]
        for address in [*node["loopbacks"], *(each["address"] for each in node["interfaces"] if each["address"])]
    }


def await_line(stream: IO[str] | None, told: str) -> None:
    assert stream is not None
    assert any(told in line for line in stream), f"ended without {told!r}"


def passed(addresses: list[str]) -> None:
    """That packets expired in the nodes between h1 and h5."""
    known = owners()
    nodes = [known.get(address, address) for address in addresses]
    assert len(nodes) == len(HOPS), nodes
    assert all(node in hop for node, hop in zip(nodes, HOPS, strict=True)), nodes


def test_traceroute_names_each_hop() -> None:
    lines = in_node("h1", "traceroute", "-n", "-q", "1", "h5").splitlines()[1:]
    passed([line.split()[1] for line in lines])


def test_mtr_reports_each_hop_and_no_loss() -> None:
    report = json.loads(in_node("h1", "mtr", "--json", "--no-dns", "--report-cycles", "2", "h5"))["report"]
    passed([hub["host"] for hub in report["hubs"]])
    assert {hub["Loss%"] for hub in report["hubs"]} == {0.0}


def test_tcpdump_sees_a_ping_that_passes_a_leaf() -> None:
    with running("exec", "leaf1", "--", "tcpdump", "-nn", "-c", "2", "-i", "swp3", "icmp") as tcpdump:
        await_line(tcpdump.stderr, "listening on swp3")
        in_node("h1", "ping", "-c", "1", "h5")
        seen, _ = tcpdump.communicate(timeout=60)
    assert [line.count("echo request") - line.count("echo reply") for line in seen.splitlines()] == [1, -1]


def test_iperf3_carries_what_it_was_told_to() -> None:
    with running("exec", "h5", "--", "iperf3", "-s", "-1", "--forceflush") as server:
        await_line(server.stdout, "Server listening")
        ended = json.loads(in_node("h1", "iperf3", "-c", "h5", "-n", "64K", "-l", "1K", "--json"))["end"]
        assert server.wait(60) == 0
    assert ended["sum_received"]["bytes"] == 64 * 1024
