"""Bonds of the calling thread's namespace: members in the driver's order, and its hash of addresses and ports."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

BY_PORTS: Final = "layer3+4"
"""The policy that ``hash_of`` is of, as ip-link(8) calls it."""
_SHOWN: Final = "/proc/thread-self/net/bonding"
_MEMBER: Final = re.compile(r"^Slave Interface: (\S+)$", re.MULTILINE)
_WORD: Final = 4


def members(bond: str) -> list[str]:
    """A bond's interfaces in the order in which the driver counts them, those that it does not use among them.

    OperationFailed when there is no such bond.
    """
    try:
        shown = Path(_SHOWN, bond).read_text(encoding="ascii")
    except FileNotFoundError:
        raise OperationFailed(f"there is no bond {bond}", "see rocelab status") from None
    return _MEMBER.findall(shown)


def hash_of(src: IPv4Address | IPv6Address, dst: IPv4Address | IPv6Address, sport: int, dport: int) -> int:
    """The driver's hash of UDP or TCP by the policy layer3+4 (``bond_xmit_hash`` of Linux).

    Of the members that a bond uses it takes the one with this number, modulo how many they are.
    """
    ports = sport.to_bytes(2, "big") + dport.to_bytes(2, "big")
    mixed = _words(ports) ^ _words(src.packed) ^ _words(dst.packed)
    mixed ^= mixed >> 16
    mixed ^= mixed >> 8
    return mixed >> 1


def _words(octets: bytes) -> int:
    """All words of 32 bits, in the machine's own order, by exclusive or."""
    found = 0
    for start in range(0, len(octets), _WORD):
        found ^= int.from_bytes(octets[start : start + _WORD], sys.byteorder)
    return found
