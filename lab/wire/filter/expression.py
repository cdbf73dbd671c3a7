"""What a filter says, as a tree. A condition holds when it does for the frame or for one that VXLAN carries in it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network
Range: TypeAlias = tuple[int, int]
"""First and last value, both included."""


ICRC_NAMES: Final = ("ok", "bad", "unknown")
"""What came of checking an ICRC, by the values of ``Field.ICRC``; unknown where a packet was not captured whole."""


class FilterField(Enum):
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

    TTL = ("ttl", 255)
    """IPv4's Time to Live, IPv6's Hop Limit."""
    SPORT = ("sport", 0xFFFF)
    DPORT = ("dport", 0xFFFF)
    TRANSPORT = ("transport", 255)
    """The protocol that has the ports: 6 is TCP, 17 UDP."""
    SVLAN = ("svlan", 4095)
    """The VLAN of the first tag, where there are several."""
    VLAN = ("vlan", 4095)
    """The VLAN of the innermost tag (IEEE 802.1Q clause 9.6)."""
    PCP = ("pcp", 7)
    ICRC = ("icrc", len(ICRC_NAMES) - 1)

    @property
    def quick(self) -> bool:
        """The kernel's programs and columns know it; others are looked up packet by packet."""
        return self in _QUICK

    @property
    def greatest(self) -> int:
        """The greatest value."""
        return self.value[1]


_QUICK: Final = frozenset(
    (
        FilterField.QPN,
        FilterField.PSN,
        FilterField.OPCODE,
        FilterField.ANSWER,
        FilterField.VNI,
        FilterField.DSCP,
        FilterField.ECN,
        FilterField.CONTROL,
    )
)


class AddressSide(Enum):
    """Which address a host may have in a packet."""

    ANY = "host"
    SOURCE = "src"
    DESTINATION = "dst"


@dataclass(frozen=True, slots=True)
class Within:
    """The packet has ``field``, and its value is in one of ``ranges``; ``!=`` too wants the field to be there.

    ``where``: only in headers in which another field has this value, as the ports of TCP alone.
    """

    field: FilterField
    ranges: tuple[Range, ...]
    where: tuple[FilterField, int] | None = None


@dataclass(frozen=True, slots=True)
class HostCondition:
    """An IP address of the packet is one of ``addresses``, or in one of ``networks``."""

    side: AddressSide
    addresses: tuple[Address, ...]
    networks: tuple[Network, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkCondition:
    """The packet was seen at the interface ``name``, or at one of the node that is called so."""

    name: str


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


Expression: TypeAlias = Within | HostCondition | LinkCondition | Not | All | Any


def quick(expression: Expression) -> bool:
    """Whether nothing in it has to be looked up packet by packet."""
    match expression:
        case All(terms) | Any(terms):
            return all(map(quick, terms))
        case Not(term):
            return quick(term)
        case Within(field, _, where):
            return field.quick and where is None
        case HostCondition(networks=networks):
            return not networks
        case LinkCondition():
            return False


def asks_for(expression: Expression, field: FilterField) -> bool:
    """Whether a condition is about ``field``."""
    match expression:
        case All(terms) | Any(terms):
            return any(asks_for(term, field) for term in terms)
        case Not(term):
            return asks_for(term, field)
        case Within(asked):
            return asked is field
        case _:
            return False
