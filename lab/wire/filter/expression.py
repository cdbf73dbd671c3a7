"""The syntax tree of a filter. A condition matches if it holds for the frame or for one in its tunnels."""

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
"""Results of the ICRC check, by the values of ``FilterField.ICRC``; unknown if a packet is truncated."""


class FilterField(Enum):
    """A numeric field of packets, with its maximum value."""

    QPN = ("qpn", 2**24 - 1)
    """BTH.DestQP (IBA vol. 1 section 9.2)."""
    PSN = ("psn", 2**24 - 1)
    OPCODE = ("opcode", 255)
    ANSWER = ("answer", 3)
    """The kind of an acknowledgement: an ``AckKind`` (section 9.7.5.2)."""
    VNI = ("vni", 2**24 - 1)
    """The segment of VXLAN (RFC 7348 section 5) or GENEVE."""
    DSCP = ("dscp", 63)
    ECN = ("ecn", 3)
    CONTROL = ("control", 0xFFFF)
    """The opcode of MAC control, if it is Pause or PFC (IEEE 802.3 annexes 31B and 31D)."""

    VERSION = ("version", 15)
    """The version of IP: 4 or 6."""
    TTL = ("ttl", 255)
    """IPv4's Time to Live, IPv6's Hop Limit."""
    SPORT = ("sport", 0xFFFF)
    DPORT = ("dport", 0xFFFF)
    TRANSPORT = ("transport", 255)
    """The protocol of the ports: 6 is TCP, 17 UDP."""
    SVLAN = ("svlan", 4095)
    """The VLAN of the first of several tags."""
    VLAN = ("vlan", 4095)
    """The VLAN of the innermost tag (IEEE 802.1Q clause 9.6)."""
    PCP = ("pcp", 7)
    TUNNEL = ("tunnel", 0xFFFF)
    """The UDP port of the tunnel with a VNI: VXLAN or GENEVE."""
    ICRC = ("icrc", len(ICRC_NAMES) - 1)

    @property
    def quick(self) -> bool:
        """Whether kernel programs and columns support the field; others are decoded packet by packet."""
        return self in _QUICK

    @property
    def greatest(self) -> int:
        """The maximum value."""
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
    """The IP address of a packet that a host condition compares."""

    ANY = "host"
    SOURCE = "src"
    DESTINATION = "dst"


@dataclass(frozen=True, slots=True)
class Within:
    """The packet has ``field``, with a value in one of ``ranges``. ``!=`` also requires the field.

    ``where``: only in headers in which another field has this value, for example the ports of TCP only.
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
    """The packet was captured at the interface ``name``, or at an interface of the node ``name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Not:
    """``term`` does not match."""

    term: Expression


@dataclass(frozen=True, slots=True)
class All:
    """Every one of ``terms`` matches."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """At least one of ``terms`` matches."""

    terms: tuple[Expression, ...]


Expression: TypeAlias = Within | HostCondition | LinkCondition | Not | All | Any


def quick(expression: Expression) -> bool:
    """Return whether no condition has to be decided packet by packet."""
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
    """Return whether a condition uses ``field``."""
    match expression:
        case All(terms) | Any(terms):
            return any(asks_for(term, field) for term in terms)
        case Not(term):
            return asks_for(term, field)
        case Within(asked):
            return asked is field
        case _:
            return False
