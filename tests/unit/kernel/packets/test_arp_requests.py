"""ARP requests to a port that sends nothing: those that the socket has no room for are left out."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any, cast

import pytest

from lab.kernel.packets import arp

if TYPE_CHECKING:
    from lab.kernel.process.netns import Namespace


class Stuck:
    """A socket whose peer reads nothing, with the address of an interface."""

    def __init__(self, sending: socket.socket) -> None:
        self._sending = sending
        self.sent = 0

    def getsockname(self) -> tuple[Any, ...]:
        return "eth1", 0, 0, 1, bytes(6)

    def send(self, *words: Any) -> None:
        self._sending.send(*words)
        self.sent += 1


@pytest.mark.timeout(20)
def test_requests_do_not_wait_for_room_in_a_full_buffer() -> None:
    one, two = (IPv4Address(f"10.0.0.{number}") for number in (1, 2))
    question = arp.Question(cast("Namespace", None), "eth1", one, two)
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ends[0] as sending, ends[1]:
        stuck = Stuck(sending)
        arp._send(arp._Asking(cast("socket.socket", stuck), [question] * 10_000))
    assert 0 < stuck.sent < 10_000
