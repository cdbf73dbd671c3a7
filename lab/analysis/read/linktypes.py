"""Links that are not Ethernet, made to look like it: what follows the link's header is the same everywhere.

The fourteen octets before the network layer are rewritten where they are, in the reader's buffer: addresses as far
as the link has any, and the Ethernet type. What comes before them has been read by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.wire.layers import ETHERNET_SIZE
from lab.wire.pcapng import Direction
from lab.wire.udp_ports import IPV4_TYPE, IPV6_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.analysis.read.packet_batch import Flags, Ints, Octets

_NULL: Final = 0
_RAW: Final = (12, 14, 101, 228, 229)
_LOOP: Final = 108
_SLL: Final = 113
_ERF: Final = 197
_SLL2: Final = 276
_OUTGOING: Final = 4  # of both cooked headers: sent by us
_ERF_HEADER: Final = 16
_ERF_MOST: Final = 8
_ERF_MORE: Final = 0x80
_ERF_ETHERNET: Final = (2, 11, 16)  # plain, and those that name a colour or a channel
_MAC: Final = 6


class Plain(NamedTuple):
    """Packets that begin like Ethernet: where, bytes captured and on the wire, direction, and which of them are.

    ``foreign`` ones are whole, and of a kind that is not read.
    """

    start: Ints
    captured: Ints
    length: Ints
    direction: Ints
    good: Flags
    foreign: Flags


def to_ethernet(data: Octets, linktype: int, start: Ints, captured: Ints, length: Ints) -> Plain:
    """Packets of one link type, as ``data`` has them from then on; all are foreign where the type is not known."""
    return _CONVERT.get(linktype, _unknown)(data, start, captured, length)


def link_name(linktype: int) -> str:
    """What packets are called that are foreign."""
    return f"link type {linktype}"


def _moved(start: Ints, captured: Ints, length: Ints, by: Ints, least: int = 0) -> Plain:
    """The network layer's fourteen octets begin ``by`` bytes behind ``start``, if ``least`` bytes are there."""
    good = captured >= least
    nowhere = np.zeros(len(start), np.int64)
    return Plain(start + by, captured - by, length - by, nowhere, good, np.zeros(len(start), np.bool_))


def _unknown(_: Octets, start: Ints, captured: Ints, length: Ints) -> Plain:
    found = _moved(start, captured, length, np.zeros(len(start), np.int64))
    return found._replace(good=found.foreign, foreign=np.ones(len(start), np.bool_))


def _cooked(data: Octets, start: Ints, captured: Ints, length: Ints) -> Plain:
    """LINKTYPE_LINUX_SLL: packet type, ARPHRD, length of the address, eight octets of it, protocol."""
    found = _moved(start, captured, length, np.full(len(start), 2), 16)
    at = start[found.good]
    sent = data[at + 1] == _OUTGOING
    address = [data[at + 6 + index] for index in range(_MAC)]
    _write(data, at + 2, address)
    found.direction[found.good] = np.where(sent, Direction.OUTBOUND, Direction.INBOUND)
    return found


def _cooked2(data: Octets, start: Ints, captured: Ints, length: Ints) -> Plain:
    """LINKTYPE_LINUX_SLL2: protocol, interface, ARPHRD, packet type, length of the address, eight octets of it."""
    found = _moved(start, captured, length, np.full(len(start), 6), 20)
    at = start[found.good]
    sent = data[at + 10] == _OUTGOING
    address, kind = [data[at + 12 + index] for index in range(_MAC)], (data[at], data[at + 1])
    _write(data, at + 6, address)
    data[at + 18], data[at + 19] = kind
    found.direction[found.good] = np.where(sent, Direction.OUTBOUND, Direction.INBOUND)
    return found


def _raw(data: Octets, start: Ints, captured: Ints, length: Ints, header: int = 0) -> Plain:
    """An IP packet behind ``header`` bytes; its version says which one."""
    found = _moved(start, captured, length, np.full(len(start), header - ETHERNET_SIZE), header + 1)
    found = found._replace(good=found.good & (found.start >= 0))
    at = found.start[found.good]
    kind = np.where(data[at + ETHERNET_SIZE] >> 4 == 6, IPV6_TYPE, IPV4_TYPE)
    _write(data, at, [np.zeros(len(at), np.uint8)] * _MAC)
    data[at + 12], data[at + 13] = kind >> 8, kind & 0xFF
    return found


def _null(data: Octets, start: Ints, captured: Ints, length: Ints) -> Plain:
    """LINKTYPE_NULL and LOOP: an address family, which the IP version repeats."""
    return _raw(data, start, captured, length, 4)


def _erf(data: Octets, start: Ints, captured: Ints, length: Ints) -> Plain:
    """LINKTYPE_ERF: a header that says so may have further ones of eight octets, and two of padding follow."""
    kind = data[start + 8]
    more, size = kind & _ERF_MORE != 0, np.full(len(start), _ERF_HEADER)
    for _ in range(_ERF_MOST):
        size += 8 * more
        more &= size + ETHERNET_SIZE <= captured
        more &= data[np.where(more, start + size - 8, start)] & _ERF_MORE != 0
    found = _moved(start, captured, length, size + 2, _ERF_HEADER + 2)
    of_ethernet = np.isin(kind & 0x7F, _ERF_ETHERNET)
    return found._replace(
        good=found.good & of_ethernet & (found.captured >= ETHERNET_SIZE), foreign=found.good & ~of_ethernet
    )


def _write(data: Octets, at: Ints, source: list[Octets]) -> None:
    """Addresses: nobody's, and the source."""
    for index in range(_MAC):
        data[at + index] = 0
        data[at + _MAC + index] = source[index]


_CONVERT: Final[dict[int, Callable[[Octets, Ints, Ints, Ints], Plain]]] = {
    _NULL: _null,
    **dict.fromkeys(_RAW, _raw),
    _LOOP: _null,
    _SLL: _cooked,
    _ERF: _erf,
    _SLL2: _cooked2,
}
