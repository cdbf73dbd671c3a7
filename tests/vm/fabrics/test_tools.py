"""iperf3 through lossless ports: it carries what it is told to, and each packet in a queue is a frame on the wire.

Judge: the arithmetic of what was asked for, and the counters at both ends. Other tools need no such ports:
tests/fabric/packets/test_tools.py.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest

from tests.fabric.command import forked, rocelab, rocelab_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fabric.resident import Begun

pytestmark = [pytest.mark.vm, pytest.mark.backends, pytest.mark.timeout(300), pytest.mark.usefixtures("incast")]


def in_node(node: str, *words: str) -> str:
    return rocelab("exec", node, "--", *words).stdout


@contextlib.contextmanager
def listening() -> Iterator[Begun]:
    """A server at h5, for one client."""
    with forked("exec", "h5", "--", "iperf3", "-s", "-1", "--forceflush") as server:
        while "Server listening" not in server.so_far():
            assert not server.is_over(0.05), "ended before it listened"
        yield server


def tcp_packets(node: str, counter: str) -> int:
    """Of priority 0, which TCP has, at each port of a node."""
    ports = rocelab_json("counters", node, "--since", "build")["nodes"][node]["interfaces"]
    return sum(int(port.get(counter, 0)) for port in ports.values())


@pytest.mark.long
def test_iperf3_carries_what_it_was_told_to() -> None:
    """In CI, the test below counts what it carries."""
    with listening() as server:
        ended = json.loads(in_node("h1", "iperf3", "-c", "h5", "-n", "64K", "-l", "1K", "--json"))["end"]
        assert server.end(60).returncode == 0
    assert ended["sum_received"]["bytes"] == 64 * 1024


def test_a_packet_in_the_queue_of_a_host_is_a_frame_on_the_wire() -> None:
    """Not several segments in one: they would be one packet of the sender's port, and many of its peer's."""
    sent, arrived = tcp_packets("h1", "tx_prio0_packets"), tcp_packets("h5", "rx_prio0_packets")
    with listening() as server:
        in_node("h1", "iperf3", "-c", "h5", "-n", "2M")
        assert server.end(60).returncode == 0
    sent = tcp_packets("h1", "tx_prio0_packets") - sent
    assert sent > 2 * 1024 * 1024 / 9000
    # Either has a few packets of ARP and ND with its leaf besides.
    assert abs(tcp_packets("h5", "rx_prio0_packets") - arrived - sent) < 10
