"""Attach a classic BPF program to a socket: the kernel then delivers only the packets that it accepts."""

from __future__ import annotations

import ctypes
import socket
from struct import Struct, pack
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.wire.filter.assembler import Instruction

_SO_ATTACH_FILTER: Final = 26  # <asm-generic/socket.h>; the socket module lacks it
_INSTRUCTION: Final = Struct("=HBBI")  # struct sock_filter


def attach_filter(receiver: socket.socket, program: Sequence[Instruction]) -> None:
    """Attach ``program`` in place of the socket's filter. Raises OSError if the kernel rejects it."""
    octets = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*instruction) for instruction in program))
    described = pack("HP", len(program), ctypes.addressof(octets))  # struct sock_fprog
    receiver.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)
