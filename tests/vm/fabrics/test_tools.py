"""What a network engineer looks around with runs in every node, and takes names: traceroute, mtr, tcpdump, iperf3.

    h1 -- leaf1 -- spine1|spine2 -- leaf2 -- h5      incast: where the TTL of a packet runs out

Judge: the addressing plan, and the arithmetic of what was asked for.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.fabric.command import forked, rocelab, rocelab_json

if TYPE_CHECKING:
    from tests.fabric.resident import Begun

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


def await_words(begun: Begun, told: str) -> None:
    while told not in begun.so_far():
        assert not begun.is_over(0.05), f"ended without {told!r}"


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
    with forked("exec", "leaf1", "--", "tcpdump", "-nn", "-c", "2", "-i", "swp3", "icmp") as tcpdump:
        await_words(tcpdump, "listening on swp3")
        in_node("h1", "ping", "-c", "1", "h5")
        seen = tcpdump.end(60).stdout
    assert [line.count("echo request") - line.count("echo reply") for line in seen.splitlines()] == [1, -1]


def tcp_packets(node: str, counter: str) -> int:
    """Of priority 0, which TCP has, at each port of a node."""
    ports = rocelab_json("counters", node, "--since", "build")["nodes"][node]["interfaces"]
    return sum(int(port.get(counter, 0)) for port in ports.values())


def test_iperf3_carries_what_it_was_told_to() -> None:
    with forked("exec", "h5", "--", "iperf3", "-s", "-1", "--forceflush") as server:
        await_words(server, "Server listening")
        ended = json.loads(in_node("h1", "iperf3", "-c", "h5", "-n", "64K", "-l", "1K", "--json"))["end"]
        assert server.end(60).returncode == 0
    assert ended["sum_received"]["bytes"] == 64 * 1024


def test_a_packet_in_the_queue_of_a_host_is_a_frame_on_the_wire() -> None:
    """Not several segments in one: they would be one packet of the sender's port, and many of its peer's."""
    sent, arrived = tcp_packets("h1", "tx_prio0_packets"), tcp_packets("h5", "rx_prio0_packets")
    with forked("exec", "h5", "--", "iperf3", "-s", "-1", "--forceflush") as server:
        await_words(server, "Server listening")
        in_node("h1", "iperf3", "-c", "h5", "-n", "2M")
        assert server.end(60).returncode == 0
    sent = tcp_packets("h1", "tx_prio0_packets") - sent
    assert sent > 2 * 1024 * 1024 / 9000
    # Either has a few packets of ARP and ND with its leaf besides.
    assert abs(tcp_packets("h5", "rx_prio0_packets") - arrived - sent) < 10
