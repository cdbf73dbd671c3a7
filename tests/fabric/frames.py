"""Frames that tests send, and the way they send them."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.wire.craft import build
from lab.wire.headers import Reth
from lab.wire.opcodes import Opcode
from tests.inside import entered

if TYPE_CHECKING:
    from lab.kernel.process.netns import Namespace

THERE: Final = build.Path("02:00:00:00:00:01", "02:00:00:00:00:02", "10.9.0.1", "10.9.0.2")


def send(namespace: Namespace, *frames: bytes) -> None:
    """Out of eth1 of ``namespace``."""
    with entered(namespace):
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with raw:
        for frame in frames:
            raw.sendto(frame, ("eth1", 0))


def listening(namespace: Namespace) -> bool:
    """Whether a packet socket in it is bound to an interface and runs (net/packet/af_packet.c: Iface, R)."""
    with entered(namespace):
        rows = Path("/proc/thread-self/net/packet").read_text(encoding="ascii").splitlines()[1:]
    return any(row.split()[4] != "0" and row.split()[5] == "1" for row in rows)


def numbered(number: int, size: int = 60) -> bytes:
    """A frame of a protocol for local experiments (IEEE 802 section 9.2.4), so that no stack answers."""
    head = bytes.fromhex("02000000000202000000000188b5") + struct.pack("!I", number)
    return head + bytes(size - len(head))


def write(qpn: int, psn: int, size: int = 0) -> bytes:
    """An RDMA WRITE of ``size`` zeros from ``THERE``."""
    message = build.RoceMessage(
        Opcode.RC_RDMA_WRITE_ONLY, qpn, psn, reth=Reth(va=0x1000, rkey=0x22, dmalen=size), payload=bytes(size)
    )
    return build.rocev2(THERE, message)
