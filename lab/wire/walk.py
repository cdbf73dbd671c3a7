"""Walk the headers of one frame by the table of ``lab.wire.layers``. The walk never raises."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lab.wire.layers import IP_HEADERS, MAX_HEADERS, MAX_TUNNELS, RULES, Header, Rule, WalkStop

_RESTARTS: Final = (Header.ETHERNET, *IP_HEADERS)


class WalkedHeader(NamedTuple):
    """A header: its offset, the offset after it, and the end of its payload as known so far.

    ``opens``: it is the first one of an inner frame. ``number`` identifies the next header, -1 if there can be none.
    """

    header: Header
    at: int
    after: int
    end: int
    opens: bool
    number: int


@dataclass(slots=True)
class HeaderWalk:
    """The headers found, from the outside in, and where the walk ended.

    * ``fault``: why it stopped. ``missed``: the header at which it stopped.
    * ``at``: the offset of that header. ``end``: the end of its carrier's payload.
    * ``refused``: it is of a version that is not decoded, which is no fault.
    * ``short``: a length exceeds the frame. ``fragment``: a first fragment. ``later``: a later fragment, which has no
      transport header.
    """

    layers: list[WalkedHeader] = field(default_factory=list)
    fault: WalkStop = WalkStop.NONE
    missed: Header = Header.ETHERNET
    opens: bool = False
    at: int = 0
    end: int = 0
    short: bool = False
    refused: bool = False
    fragment: bool = False
    later: bool = False


def walk(data: bytes, length: int) -> HeaderWalk:
    """Walk the headers of a frame of ``length`` bytes on the wire; ``data`` is the captured part."""
    found = HeaderWalk(end=length)
    header: Header | None = Header.ETHERNET
    tunnels, addressed = 0, False
    while header is not None:
        found.missed = header
        found.opens = (header is Header.ETHERNET and bool(found.layers)) or (header in IP_HEADERS and addressed)
        tunnels += found.opens
        if header in _RESTARTS:
            addressed = header is not Header.ETHERNET
        if tunnels > MAX_TUNNELS or len(found.layers) == MAX_HEADERS:
            found.fault, found.opens, header = WalkStop.DEEP, False, None
        else:
            header = _step(found, data, header)
    return found


def _step(found: HeaderWalk, data: bytes, header: Header) -> Header | None:
    """Decode one header, and return the next one, if it is decoded."""
    rule, at = RULES[header], found.at
    if at + rule.size > min(len(data), found.end):
        found.fault = WalkStop.CUT if at + rule.size > len(data) else WalkStop.ROOM
        return None
    if rule.good and not all(low <= bits.read(data, at) <= high for bits, low, high in rule.good):
        found.fault, found.refused = rule.fault, rule.fault is WalkStop.NONE
        return None
    size = rule.size if rule.base is None else rule.base
    for bits, factor in rule.extra:
        size += bits.read(data, at) * factor
    if rule.total is not None and not _ends(found, data, rule, size):
        found.fault = rule.fault
        return None
    number = -1 if rule.next is None else rule.next.read(data, at)
    found.at = at + size
    found.layers.append(WalkedHeader(header, at, found.at, found.end, found.opens, number))
    if rule.offset is not None and rule.offset.read(data, at):
        found.later = True
        return None
    found.fragment |= rule.more is not None and rule.more.read(data, at) != 0
    return rule.follows.get(number, rule.otherwise)


def _ends(found: HeaderWalk, data: bytes, rule: Rule, size: int) -> bool:
    """Set the end of a header's payload, and return whether its length is valid."""
    total = rule.total.read(data, found.at) if rule.total is not None else 0
    if total == 0 and (rule.open_ended or rule.jumbo):  # more than 16 bits hold: BIG TCP leaves it 0
        return found.at + size <= found.end
    end = found.at + rule.beyond + total
    if end < found.at + size:
        return False
    if end > found.end:
        if not rule.open_ended and not found.fragment:
            return False
        found.short |= rule.open_ended
    found.end = end
    return True
