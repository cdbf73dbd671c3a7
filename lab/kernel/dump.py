"""What rtnetlink has a list of, read by one request: messages, and their attributes (rtnetlink(7))."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from typing import Final, TypeAlias

from lab.errors import OperationFailed

Attributes: TypeAlias = dict[int, bytes]

_HEADER: Final = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_ATTRIBUTE: Final = struct.Struct("=HH")  # nlattr: length, type
_TYPE: Final = 0x3FFF
"""An attribute's type without its flags (NLA_TYPE_MASK)."""
_DUMP: Final = 0x0001 | 0x0300
"""NLM_F_REQUEST | NLM_F_DUMP."""
_INTERRUPTED: Final = 0x0010
"""NLM_F_DUMP_INTR: the list changed while it was read."""
_CODE: Final = struct.Struct("=i")
_ERROR: Final = 2
_DONE: Final = 3
_ATTEMPTS: Final = 10
_BUFFER: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Listed:
    """One message: the fixed part that begins it, and its attributes by their type."""

    fixed: bytes
    attributes: Attributes


def dump(kind: int, request: struct.Struct, about: bytes = b"") -> list[Listed]:
    """What the calling thread's namespace answers to a request of ``kind`` (RTM_GET*) about everything it has.

    ``request`` is the fixed part of its messages (struct ifinfomsg, struct tcmsg), and ``about`` says in one what is
    asked about where that is not all. OperationFailed when the kernel refuses, or the list changes each time that it
    is read.
    """
    message = _HEADER.pack(_HEADER.size + request.size, kind, _DUMP, 1, 0) + about.ljust(request.size, b"\0")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        for _ in range(_ATTEMPTS):
            link.send(message)
            answers, whole = _answers(link)
            if whole:
                return [Listed(data[: request.size], attributes(data[request.size :])) for data in answers]
    raise OperationFailed(f"what rtnetlink lists for request {kind} changes all the time", "try again")


def attributes(data: bytes) -> Attributes:
    """The attributes in ``data``; nested ones are read from the value of theirs."""
    found = {}
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        found[kind & _TYPE] = data[_ATTRIBUTE.size : length]
        data = data[_aligned(max(length, _ATTRIBUTE.size)) :]
    return found


def text(value: bytes) -> str:
    """A string as the kernel sends it."""
    return value.rstrip(b"\0").decode(errors="replace")


def _answers(link: socket.socket) -> tuple[list[bytes], bool]:
    """The contents of all messages, and whether the list did not change meanwhile."""
    found: list[bytes] = []
    whole = True
    while True:
        data = link.recv(_BUFFER)
        while len(data) >= _HEADER.size:
            length, kind, flags, _, _ = _HEADER.unpack_from(data)
            content = data[_HEADER.size : length]
            whole = whole and not flags & _INTERRUPTED
            if kind == _ERROR and (code := -_CODE.unpack_from(content)[0]):
                raise OperationFailed(f"rtnetlink: {os.strerror(code)}")
            if kind in {_DONE, _ERROR}:
                return found, whole
            found.append(content)
            data = data[_aligned(length) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3
