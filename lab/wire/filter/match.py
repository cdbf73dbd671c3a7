"""A filter against a decoded frame."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from lab.wire.filter.expression import ICRC_NAMES, All, Any, Expression, Field, Host, Link, Not, Side, Within
from lab.wire.opcodes import Opcode
from lab.wire.ports import PAUSE_OPCODE, PFC_OPCODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.wire.frame import Frame

ANSWERS: Final = (Opcode.RC_ACKNOWLEDGE, Opcode.RC_ATOMIC_ACKNOWLEDGE)
"""Packets that are nothing but an answer; a read response has an AETH too, and is data."""


_TCP: Final = 6
_UDP: Final = 17


def matches(expression: Expression, frame: Frame, link: str = "") -> bool:
    """Whether the filter lets ``frame``, which was seen at ``link``, through."""
    match expression:
        case All(terms):
            return all(matches(term, frame, link) for term in terms)
        case Any(terms):
            return any(matches(term, frame, link) for term in terms)
        case Not(term):
            return not matches(term, frame, link)
        case Link(name):
            return name in (link, link.partition(":")[0])
        case Host():
            return any(_is_host(expression, layer) for layer in _layers(frame))
        case Within(field, ranges, where):
            layers = (each for each in _layers(frame) if where is None or _VALUES[where[0]](each) == where[1])
            values = map(_VALUES[field], layers)
            return any(first <= value <= last for value in values if value is not None for first, last in ranges)


def _layers(frame: Frame) -> Iterator[Frame]:
    layer: Frame | None = frame
    while layer is not None:
        yield layer
        layer = layer.inner


def _is_host(host: Host, frame: Frame) -> bool:
    if frame.dscp is None:  # no IP: the addresses are those of Ethernet
        return False
    texts = {Side.SOURCE: (frame.src,), Side.DESTINATION: (frame.dst,), Side.ANY: (frame.src, frame.dst)}
    found = [ip_address(text) for text in texts[host.side]]
    return any(each in host.addresses or any(each in network for network in host.networks) for each in found)


def _transport(frame: Frame) -> int | None:
    if frame.sport is None:
        return None
    return _TCP if frame.protocol == "TCP" else _UDP


def _answer(frame: Frame) -> int | None:
    if frame.bth is None or frame.aeth is None or frame.bth.opcode not in ANSWERS:
        return None
    return frame.aeth.syndrome.kind


def _control(frame: Frame) -> int | None:
    if frame.pfc is not None:
        return PFC_OPCODE
    return PAUSE_OPCODE if frame.pause is not None else None


_VALUES: Final[dict[Field, Callable[[Frame], int | None]]] = {
    Field.QPN: lambda frame: None if frame.bth is None else frame.bth.destqp,
    Field.PSN: lambda frame: None if frame.bth is None else frame.bth.psn,
    Field.OPCODE: lambda frame: None if frame.bth is None else frame.bth.opcode,
    Field.ANSWER: _answer,
    Field.VNI: lambda frame: frame.vni,
    Field.DSCP: lambda frame: frame.dscp,
    Field.ECN: lambda frame: frame.ecn,
    Field.CONTROL: _control,
    Field.TTL: lambda frame: frame.ttl,
    Field.SPORT: lambda frame: frame.sport,
    Field.DPORT: lambda frame: frame.dport,
    Field.TRANSPORT: _transport,
    Field.SVLAN: lambda frame: frame.svlan,
    Field.VLAN: lambda frame: frame.vlan,
    Field.PCP: lambda frame: frame.pcp,
    Field.ICRC: lambda frame: None if frame.icrc is None else ICRC_NAMES.index(frame.icrc.value.lower()),
}
