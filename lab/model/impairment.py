"""What befalls packets at one end of a link: which of them, what, and how often. By a seeded generator.

The packets that match are numbered from 0. What befalls a packet depends on the seed and its number alone: the same
packets and the same seed give the same losses.
"""

from __future__ import annotations

import json
import math
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from lab.errors import InvalidInput, Problem
from lab.model.values import non_default_json

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNIT: Final = 2**32
"""Probabilities are kept in parts of this."""
_NAME: Final = "<impairment>"


class Traffic(StrEnum):
    """What a packet is for; each is exactly one of these."""

    ROCE = "roce"
    """RoCEv2: UDP to port 4791."""
    OTHER = "other"
    """Any other IP packet, but those of the next kind."""
    CONTROL = "control"
    """BGP, BFD, neighbour and multicast listener discovery, IGMP; ARP and all else that is no IP packet."""
    PAUSES = "pauses"
    """MAC control: PFC frames and pauses of the whole link (IEEE 802.3 clause 31)."""


@dataclass(frozen=True, slots=True)
class Impairment:
    """Packets that match all of the first group are lost, corrupted, changed or duplicated as the second group says.

    ``None`` matches everything. As it is made, it does nothing.

    - ``dscps``: of an IP packet, from 0 to 63; ``pcps``: of a tag, 0 to 7. ``opcodes``: of the BTH, 0 to 255.
    - ``min_size``: bytes of the whole IP packet. ``protocol``: of IP. ``port``: destination port of TCP or UDP.
    - ``ip_id``: the lowest octet of an IPv4 packet's identification; 0xff in Guo et al., SIGCOMM 2016, section 4.1.
    - ``loss``, ``corrupt_frame``, ``corrupt_payload``, ``duplicate``: probabilities. A corrupted frame vanishes, as
      one with a wrong FCS does in a MAC. A corrupted payload, of RoCEv2 only, has one bit flipped behind the BTH and
      a UDP checksum that is right or 0, so that the ICRC alone tells (IBA vol. 1, A17.3.3). Only what comes in can be
      duplicated.
    - ``lose_every``: of so many packets the last is lost; 0: none.
    - ``dscp``: what an IP packet's becomes. ``clear_ecn``: its ECN field becomes Not-ECT (RFC 3168).
    """

    traffic: frozenset[Traffic] = frozenset({Traffic.ROCE, Traffic.OTHER})
    dscps: frozenset[int] | None = None
    pcps: frozenset[int] | None = None
    opcodes: frozenset[int] | None = None
    min_size: int = 0
    protocol: int | None = None
    port: int | None = None
    ip_id: int | None = None

    loss: float = 0.0
    lose_every: int = 0
    corrupt_frame: float = 0.0
    corrupt_payload: float = 0.0
    dscp: int | None = None
    clear_ecn: bool = False
    duplicate: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        """InvalidInput names every field that is wrong."""
        problems = list(_problems(self))
        if problems:
            raise InvalidInput(_NAME, problems)

    @property
    def does_nothing(self) -> bool:
        """Whether no packet could tell it from a link without it."""
        chances = (self.loss, self.corrupt_frame, self.corrupt_payload, self.duplicate)
        return not (any(map(parts, chances)) or self.lose_every or self.dscp is not None or self.clear_ecn)


def parts(probability: float) -> int:
    """A probability as the kernel's program compares it: in 1/2^32, to the nearest."""
    return round(probability * _UNIT)


def dump(impairment: Impairment) -> str:
    """The impairment as JSON, for ``restore``; what is as it is by default is left out."""
    return non_default_json.dump(impairment)


def restore(text: str) -> Impairment:
    """The impairment that ``dump`` made a text of; InvalidInput when it is damaged."""
    try:
        kept: dict[str, Any] = json.loads(text)
        for name in _SETS & kept.keys():
            kept[name] = frozenset(map(Traffic, kept[name]) if name == "traffic" else kept[name])
        return Impairment(**kept)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidInput(_NAME, [Problem("", "is damaged", "heal the fault and inject it again")]) from error


_SETS: Final = {"traffic", "dscps", "pcps", "opcodes"}
_LARGEST: Final = {
    "dscps": 63,
    "pcps": 7,
    "opcodes": 255,
    "min_size": 2**32 - 1,
    "protocol": 255,
    "port": 65535,
    "ip_id": 255,
    "lose_every": 2**64 - 1,
    "dscp": 63,
    "seed": 2**64 - 1,
}
_CHANCES: Final = ("loss", "corrupt_frame", "corrupt_payload", "duplicate")


def _problems(asked: Impairment) -> Iterator[Problem]:
    if not asked.traffic or not all(isinstance(each, Traffic) for each in asked.traffic):
        yield Problem("traffic", "names nothing to impair", f"name some of {', '.join(Traffic)}")
    for name, largest in _LARGEST.items():
        value = getattr(asked, name)
        numbers = value if isinstance(value, AbstractSet) else () if value is None else (value,)
        least = 1 if name == "port" else 0
        if isinstance(value, AbstractSet) and not value:
            yield Problem(name, "matches nothing", "leave it out to match everything")
        if not all(isinstance(each, int) and least <= each <= largest for each in numbers):
            yield Problem(name, f"goes from {least} to {largest}", "take a number in between")
    for name in _CHANCES:
        value = getattr(asked, name)
        if not (isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= 1):
            yield Problem(name, "is no probability", "take a number from 0 to 1")
        elif value and not parts(value):
            yield Problem(name, "is less than any packet will meet", "take at least 2.4e-10")
    if asked.opcodes is not None and Traffic.ROCE not in asked.traffic:
        yield Problem("opcodes", "are those of RoCEv2, which is not meant", "add roce to traffic")
