"""A filter against a decoded frame."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from lab.wire.filter.expression import All, Any, Expression, Field, Host, Not, Side, Within
from lab.wire.frame import PAUSE_OPCODE, PFC_OPCODE
from lab.wire.opcodes import Opcode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.wire.frame import Frame

ANSWERS: Final = (Opcode.RC_ACKNOWLEDGE, Opcode.RC_ATOMIC_ACKNOWLEDGE)
"""Packets that are nothing but an answer; a read response has an AETH too, and is data."""


def matches(expression: Expression, frame: Frame) -> bool:
    """Whether the filter lets ``frame`` through."""
    match expression:
        case All(terms):
            return all(matches(term, frame) for term in terms)
        case Any(terms):
            return any(matches(term, frame) for term in terms)
        case Not(term):
            return not matches(term, frame)
        case Host():
            return any(_is_host(expression, layer) for layer in _layers(frame))
        case Within(field, ranges):
            values = (_VALUES[field](layer) for layer in _layers(frame))
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
    return any(ip_address(text) in host.addresses for text in texts[host.side])


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
}
