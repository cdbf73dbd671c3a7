"""Match a filter against a decoded frame."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from lab.wire.filter.expression import (
    ICRC_NAMES,
    AddressSide,
    All,
    Any,
    Expression,
    FilterField,
    HostCondition,
    LinkCondition,
    Not,
    Within,
)
from lab.wire.opcodes import Opcode
from lab.wire.udp_ports import GENEVE_PORT, PAUSE_OPCODE, PFC_OPCODE, VXLAN_PORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.wire.frame import DecodedFrame

ANSWERS: Final = (Opcode.RC_ACKNOWLEDGE, Opcode.RC_ATOMIC_ACKNOWLEDGE)
"""Packets that are only acknowledgements. READ responses have an AETH too, but carry data."""


_TCP: Final = 6
_UDP: Final = 17


def matches(expression: Expression, frame: DecodedFrame, link: str = "") -> bool:
    """Return whether the filter matches ``frame``, which was captured at ``link``."""
    match expression:
        case All(terms):
            return all(matches(term, frame, link) for term in terms)
        case Any(terms):
            return any(matches(term, frame, link) for term in terms)
        case Not(term):
            return not matches(term, frame, link)
        case LinkCondition(name):
            return name in (link, link.partition(":")[0])
        case HostCondition():
            return any(_is_host(expression, layer) for layer in _layers(frame))
        case Within(field, ranges, where):
            layers = (each for each in _layers(frame) if where is None or _VALUES[where[0]](each) == where[1])
            values = map(_VALUES[field], layers)
            return any(first <= value <= last for value in values if value is not None for first, last in ranges)


def _layers(frame: DecodedFrame) -> Iterator[DecodedFrame]:
    layer: DecodedFrame | None = frame
    while layer is not None:
        yield layer
        layer = layer.inner


def _is_host(host: HostCondition, frame: DecodedFrame) -> bool:
    if frame.dscp is None:  # no IP: the addresses are those of Ethernet
        return False
    texts = {
        AddressSide.SOURCE: (frame.src,),
        AddressSide.DESTINATION: (frame.dst,),
        AddressSide.ANY: (frame.src, frame.dst),
    }
    found = [ip_address(text) for text in texts[host.side]]
    return any(each in host.addresses or any(each in network for network in host.networks) for each in found)


def _transport(frame: DecodedFrame) -> int | None:
    if frame.sport is None:
        return None
    return _TCP if frame.protocol == "TCP" else _UDP


def _version(frame: DecodedFrame) -> int | None:
    return None if frame.dscp is None else ip_address(frame.src).version


def _tunnel(frame: DecodedFrame) -> int | None:
    if frame.vni is None:
        return None
    return GENEVE_PORT if frame.dport == GENEVE_PORT else VXLAN_PORT  # VXLAN has several ports


def _answer(frame: DecodedFrame) -> int | None:
    if frame.bth is None or frame.aeth is None or frame.bth.opcode not in ANSWERS:
        return None
    return frame.aeth.syndrome.kind


def _control(frame: DecodedFrame) -> int | None:
    if frame.pfc is not None:
        return PFC_OPCODE
    return PAUSE_OPCODE if frame.pause is not None else None


_VALUES: Final[dict[FilterField, Callable[[DecodedFrame], int | None]]] = {
    FilterField.QPN: lambda frame: None if frame.bth is None else frame.bth.destqp,
    FilterField.PSN: lambda frame: None if frame.bth is None else frame.bth.psn,
    FilterField.OPCODE: lambda frame: None if frame.bth is None else frame.bth.opcode,
    FilterField.ANSWER: _answer,
    FilterField.VNI: lambda frame: frame.vni,
    FilterField.DSCP: lambda frame: frame.dscp,
    FilterField.ECN: lambda frame: frame.ecn,
    FilterField.CONTROL: _control,
    FilterField.VERSION: _version,
    FilterField.TTL: lambda frame: frame.ttl,
    FilterField.SPORT: lambda frame: frame.sport,
    FilterField.DPORT: lambda frame: frame.dport,
    FilterField.TRANSPORT: _transport,
    FilterField.SVLAN: lambda frame: frame.svlan,
    FilterField.VLAN: lambda frame: frame.vlan,
    FilterField.TUNNEL: _tunnel,
    FilterField.PCP: lambda frame: frame.pcp,
    FilterField.ICRC: lambda frame: None if frame.icrc is None else ICRC_NAMES.index(frame.icrc.value.lower()),
}
