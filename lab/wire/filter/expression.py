"""What a filter says, as a tree. A condition holds when it does for the frame or for one that VXLAN carries in it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Range: TypeAlias = tuple[int, int]
"""First and last value, both included."""


class Field(Enum):
    """A number that a packet may have, with the greatest value it can take."""

    QPN = ("qpn", 2**24 - 1)
    """BTH.DestQP (IBA vol. 1 section 9.2)."""
    PSN = ("psn", 2**24 - 1)
    OPCODE = ("opcode", 255)
    ANSWER = ("answer", 3)
    """What an acknowledgement's syndrome is: an ``AckKind`` (section 9.7.5.2)."""
    VNI = ("vni", 2**24 - 1)
    """The VXLAN segment (RFC 7348 section 5)."""
    DSCP = ("dscp", 63)
    ECN = ("ecn", 3)
    CONTROL = ("control", 0xFFFF)
    """The opcode of MAC control, where it is that of Pause or PFC (IEEE 802.3 annexes 31B and 31D)."""

    @property
    def greatest(self) -> int:
        """The greatest value."""
        return self.value[1]


class Side(Enum):
    """Which address a host may have in a packet."""

    ANY = "host"
    SOURCE = "src"
    DESTINATION = "dst"


@dataclass(frozen=True, slots=True)
class Within:
    """The packet has ``field``, and its value is in one of ``ranges``; ``!=`` too wants the field to be there."""

    field: Field
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Host:
    """An IP address of the packet is one of ``addresses``."""

    side: Side
    addresses: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """``term`` does not hold."""

    term: Expression


@dataclass(frozen=True, slots=True)
class All:
    """Every one of ``terms`` holds."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """At least one of ``terms`` holds."""

    terms: tuple[Expression, ...]


Expression: TypeAlias = Within | Host | Not | All | Any
