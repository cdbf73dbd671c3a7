"""The netlink client: sends requests over a socket and reads the answers (netlink(7)).

All families use it: rtnetlink, sock_diag and RDMA. A refusal raises ``OSError`` with the kernel's error number.
Callers turn it into an error that names the object.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from lab.errors import OperationFailed
from lab.kernel.netlink.nlmsg import DONE, ERROR, HEADER, Attributes, attributes, messages

if TYPE_CHECKING:
    import struct
    from collections.abc import Iterator

    from lab.kernel.netlink.nlmsg import NetlinkMessage

BUFFER: Final = 1 << 16
"""Bytes of one read: the largest amount that the kernel sends at once."""
REQUEST: Final = 0x0001
ACKNOWLEDGE: Final = 0x0004
_DUMP: Final = 0x0300
"""NLM_F_REQUEST, NLM_F_ACK and NLM_F_DUMP of <linux/netlink.h>."""
_INTERRUPTED: Final = 0x0010
"""NLM_F_DUMP_INTR: the list changed while it was read."""
_ATTEMPTS: Final = 10


def netlink_socket(protocol: int = socket.NETLINK_ROUTE) -> socket.socket:
    """Return a socket of a netlink family in the calling thread's namespace. OSError if the kernel lacks it."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)


class NetlinkClient:
    """Sends requests over one open socket, one at a time, and returns their answers."""

    def __init__(self, link: socket.socket) -> None:
        """Use ``link``, a socket from ``netlink_socket``. The client closes it."""
        self.socket = link
        self._sequences = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def dump(self, kind: int, content: bytes = b"") -> list[bytes]:
        """Return the contents of all messages that answer a dump request.

        A list that changed while the kernel sent it is requested again. Raises OSError if the kernel refuses, if the
        socket times out, or (EAGAIN) if the list changes every time.
        """
        for _ in range(_ATTEMPTS):
            answers = list(self._answers(self._send(kind, _DUMP, content)))
            if not any(message.flags & _INTERRUPTED for message in answers):
                return [message.content for message in answers if message.kind not in {DONE, ERROR}]
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def execute(self, kind: int, content: bytes) -> None:
        """Send a request that the kernel acknowledges. Raises OSError if the kernel refuses."""
        for _ in self._answers(self._send(kind, ACKNOWLEDGE, content)):
            pass

    def _send(self, kind: int, flags: int, content: bytes) -> int:
        """Send one request and return its sequence number."""
        sequence = next(self._sequences)
        self.socket.send(HEADER.pack(HEADER.size + len(content), kind, REQUEST | flags, sequence, 0) + content)
        return sequence

    def _answers(self, sequence: int) -> Iterator[NetlinkMessage]:
        """Yield the messages that answer a request, up to its end. Skips answers to requests that timed out."""
        while True:
            for message in messages(self.socket.recv(BUFFER)):
                if message.sequence != sequence:
                    continue
                if message.refused:
                    raise OSError(message.refused, os.strerror(message.refused))
                yield message
                if message.kind in {DONE, ERROR}:
                    return


@dataclass(frozen=True, slots=True)
class DumpMessage:
    """One message of a dump: its fixed header, and its attributes by type."""

    fixed: bytes
    attributes: Attributes


def dump(kind: int, request: struct.Struct, about: bytes = b"") -> list[DumpMessage]:
    """Return the answer of the calling thread's namespace to an rtnetlink dump request (RTM_GET*).

    ``request`` is the fixed header of its messages (struct ifinfomsg, struct tcmsg). ``about`` is a header that
    filters the list. Raises OperationFailed if the kernel refuses, or if the list changes on every read.
    """
    try:
        with NetlinkClient(netlink_socket()) as client:
            answers = client.dump(kind, about.ljust(request.size, b"\0"))
    except OSError as error:
        if error.errno == errno.EAGAIN:
            raise OperationFailed(
                f"the list of rtnetlink request {kind} changes while it is read", "try again"
            ) from error
        raise OperationFailed(f"rtnetlink: {error.strerror}") from error
    return [DumpMessage(data[: request.size], attributes(data[request.size :])) for data in answers]
