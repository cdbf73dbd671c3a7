"""Routes of the main table, read again only after the kernel reported a change."""

from __future__ import annotations

import socket
import struct
from contextlib import closing
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import pytest

from lab.kernel.netlink import routes
from lab.kernel.netlink.nlmsg import DONE, HEADER, attribute
from lab.kernel.netlink.routes import FibReader, FibRoute

if TYPE_CHECKING:
    from collections.abc import Iterator

NEWROUTE, MAIN, LOCAL, CLONED = 24, 254, 255, 0x200
UNICAST, MULTICAST = 1, 5


class Kernel:
    """Stands in for a namespace: its two sockets, one for events and one for requests."""

    def __init__(self) -> None:
        self.kernel, self.asking = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.events, self.heard = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.asking.settimeout(5)
        self.heard.setblocking(False)
        self.requests = 0

    def inside(self, _work: object) -> socket.socket:
        return self.asking

    def answer(self, *routes: bytes) -> None:
        """Answer the next request with these routes."""
        self.requests += 1
        for content in routes:
            self.kernel.send(self._message(NEWROUTE, content))
        self.kernel.send(self._message(DONE, struct.pack("=i", 0)))

    def _message(self, kind: int, content: bytes) -> bytes:
        return HEADER.pack(HEADER.size + len(content), kind, 2, self.requests, 0) + content


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    made = Kernel()
    monkeypatch.setattr(routes, "listener", lambda _namespace, _groups: made.heard)
    with made.kernel, made.asking, made.events, made.heard:
        yield made


def route(prefix: str, *hops: int, table: int = MAIN, kind: int = UNICAST, flags: int = 0) -> bytes:
    """A route as the kernel answers: one next hop as RTA_OIF, several as RTA_MULTIPATH."""
    address, length = prefix.split("/")
    packed = ip_address(address).packed
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    fixed = struct.pack("=BBBBBBBBI", family, int(length), 0, 0, table, 186, 0, kind, flags)
    gateway = attribute(5, bytes(4))
    several = b"".join(struct.pack("=HBBi", 8 + len(gateway), 0, 0, hop) + gateway for hop in hops)
    out = attribute(4, struct.pack("=i", hops[0])) if len(hops) == 1 else attribute(9, several)
    return fixed + attribute(1, packed) + out


def reader(kernel: Any) -> FibReader:
    return FibReader(kernel)


def test_routes_of_the_main_table_with_all_next_hops(kernel: Kernel) -> None:
    kernel.answer(
        route("10.0.0.8/31", 2, 3), route("10.0.0.0/31", 2), route("fd00::/64", 2, 3),
        route("fe80::/64", 2), route("10.0.0.1/32", 1, table=LOCAL), route("224.0.0.0/4", 1, kind=MULTICAST),
        route("fd00::1/128", 2, flags=CLONED),
    )  # fmt: skip
    with closing(reader(kernel)) as found:
        read = found.read()
    assert read == [
        FibRoute("10.0.0.8/31", frozenset({"2", "3"})), FibRoute("10.0.0.0/31", frozenset({"2"})),
        FibRoute("fd00::/64", frozenset({"2", "3"})),
    ]  # fmt: skip
    assert [each.version for each in read] == [4, 4, 6]


def test_they_are_requested_again_only_after_a_change(kernel: Kernel) -> None:
    kernel.answer(route("10.0.0.8/31", 2, 3))
    with closing(reader(kernel)) as found:
        before = found.read()
        assert found.read() is before, "a second request would wait for an answer in vain"
        kernel.events.send(b"a route")
        kernel.answer(route("10.0.0.8/31", 2))
        assert found.read() == [FibRoute("10.0.0.8/31", frozenset({"2"}))]
