"""Bonds of the calling thread's namespace: their members, and the driver's hash of addresses and ports."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

BY_PORTS: Final = "layer3+4"
"""The hash policy that ``hash_of`` computes, by its name in ip-link(8)."""
_SHOWN: Final = "/proc/thread-self/net/bonding"
_MEMBER: Final = re.compile(r"^Slave Interface: (\S+)$", re.MULTILINE)
_WORD: Final = 4


def members(bond: str) -> list[str]:
    """Return a bond's interfaces in the driver's order, including those that it does not use.

    Raises OperationFailed if there is no such bond.
    """
    try:
        shown = Path(_SHOWN, bond).read_text(encoding="ascii")
    except FileNotFoundError:
        raise OperationFailed(f"there is no bond {bond}", "see rocelab status") from None
    return _MEMBER.findall(shown)


def hash_of(src: IPv4Address | IPv6Address, dst: IPv4Address | IPv6Address, sport: int, dport: int) -> int:
    """Return the driver's hash of a UDP or TCP flow by the policy layer3+4 (``bond_xmit_hash`` of Linux).

    The hash modulo the number of active members is the index of the member that the bond uses.
    """
    ports = sport.to_bytes(2, "big") + dport.to_bytes(2, "big")
    mixed = _words(ports) ^ _words(src.packed) ^ _words(dst.packed)
    mixed ^= mixed >> 16
    mixed ^= mixed >> 8
    return mixed >> 1


def _words(octets: bytes) -> int:
    """Return the exclusive or of all 32-bit words, in the machine's byte order."""
    found = 0
    for start in range(0, len(octets), _WORD):
        found ^= int.from_bytes(octets[start : start + _WORD], sys.byteorder)
    return found
