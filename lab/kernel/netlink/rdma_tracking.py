"""The queue pairs of RDMA devices, from the RDMA subsystem's netlink (<rdma/rdma_netlink.h>)."""

from __future__ import annotations

import errno
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from lab.errors import OperationFailed
from lab.kernel.netlink.client import NetlinkClient, netlink_socket
from lab.kernel.netlink.nlmsg import attributes, each_attribute, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NETLINK_RDMA: Final = 20
_NLDEV: Final = 5 << 10
_GET, _QP_GET = _NLDEV | 1, _NLDEV | 10
"""RDMA_NLDEV_CMD_GET and RDMA_NLDEV_CMD_RES_QP_GET."""
_DEV_INDEX, _DEV_NAME, _RES_QP, _LQPN, _RQPN = 1, 2, 19, 21, 22
_TYPE, _STATE, _PID = 26, 27, 28
"""Attributes of enum rdma_nldev_attr."""
_ATTRIBUTE: Final = struct.Struct("=HHI")
_TYPES: Final = {2: "RC", 3: "UC", 4: "UD"}
"""Values of enum ib_qp_type. The management QPs (SMI, GSI) belong to each device itself."""
_STATES: Final = ("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")
"""enum ib_qp_state: IBA vol. 1, 10.3.1."""
_PATIENCE: Final = 1.0


@dataclass(frozen=True, slots=True)
class QueuePair:
    """A queue pair as the kernel reports it."""

    qpn: int
    kind: str
    """RC, UC or UD."""
    state: str
    """RESET, INIT, RTR, RTS, SQD, SQE or ERR (IBA vol. 1, 10.3.1)."""
    remote: int | None
    """QPN of the remote QP; None for UD, which has many."""
    pid: int
    """Process that owns it; 0 for the kernel."""


class Tracking:
    """Reads devices and queue pairs over one open socket."""

    def __init__(self) -> None:
        """Open the socket. Raises OperationFailed without RDMA."""
        try:
            self._client = NetlinkClient(netlink_socket(_NETLINK_RDMA))
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise OperationFailed(
                f"the kernel's RDMA netlink cannot be opened: {reason}", "rocelab doctor"
            ) from error
        self.socket = self._client.socket
        self.socket.settimeout(_PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def devices(self) -> dict[str, int]:
        """Return the index of each device, by name."""
        told = [attributes(content) for content in self._dump(_GET)]
        return {text(each[_DEV_NAME]): _number(each[_DEV_INDEX]) for each in told}

    def queue_pairs(self, index: int) -> list[QueuePair]:
        """Return the queue pairs of a device, without management QPs. Raises OperationFailed if it is gone."""
        return list(read_queue_pairs(self._dump(_QP_GET, _ATTRIBUTE.pack(_ATTRIBUTE.size, _DEV_INDEX, index))))

    def close(self) -> None:
        """Close the socket."""
        self._client.close()

    def _dump(self, command: int, content: bytes = b"") -> list[bytes]:
        """Return the content of each message of an answer. Raises OperationFailed."""
        try:
            return self._client.dump(command, content)
        except OSError as error:
            reason = os.strerror(error.errno or errno.ETIMEDOUT)
            raise OperationFailed(f"the kernel does not list its RDMA resources: {reason}") from error


def read_queue_pairs(contents: Iterable[bytes]) -> Iterator[QueuePair]:
    """Yield the queue pairs in answers to RDMA_NLDEV_CMD_RES_QP_GET, without management QPs."""
    for content in contents:
        for _, entry in each_attribute(attributes(content).get(_RES_QP, b"")):
            told = attributes(entry)
            kind = _TYPES.get(told[_TYPE][0]) if _TYPE in told else None
            if kind is not None:
                remote = _number(told[_RQPN]) if _RQPN in told else None
                state = _STATES[told[_STATE][0]]
                yield QueuePair(
                    qpn=_number(told[_LQPN]),
                    kind=kind,
                    state=state,
                    remote=remote,
                    pid=_number(told.get(_PID, bytes(4))),
                )


def program_of(pid: int) -> str:
    """Return the name of a process; "" if it is gone, or for pid 0, the kernel."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(value: bytes) -> int:
    return int.from_bytes(value[:4], "little")
