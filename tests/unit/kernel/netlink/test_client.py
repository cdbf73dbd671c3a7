"""Requests and answers of the netlink client, against a kernel that a socket pair stands in for."""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from lab.kernel.netlink.client import NetlinkClient
from lab.kernel.netlink.nlmsg import DONE, ERROR, HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = 30
CHANGED = 0x10
"""NLM_F_DUMP_INTR."""


class Kernel:
    """The far end: answers are queued before the request that they answer."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def answer(self, sequence: int, *contents: bytes, flags: int = 0, code: int = 0, end: int = DONE) -> None:
        """Queue one list: a datagram for each content, and one for its end."""
        for content in contents:
            self._link.send(HEADER.pack(HEADER.size + len(content), KIND, flags, sequence, 0) + content)
        self._link.send(HEADER.pack(HEADER.size + 4, end, 0, sequence, 0) + struct.pack("=i", -code))

    def requests(self, count: int) -> list[tuple[int, int, int, bytes]]:
        """Kind, flags, sequence number and content of what was sent."""
        sent = [self._link.recv(1000) for _ in range(count)]
        return [(*HEADER.unpack_from(each)[1:4], each[HEADER.size :]) for each in sent]


@pytest.fixture
def ends() -> Iterator[tuple[NetlinkClient, Kernel]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(5)
    theirs.settimeout(5)
    with theirs, NetlinkClient(ours) as client:
        yield client, Kernel(theirs)


def test_a_list_is_requested_and_returned_whole(ends: tuple[NetlinkClient, Kernel]) -> None:
    client, kernel = ends
    kernel.answer(1, b"one!", b"two!")
    assert client.dump(KIND, b"which") == [b"one!", b"two!"]
    assert kernel.requests(1) == [(KIND, 0x301, 1, b"which")]


def test_a_list_that_changed_is_requested_again(ends: tuple[NetlinkClient, Kernel]) -> None:
    client, kernel = ends
    kernel.answer(1, b"old!", flags=CHANGED)
    kernel.answer(2, b"new!")
    assert client.dump(KIND) == [b"new!"]
    assert [sequence for _, _, sequence, _ in kernel.requests(2)] == [1, 2]


def test_a_list_that_always_changes_is_an_error(ends: tuple[NetlinkClient, Kernel]) -> None:
    client, kernel = ends
    for sequence in range(1, 11):
        kernel.answer(sequence, b"old!", flags=CHANGED)
    with pytest.raises(OSError, match=os.strerror(errno.EAGAIN)):
        client.dump(KIND)


def test_answers_to_a_request_that_timed_out_are_not_those_to_the_next(ends: tuple[NetlinkClient, Kernel]) -> None:
    client, kernel = ends
    client.socket.settimeout(0.01)
    with pytest.raises(TimeoutError):
        client.dump(KIND)
    client.socket.settimeout(5)
    kernel.answer(1, b"late")
    kernel.answer(2, b"mine")
    assert client.dump(KIND) == [b"mine"]


@pytest.mark.parametrize("end", [DONE, ERROR], ids=["end of a list", "refusal"])
def test_a_refusal_has_the_kernels_error_number(ends: tuple[NetlinkClient, Kernel], end: int) -> None:
    client, kernel = ends
    kernel.answer(1, code=errno.ENODEV, end=end)
    with pytest.raises(OSError, match=os.strerror(errno.ENODEV)) as refused:
        client.dump(KIND)
    assert refused.value.errno == errno.ENODEV


def test_a_request_waits_for_its_acknowledgement(ends: tuple[NetlinkClient, Kernel]) -> None:
    client, kernel = ends
    kernel.answer(1, end=ERROR)
    client.execute(KIND, b"do")
    assert kernel.requests(1) == [(KIND, 0x5, 1, b"do")]
    kernel.answer(2, end=ERROR, code=errno.EPERM)
    with pytest.raises(PermissionError):
        client.execute(KIND, b"do")
