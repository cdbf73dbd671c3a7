"""Format numbers from packets: addresses, MAC addresses, VNIs and classes."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Final

from lab.analysis.pfc.pause_intervals import ALL_CLASSES

if TYPE_CHECKING:
    from collections.abc import Sequence

DIRECTIONS: Final = ("", "in", "out")
"""Indexed by ``lab.wire.pcapng.Direction``."""


def address(words: Sequence[int]) -> str:
    """Return the text of an address of four words; empty if there was no IP."""
    found = IPv6Address(b"".join(word.to_bytes(4) for word in words))
    return "" if int(found) == 0 else str(found.ipv4_mapped or found)


def mac(number: int) -> str:
    """Return the text of a MAC address."""
    return number.to_bytes(6).hex(":")


def vni_or_none(vni: int) -> int | None:
    """Return the VNI, or None for -1, outside VXLAN."""
    return None if vni < 0 else vni


def class_or_none(cls: int) -> int | None:
    """Return the class, or None for that of IEEE 802.3 Pause."""
    return None if cls == ALL_CLASSES else cls
