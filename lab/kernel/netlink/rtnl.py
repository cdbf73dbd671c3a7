"""rtnetlink in batches: many requests in few system calls, each acknowledged, each failure named.

pyroute2 encodes the messages; the socket is ours because one request at a time is what makes pyroute2 slow.
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
"""Where both struct ifinfomsg and struct tcmsg have the interface's index."""
_REQUEST_ACK: Final = REQUEST | ACKNOWLEDGE
CREATE: Final = 0x0400 | 0x0200
"""NLM_F_CREATE | NLM_F_EXCL: make it, and fail if it is there."""
REPLACE: Final = 0x0400 | 0x0100
"""NLM_F_CREATE | NLM_F_REPLACE: make it, in place of what is there."""
CHANGE: Final = 0
"""Neither: alter what is there, and fail where nothing is."""
_NETLINK_EXT_ACK: Final = 11
_NETLINK_CAP_ACK: Final = 10
_SOL_NETLINK: Final = 270
_CAPPED_TLVS: Final = 0x100 | 0x200
_ATTR_MSG: Final = 1
_LACKING: Final = {errno.EOPNOTSUPP, errno.EAFNOSUPPORT}
_UNKNOWN_KIND: Final = ("Specified qdisc kind is unknown", "TC classifier not found", "Failed to load TC action")
"""What the kernel says with ENOENT of a kind that it does not have (net/sched); else it is an object that is gone."""
_CHUNK: Final = 128
_RECEIVE_BUFFER: Final = 1 << 20


def encode(message: Any, kind: int, flags: int = 0) -> bytes:
    """One pyroute2 message as a request of type ``kind`` (RTM_*)."""
    message["header"]["type"] = kind
    message["header"]["flags"] = _REQUEST_ACK | flags
    message.encode()
    return bytes(message.data)


def enclose(content: bytes, kind: int, flags: int = 0) -> bytes:
    """A message whose content is bytes already, as a request of type ``kind`` (RTM_*)."""
    return HEADER.pack(HEADER.size + len(content), kind, _REQUEST_ACK | flags, 0, 0) + content


@dataclass
class NetlinkBatch:
    """Requests gathered for one namespace, each with words that name it in an error; ``commit`` sends them all."""

    _requests: list[tuple[bytes, str]] = field(default_factory=list)

    def add(self, request: bytes, what: str) -> None:
        """Append one encoded request."""
        self._append(bytearray(request), what)

    def add_for(self, index: int, template: bytes, what: str) -> None:
        """Append a link or qdisc request that was encoded once, for the interface ``index`` this time.

        pyroute2 takes 0.1 ms to encode a message, and a big fabric has thousands that differ in this alone.
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
        """Send all requests from the calling thread's namespace; OperationFailed names the first that failed."""
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
    """The kernel's own words from an extended acknowledgement, or nothing."""
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
