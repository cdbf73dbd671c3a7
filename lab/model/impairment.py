"""Loss, corruption, duplication and rewriting of matching packets at one end of a link, from a seeded generator.

Matching packets are numbered from 0. The treatment of a packet depends only on the seed and its number. So the same
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
"""Probabilities are stored in units of 1/2**32."""
_NAME: Final = "<impairment>"


class Traffic(StrEnum):
    """The kinds of packets; every packet is exactly one of them."""

    ROCE = "roce"
    """RoCEv2: UDP to port 4791."""
    OTHER = "other"
    """Other IP packets, except CONTROL."""
    CONTROL = "control"
    """BGP, BFD, neighbour discovery, MLD, IGMP, ARP, and all other packets that are not IP."""
    PAUSES = "pauses"
    """MAC control: PFC frames and pauses of the whole link (IEEE 802.3 clause 31)."""


@dataclass(frozen=True, slots=True)
class Impairment:
    """An impairment: the first group of fields matches packets, the second one says what happens to them.

    A packet must match all fields of the first group; ``None`` matches everything. The defaults impair nothing.

    - ``dscps``: of an IP packet, from 0 to 63; ``pcps``: of a tag, 0 to 7. ``opcodes``: of the BTH, 0 to 255.
    - ``min_size``: bytes of the whole IP packet. ``protocol``: of IP. ``port``: destination port of TCP or UDP.
    - ``ip_id``: the lowest octet of an IPv4 packet's identification; 0xff in Guo et al., SIGCOMM 2016, section 4.1.
    - ``loss``, ``corrupt_frame``, ``corrupt_payload``, ``duplicate``: probabilities. A corrupted frame is dropped, as
      a MAC drops frames with a wrong FCS. A corrupted payload (RoCEv2 only) has one flipped bit behind the BTH. Its
      UDP checksum is right or 0, so that only the ICRC detects it (IBA vol. 1, A17.3.3). Only ingress packets can be
      duplicated.
    - ``lose_every``: every n-th packet is lost; 0: none.
    - ``dscp``: the new DSCP of IP packets. ``clear_ecn``: set the ECN field to Not-ECT (RFC 3168).
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
        """Raise InvalidInput with every field that is wrong."""
        problems = list(_problems(self))
        if problems:
            raise InvalidInput(_NAME, problems)

    @property
    def does_nothing(self) -> bool:
        """Whether the impairment changes no packet."""
        chances = (self.loss, self.corrupt_frame, self.corrupt_payload, self.duplicate)
        return not (any(map(parts, chances)) or self.lose_every or self.dscp is not None or self.clear_ecn)


def parts(probability: float) -> int:
    """Return a probability in units of 1/2**32, rounded to the nearest, as the eBPF program compares it."""
    return round(probability * _UNIT)


def dump(impairment: Impairment) -> str:
    """Return the impairment as JSON for ``restore``, without fields at their defaults."""
    return non_default_json.dump(impairment)


def restore(text: str) -> Impairment:
    """Return the impairment from the JSON of ``dump``; raise InvalidInput if the text is damaged."""
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
