"""Ethernet frames as links that are not Ethernet would have carried them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MAC = bytes.fromhex("020000000002")


def cooked(frame: bytes) -> bytes:
    """LINKTYPE_LINUX_SLL: sent by us, ARPHRD_ETHER, six octets of address, padded to eight, protocol."""
    return bytes.fromhex("000400010006") + MAC + bytes(2) + frame[12:]


def cooked2(frame: bytes) -> bytes:
    """LINKTYPE_LINUX_SLL2: protocol, reserved, interface 7, ARPHRD_ETHER, to us, six octets of address."""
    return frame[12:14] + bytes.fromhex("0000000000070001") + b"\0\x06" + MAC + bytes(2) + frame[14:]


def erf(frame: bytes) -> bytes:
    """LINKTYPE_ERF of type Ethernet with one extension header, and two octets of padding before the frame."""
    size = 16 + 8 + 2 + len(frame)
    head = bytes(8) + bytes([0x82, 4]) + size.to_bytes(2) + bytes(2) + len(frame).to_bytes(2)
    return head + bytes([5]) + bytes(7) + bytes(2) + frame


LINKS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "cooked": (113, cooked),
    "cooked 2": (276, cooked2),
    "raw": (101, lambda frame: frame[14:]),
    "loopback": (0, lambda frame: (30 if frame[12:14] == b"\x86\xdd" else 2).to_bytes(4, "little") + frame[14:]),
    "ERF": (197, erf),
}
