"""Answers to a request for counters or states: those of each interface, and the kernel's refusals."""

from __future__ import annotations

import errno
import os
import socket
import struct
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lab.kernel.netlink.link_stats import FIELDS, LinkState, LinkStates, LinkStats
from lab.kernel.netlink.nlmsg import DONE, ERROR, HEADER, attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.kernel.process.netns import Namespace

NEWSTATS, LINK_64 = 92, 1


class Answered:
    """Stands in for a namespace: its kernel gives these answers, whatever it is asked."""

    def __init__(self, kernel: socket.socket, asking: socket.socket) -> None:
        self.kernel, self.asking = kernel, asking

    def inside(self, _work: object) -> socket.socket:
        return self.asking


@pytest.fixture
def namespace() -> Iterator[Answered]:
    kernel, asking = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with kernel, asking:
        asking.settimeout(5)
        yield Answered(kernel, asking)


def read(namespace: Answered, *answers: bytes) -> dict[int, list[int]]:
    for each in answers:
        namespace.kernel.send(each)
    asked: Namespace = namespace  # type: ignore[assignment]
    with closing(LinkStats(asked)) as stats:
        return {index: list(counted) for index, counted in stats.read().items()}


def message(kind: int, content: bytes) -> bytes:
    return HEADER.pack(HEADER.size + len(content), kind, 2, 1, 0) + content


def counters(index: int, *values: int) -> bytes:
    counted = struct.pack(f"={len(FIELDS)}Q", *values, *[0] * (len(FIELDS) - len(values)))
    return message(NEWSTATS, struct.pack("=BBHII", 0, 0, 0, index, LINK_64) + attribute(LINK_64, counted))


def code(kind: int, number: int) -> bytes:
    return message(kind, struct.pack("=i", -number))


def test_the_counters_of_each_interface(namespace: Answered) -> None:
    assert read(namespace, counters(1, 7) + counters(3, 8, 9), code(DONE, 0)) == {
        1: [7, 0, 0, 0, 0, 0, 0, 0], 3: [8, 9, 0, 0, 0, 0, 0, 0],
    }  # fmt: skip


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOMEM], ids=errno.errorcode.get)
def test_a_refusal_is_an_error(namespace: Answered, number: int) -> None:
    with pytest.raises(OSError, match=os.strerror(number)) as refused:
        read(namespace, code(ERROR, number))
    assert refused.value.errno == number


def test_a_list_that_the_kernel_cannot_finish_is_an_error(namespace: Answered) -> None:
    """It then says so in the message that ends the list."""
    with pytest.raises(OSError, match=os.strerror(errno.EMSGSIZE)):
        read(namespace, counters(1, 7), code(DONE, errno.EMSGSIZE))


def link(index: int, name: str, state: int, mtu: int) -> bytes:
    """An interface as the kernel answers (RTM_NEWLINK)."""
    fixed = struct.pack("=BxHiII", socket.AF_UNSPEC, 1, index, 1, 0)
    about = attribute(3, f"{name}\0".encode()) + attribute(4, struct.pack("=I", mtu)) + attribute(16, bytes([state]))
    return message(16, fixed + about)


def test_the_state_of_each_interface(namespace: Answered) -> None:
    namespace.kernel.send(link(1, "lo", 0, 65536) + link(2, "eth1", 6, 9000) + link(3, "eth2", 2, 1500))
    namespace.kernel.send(code(DONE, 0))
    asked: Namespace = namespace  # type: ignore[assignment]
    with closing(LinkStates(asked)) as states:
        found = states.read()
    assert found == {"lo": LinkState(False, 65536), "eth1": LinkState(True, 9000), "eth2": LinkState(False, 1500)}
    request = namespace.kernel.recv(1 << 10)
    assert request.endswith(struct.pack("=HHI", 8, 29, 8)), "without counters"
