"""Sockets of our own are seen while they wait, and not when they have a peer or are gone."""

from __future__ import annotations

import socket

import pytest

from lab.kernel.process import sockets


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_socket_waits_from_its_binding_until_it_is_closed(family: socket.AddressFamily) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as waiting:
        waiting.bind(("", 0))
        port = waiting.getsockname()[1]
        assert sockets.waits("udp", port)
    assert not sockets.waits("udp", port)


def test_a_tcp_port_waits_when_it_listens_and_a_connection_does_not() -> None:
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert not sockets.waits("tcp", port), "bound is not listening"
        server.listen()
        assert sockets.waits("tcp", port)
        client.connect(server.getsockname())
        assert not sockets.waits("tcp", client.getsockname()[1])


def test_a_udp_socket_with_a_peer_waits_for_nobody_else() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", 9))
        assert not sockets.waits("udp", client.getsockname()[1])
