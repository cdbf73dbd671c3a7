"""Sockets that the kernel reports changes on: what is read, what was lost, and those that can be read no more."""

from __future__ import annotations

import errno
import os
import selectors
import socket
from typing import TYPE_CHECKING

import pytest

from lab.kernel.netlink import netlink_events, routes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Scripted:
    """A socket that gives or raises one thing after the other, and must not be read further."""

    def __init__(self, *said: bytes | int) -> None:
        self._said = iter(said)

    def recv(self, _size: int, _flags: int = 0) -> bytes:
        said = next(self._said)
        if isinstance(said, int):
            raise OSError(said, os.strerror(said))
        return said


@pytest.fixture(params=[netlink_events.take, routes._drain], ids=["take", "drain"])
def read(request: pytest.FixtureRequest) -> Callable[[object], object]:
    """Both ways in which such a socket is emptied."""
    way: Callable[[object], object] = request.param
    return way


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as made:
        made.setblocking(False)
        yield made


def test_what_was_lost_is_reported_beside_what_came() -> None:
    assert netlink_events.take(Scripted(b"one", errno.ENOBUFS, b"two", errno.EAGAIN)) == ([b"one", b"two"], True)  # type: ignore[arg-type]
    assert netlink_events.take(Scripted(b"one", errno.EAGAIN)) == ([b"one"], False)  # type: ignore[arg-type]


def test_a_socket_with_nothing_to_read_is_done_with(
    read: Callable[[object], object], listening: socket.socket
) -> None:
    assert read(listening) in (([], False), None)


def test_a_closed_socket_is_an_error(read: Callable[[object], object], listening: socket.socket) -> None:
    listening.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        read(listening)


@pytest.mark.parametrize("number", [errno.ENETDOWN, errno.ENOMEM, errno.ENOTCONN], ids=errno.errorcode.get)
def test_any_other_error_ends_it(read: Callable[[object], object], number: int) -> None:
    with pytest.raises(OSError, match=os.strerror(number)):
        read(Scripted(b"one", errno.ENOBUFS, number))


def test_waiting_for_routes_does_not_go_on_without_a_namespace_s_socket() -> None:
    """A descriptor that is always readable would otherwise be news without end."""
    with routes.RouteNews([]) as heard, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as refused:
        heard._selector.register(refused, selectors.EVENT_READ, "gone")
        with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
            heard.wait(0.0)
