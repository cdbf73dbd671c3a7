"""The tables of iptables-legacy and ip6tables-legacy, as the kernel returns them by getsockopt(2).

nftables does not show them, and the programs that print them are seldom installed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES: Final = {socket.AF_INET: "ip_tables_names", socket.AF_INET6: "ip6_tables_names"}
"""The file of /proc with the tables of a namespace, by address family. The first use creates a table."""
HOOKS: Final = ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING")
"""The names of built-in chains by hook (<linux/netfilter.h>)."""
_LEVEL: Final = {socket.AF_INET: socket.IPPROTO_IP, socket.AF_INET6: socket.IPPROTO_IPV6}
_GET_INFO: Final = 64
"""IPT_SO_GET_INFO of <linux/netfilter_ipv4/ip_tables.h>, and that of IPv6."""
_GET_ENTRIES: Final = 65
_NAME: Final = 32
_INFO: Final = struct.Struct("=32sI5I5III")
"""struct ipt_getinfo: name, valid hooks, first entry and policy of each hook, number of entries, size in bytes."""
_ENTRIES: Final = struct.Struct("=32sI4x")
"""struct ipt_get_entries before its entries."""
_TRIES: Final = 5
"""A table that changes between the two requests is read again."""

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class LegacyTable:
    """A table: its entries as the kernel stores them, with the offsets of its built-in chains."""

    family: socket.AddressFamily
    name: str
    first: dict[str, int]
    """The offset of the first entry of each built-in chain, in bytes."""
    policy: dict[str, int]
    """The offset of the entry with the chain's policy, its last one."""
    entries: bytes


def read_legacy_tables_here() -> Iterator[LegacyTable]:
    """Yield the tables of the calling thread's namespace; none before the first use. Raises OSError."""
    for family, file in NAMES.items():
        try:
            with open(f"/proc/thread-self/net/{file}", encoding="ascii") as listed:  # noqa: PTH123 - of each node
                names = listed.read().split()
        except OSError:  # the kernel has no such tables
            continue
        if names:
            with contextlib.closing(socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)) as asking:
                for name in names:
                    yield _table(asking, family, name)


def _table(asking: socket.socket, family: socket.AddressFamily, name: str) -> LegacyTable:
    for _ in range(_TRIES):
        info = _INFO.unpack(_answer(asking, _LEVEL[family], _GET_INFO, name.encode().ljust(_INFO.size, b"\0")))
        _, valid, *offsets, _, size = info
        request = _ENTRIES.pack(name.encode(), size).ljust(_ENTRIES.size + size, b"\0")
        try:
            entries = _answer(asking, _LEVEL[family], _GET_ENTRIES, request)[_ENTRIES.size :]
        except OSError as error:
            if error.errno == errno.EAGAIN:
                continue
            raise
        hooks = [number for number in range(len(HOOKS)) if valid >> number & 1]
        return LegacyTable(
            family=family, name=name, first={HOOKS[each]: offsets[each] for each in hooks},
            policy={HOOKS[each]: offsets[len(HOOKS) + each] for each in hooks}, entries=entries,
        )  # fmt: skip
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), name)


def _answer(asking: socket.socket, level: int, option: int, request: bytes) -> bytes:
    """Return what the kernel writes over a request. Python's getsockopt passes none."""
    buffer = ctypes.create_string_buffer(request, len(request))
    size = ctypes.c_uint32(len(request))
    if _libc.getsockopt(asking.fileno(), level, option, buffer, ctypes.byref(size)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "tables of iptables-legacy")
    return buffer.raw[: size.value]
