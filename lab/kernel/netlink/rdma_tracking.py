"""What the RDMA subsystem keeps account of, by its netlink: the queue pairs of a device (<rdma/rdma_netlink.h>)."""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from lab.errors import OperationFailed
from lab.kernel.netlink.nlmsg import BUFFER, DONE, ERROR, HEADER, attributes, each_attribute, messages, text

if TYPE_CHECKING:
    from collections.abc import Iterator

_NETLINK_RDMA: Final = 20
_NLDEV: Final = 5 << 10
_GET, _QP_GET = _NLDEV | 1, _NLDEV | 10
"""RDMA_NLDEV_CMD_GET and RDMA_NLDEV_CMD_RES_QP_GET."""
_REQUEST_DUMP: Final = 0x0001 | 0x0300
_DEV_INDEX, _DEV_NAME, _RES_QP, _LQPN, _RQPN = 1, 2, 19, 21, 22
_TYPE, _STATE, _PID = 26, 27, 28
"""Of enum rdma_nldev_attr."""
_ATTRIBUTE: Final = struct.Struct("=HHI")
_TYPES: Final = {2: "RC", 3: "UC", 4: "UD"}
"""Of enum ib_qp_type; those of management (SMI, GSI) are each device's own."""
_STATES: Final = ("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")
"""enum ib_qp_state: IBA vol. 1, 10.3.1."""
_PATIENCE: Final = 1.0


@dataclass(frozen=True, slots=True)
class QueuePair:
    """A queue pair as the kernel tells of it."""

    qpn: int
    kind: str
    """RC, UC or UD."""
    state: str
    """RESET, INIT, RTR, RTS, SQD, SQE or ERR (IBA vol. 1, 10.3.1)."""
    remote: int | None
    """The QPN at the far end; None of a datagram's, which has many."""
    pid: int
    """Whose it is; 0 of the kernel's own."""


class Tracking:
    """Asks what there is; a socket that stays open."""

    def __init__(self) -> None:
        """OperationFailed where there is no RDMA."""
        try:
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_RDMA)
        except OSError as error:
            raise OperationFailed(
                f"RDMA cannot be asked: {os.strerror(error.errno or 0)}", "rocelab doctor"
            ) from error
        self.socket.settimeout(_PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def devices(self) -> dict[str, int]:
        """The index of each device, by its name."""
        told = [attributes(content) for content in self._dump(_GET)]
        return {text(each[_DEV_NAME]): _number(each[_DEV_INDEX]) for each in told}

    def queue_pairs(self, index: int) -> list[QueuePair]:
        """The queue pairs of a device that programs have; OperationFailed when it is gone."""
        return list(read_queue_pairs(self._dump(_QP_GET, _ATTRIBUTE.pack(_ATTRIBUTE.size, _DEV_INDEX, index))))

    def close(self) -> None:
        """Ask no more."""
        self.socket.close()

    def _dump(self, command: int, asked: bytes = b"") -> Iterator[bytes]:
        """The content of each message of an answer."""
        try:
            self.socket.send(HEADER.pack(HEADER.size + len(asked), command, _REQUEST_DUMP, 0, 0) + asked)
            while True:
                for message in messages(self.socket.recv(BUFFER)):
                    if message.refused:
                        raise OSError(message.refused, os.strerror(message.refused))
                    if message.kind in {DONE, ERROR}:
                        return
                    yield message.content
        except OSError as error:
            said = os.strerror(error.errno or errno.ETIMEDOUT)
            raise OperationFailed(f"RDMA does not say what it has: {said}") from error


def read_queue_pairs(contents: Iterator[bytes]) -> Iterator[QueuePair]:
    """What answers to RDMA_NLDEV_CMD_RES_QP_GET have, less the queue pairs of management."""
    for content in contents:
        for _, entry in each_attribute(attributes(content).get(_RES_QP, b"")):
            told = attributes(entry)
            kind = _TYPES.get(told[_TYPE][0]) if _TYPE in told else None
            if kind is not None:
                remote = _number(told[_RQPN]) if _RQPN in told else None
                state = _STATES[told[_STATE][0]]
                yield QueuePair(_number(told[_LQPN]), kind, state, remote, _number(told.get(_PID, bytes(4))))


def program_of(pid: int) -> str:
    """The name of a process; "" when it is gone, or the kernel's."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(value: bytes) -> int:
    return int.from_bytes(value[:4], "little")
