"""Ethernet multicast groups that interfaces have joined: list and leave them."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from pathlib import Path
from typing import Final, TypeAlias

_LISTED: Final = Path("/proc/thread-self/net/dev_mcast")
_SIOCDELMULTI: Final = 0x8932
"""Leave a group of an interface (<linux/sockios.h>)."""

LinkGroup: TypeAlias = tuple[str, str]
"""An interface, and the group's address in hexadecimal digits."""


def joined_groups() -> frozenset[LinkGroup]:
    """Return the groups that programs have joined in the calling thread's namespace, by interface.

    Groups that the kernel itself joined, as for IPv6, are left out: they have no static use (packet(7)).
    """
    lines = [line.split() for line in _LISTED.read_text(encoding="ascii").splitlines()]
    return frozenset((name, group) for _, name, _, static, group in lines if int(static))


def leave(groups: frozenset[LinkGroup]) -> None:
    """Leave groups in the calling thread's namespace, except those whose interface or membership is gone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for interface, group in sorted(groups):
            request = struct.pack("16sH6s8x", interface.encode(), socket.AF_UNSPEC, bytes.fromhex(group))
            with contextlib.suppress(OSError):
                fcntl.ioctl(control, _SIOCDELMULTI, request)
