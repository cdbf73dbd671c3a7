"""The walk from header to header of one frame, as ``lab.wire.layers`` says where they are. It never raises."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lab.wire.layers import IP_HEADERS, MAX_HEADERS, MAX_TUNNELS, RULES, Header, Rule, WalkStop

_RESTARTS: Final = (Header.ETHERNET, *IP_HEADERS)


class WalkedHeader(NamedTuple):
    """A header: where it starts, where what it carries starts, and where that ends by all that was said so far.

    ``opens``: it is the first one of a frame inside another one. ``number`` names what follows, -1 where nothing can.
    """

    header: Header
    at: int
    after: int
    end: int
    opens: bool
    number: int


@dataclass(slots=True)
class HeaderWalk:
    """What was found, from the outside in.

    ``fault`` and ``missed``, the header where it was met; ``at`` is where that would start and ``end`` where what
    carries it ends. ``refused``: it is of a kind that is not followed, which is no fault. ``short``: a length goes
    beyond the frame's; ``fragment``: the first one of several; ``later`` is one of the others, which have no
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
    """Follow the headers of a frame that had ``length`` bytes on the wire, of which ``data`` were captured."""
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
    """Take one header in; the one behind it, if that is followed."""
    rule, at = RULES[header], found.at
    if at + rule.size > min(len(data), found.end):
        found.fault = WalkStop.CUT if at + rule.size > len(data) else WalkStop.ROOM
        return None
    if not all(low <= bits.read(data, at) <= high for bits, low, high in rule.good):
        found.fault, found.refused = rule.fault, rule.fault is WalkStop.NONE
        return None
    size = rule.size if rule.base is None else rule.base
    size += sum(bits.read(data, at) * factor for bits, factor in rule.extra)
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
    """Note where what a header carries ends; whether that is possible."""
    total = rule.total.read(data, found.at) if rule.total is not None else 0
    if total == 0 and (rule.open_ended or rule.jumbo):  # more than 16 bits hold, as BIG TCP leaves it
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
