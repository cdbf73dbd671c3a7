"""rtnetlink in batches: many requests in few system calls; each is acknowledged, and each failure has a name.

pyroute2 encodes the messages. It is not used to send them, because it sends one request at a time, which is slow.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel.netlink.client import ACKNOWLEDGE, BUFFER, REQUEST, netlink_socket
from lab.kernel.netlink.nlmsg import ERROR, HEADER, messages, text

if TYPE_CHECKING:
    from lab.kernel.netlink.nlmsg import NetlinkMessage

Attributes: TypeAlias = "list[tuple[str, Any]]"

_SEQUENCE: Final = struct.Struct("=I")
_SEQUENCE_AT: Final = 8
_INDEX: Final = struct.Struct("=i")
_INDEX_AT: Final = 20
"""Offset of the interface index in both struct ifinfomsg and struct tcmsg, after the header."""
_REQUEST_ACK: Final = REQUEST | ACKNOWLEDGE
CREATE: Final = 0x0400 | 0x0200
"""NLM_F_CREATE | NLM_F_EXCL: create the object, and fail if it exists."""
REPLACE: Final = 0x0400 | 0x0100
"""NLM_F_CREATE | NLM_F_REPLACE: create the object, or replace the existing one."""
CHANGE: Final = 0
"""Neither flag: change an existing object, and fail if there is none."""
_NETLINK_EXT_ACK: Final = 11
_NETLINK_CAP_ACK: Final = 10
_SOL_NETLINK: Final = 270
_CAPPED_TLVS: Final = 0x100 | 0x200
_ATTR_MSG: Final = 1
_LACKING: Final = {errno.EOPNOTSUPP, errno.EAFNOSUPPORT}
_UNKNOWN_KIND: Final = ("Specified qdisc kind is unknown", "TC classifier not found", "Failed to load TC action")
"""The kernel's texts for ENOENT if it lacks the kind (net/sched). Otherwise ENOENT means that an object is gone."""
_CHUNK: Final = 128
_RECEIVE_BUFFER: Final = 1 << 20


def encode(message: Any, kind: int, flags: int = 0) -> bytes:
    """Return a pyroute2 message as a request of type ``kind`` (RTM_*)."""
    message["header"]["type"] = kind
    message["header"]["flags"] = _REQUEST_ACK | flags
    message.encode()
    return bytes(message.data)


def enclose(content: bytes, kind: int, flags: int = 0) -> bytes:
    """Return encoded content as a request of type ``kind`` (RTM_*)."""
    return HEADER.pack(HEADER.size + len(content), kind, _REQUEST_ACK | flags, 0, 0) + content


@dataclass
class NetlinkBatch:
    """Requests for one namespace, each with a description for errors. ``commit`` sends them all."""

    _requests: list[tuple[bytes, str]] = field(default_factory=list)

    def add(self, request: bytes, what: str) -> None:
        """Append one encoded request."""
        self._append(bytearray(request), what)

    def add_for(self, index: int, template: bytes, what: str) -> None:
        """Append a link or qdisc request for the interface ``index``, made from an encoded template.

        pyroute2 takes 0.1 ms to encode a message. A large fabric has thousands that differ only in the index.
        """
        request = bytearray(template)
        _INDEX.pack_into(request, _INDEX_AT, index)
        self._append(request, what)

    def _append(self, request: bytearray, what: str) -> None:
        _SEQUENCE.pack_into(request, _SEQUENCE_AT, len(self._requests))
        self._requests.append((bytes(request), what))

    def __len__(self) -> int:
        return len(self._requests)

    def commit(self) -> None:
        """Send all requests from the calling thread's namespace. OperationFailed names the first that failed."""
        with netlink_socket() as link:
            link.setsockopt(_SOL_NETLINK, _NETLINK_EXT_ACK, 1)
            link.setsockopt(_SOL_NETLINK, _NETLINK_CAP_ACK, 1)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            link.bind((0, 0))
            for start in range(0, len(self._requests), _CHUNK):
                chunk = self._requests[start : start + _CHUNK]
                link.send(b"".join(request for request, _ in chunk))
                self._collect(link, len(chunk))
        self._requests.clear()

    def _collect(self, link: socket.socket, expected: int) -> None:
        failures: dict[int, tuple[int, str]] = {}
        while expected:
            for message in messages(link.recv(BUFFER)):
                if message.kind == ERROR:
                    expected -= 1
                    if message.refused:
                        failures[message.sequence] = message.refused, _explanation(message)
        if failures:
            first = min(failures)
            raise _failure(self._requests[first][1], *failures[first])


def _explanation(message: NetlinkMessage) -> str:
    """Return the kernel's text in an extended acknowledgement, or ""."""
    explained = message.flags & _CAPPED_TLVS == _CAPPED_TLVS
    return text(message.remarks.get(_ATTR_MSG, b"")) if explained else ""


def _failure(what: str, code: int, said: str) -> OperationFailed | EnvironmentLacks:
    reason = said or os.strerror(code)
    if code == errno.EPERM:
        return EnvironmentLacks(f"{what}: {reason}", "run as root")
    if code in _LACKING or (code == errno.ENOENT and said.startswith(_UNKNOWN_KIND)):
        return EnvironmentLacks(f"{what}: {reason}", "this kernel lacks it; see rocelab doctor, or use --vm")
    if code in {errno.ENOENT, errno.ENODEV}:
        return OperationFailed(f"{what}: {reason}", "it was removed in the meantime; see rocelab status")
    return OperationFailed(f"{what}: {reason}")
