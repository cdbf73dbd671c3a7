"""Answers to a request for counters: those of each interface, and the kernel's refusals."""

from __future__ import annotations

import errno
import os
import socket
import struct
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lab.kernel.netlink.link_stats import FIELDS, LinkStats
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
