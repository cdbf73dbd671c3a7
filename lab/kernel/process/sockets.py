"""Listening sockets of a namespace, from the tables of proc_net(5)."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

_WAITING: Final = {"tcp": "0A", "udp": "07"}
"""State of a waiting socket: TCP_LISTEN, or for UDP TCP_CLOSE, which has no peer (<net/tcp_states.h>)."""


def waits(protocol: Literal["tcp", "udp"], port: int) -> bool:
    """Return whether a socket of the calling thread's namespace waits at ``port``, on IPv4 or IPv6."""
    for family in ("", "6"):
        table = Path("/proc/thread-self/net", protocol + family)
        for line in table.read_text("ascii").splitlines()[1:] if table.exists() else ():
            _, local, _, state = line.split(maxsplit=4)[:4]
            if local.endswith(f":{port:04X}") and state == _WAITING[protocol]:
                return True
    return False
