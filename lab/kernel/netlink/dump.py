"""What rtnetlink has a list of, read by one request (rtnetlink(7))."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.netlink.nlmsg import BUFFER, DONE, ERROR, HEADER, Attributes, attributes, messages

if TYPE_CHECKING:
    import struct

_DUMP: Final = 0x0001 | 0x0300
"""NLM_F_REQUEST | NLM_F_DUMP."""
_INTERRUPTED: Final = 0x0010
"""NLM_F_DUMP_INTR: the list changed while it was read."""
_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class DumpMessage:
    """One message: the fixed part that begins it, and its attributes by their type."""

    fixed: bytes
    attributes: Attributes


def dump(kind: int, request: struct.Struct, about: bytes = b"") -> list[DumpMessage]:
    """What the calling thread's namespace answers to a request of ``kind`` (RTM_GET*) about everything it has.

    ``request`` is the fixed part of its messages (struct ifinfomsg, struct tcmsg), and ``about`` says in one what is
    asked about where that is not all. OperationFailed when the kernel refuses, or the list changes each time that it
    is read.
    """
    message = HEADER.pack(HEADER.size + request.size, kind, _DUMP, 1, 0) + about.ljust(request.size, b"\0")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        for _ in range(_ATTEMPTS):
            link.send(message)
            answers, whole = _answers(link)
            if whole:
                return [DumpMessage(data[: request.size], attributes(data[request.size :])) for data in answers]
    raise OperationFailed(f"what rtnetlink lists for request {kind} changes all the time", "try again")


def _answers(link: socket.socket) -> tuple[list[bytes], bool]:
    """The contents of all messages, and whether the list did not change meanwhile."""
    found: list[bytes] = []
    whole = True
    while True:
        for message in messages(link.recv(BUFFER)):
            whole = whole and not message.flags & _INTERRUPTED
            if message.refused:
                raise OperationFailed(f"rtnetlink: {os.strerror(message.refused)}")
            if message.kind in {DONE, ERROR}:
                return found, whole
            found.append(message.content)
