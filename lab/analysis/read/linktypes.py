"""Rewrite the headers of other link types as Ethernet headers, so that one decoder serves all.

The 14 bytes before the network layer are overwritten in the reader's buffer: MAC addresses if the link has any, and
the EtherType. The bytes before them have been read by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.wire.header_fields import IP_VERSION, MAC_BYTES, EthernetFields
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
_OUTGOING: Final = 4  # of both cooked headers: sent by this host
_ERF_HEADER: Final = 16
_ERF_MOST: Final = 8
_ERF_MORE: Final = 0x80
_ERF_ETHERNET: Final = (2, 11, 16)  # plain, and with a colour or a channel


class Plain(NamedTuple):
    """Packets as Ethernet: start, bytes captured and on the wire, direction, and which packets could be converted.

    ``foreign`` marks complete packets of an unsupported type.
    """

    start: Ints
    captured: Ints
    length: Ints
    direction: Ints
    good: Flags
    foreign: Flags


def to_ethernet(data: Octets, linktype: int, start: Ints, captured: Ints, length: Ints) -> Plain:
    """Convert packets of one link type in place in ``data``. All packets of an unknown link type are foreign."""
    return _CONVERT.get(linktype, _unknown)(data, start, captured, length)


def link_name(linktype: int) -> str:
    """Return the name under which packets of an unsupported link type are counted."""
    return f"link type {linktype}"


def _moved(start: Ints, captured: Ints, length: Ints, by: Ints, least: int = 0) -> Plain:
    """Return packets whose Ethernet header begins ``by`` bytes after ``start``; good if ``least`` bytes are there."""
    good = captured >= least
    nowhere = np.zeros(len(start), np.int64)
    return Plain(start + by, captured - by, length - by, nowhere, good, np.zeros(len(start), np.bool_))


def _unknown(_: Octets, start: Ints, captured: Ints, length: Ints) -> Plain:
    found = _moved(start, captured, length, np.zeros(len(start), np.int64))
    return found._replace(good=found.foreign, foreign=np.ones(len(start), np.bool_))


def _cooked(data: Octets, start: Ints, captured: Ints, length: Ints) -> Plain:
    """LINKTYPE_LINUX_SLL: packet type, ARPHRD, address length, eight bytes of address, protocol."""
    found = _moved(start, captured, length, np.full(len(start), 2), 16)
    at = start[found.good]
    sent = data[at + 1] == _OUTGOING
    address = [data[at + 6 + index] for index in range(MAC_BYTES)]
    _write(data, at + 2, address)
    found.direction[found.good] = np.where(sent, Direction.OUTBOUND, Direction.INBOUND)
    return found


def _cooked2(data: Octets, start: Ints, captured: Ints, length: Ints) -> Plain:
    """LINKTYPE_LINUX_SLL2: protocol, interface, ARPHRD, packet type, address length, eight bytes of address."""
    found = _moved(start, captured, length, np.full(len(start), 6), 20)
    at = start[found.good]
    sent = data[at + 10] == _OUTGOING
    address, kind = [data[at + 12 + index] for index in range(MAC_BYTES)], (data[at], data[at + 1])
    _write(data, at + 6, address)
    data[at + 18], data[at + 19] = kind
    found.direction[found.good] = np.where(sent, Direction.OUTBOUND, Direction.INBOUND)
    return found


def _raw(data: Octets, start: Ints, captured: Ints, length: Ints, header: int = 0) -> Plain:
    """An IP packet after ``header`` bytes. The EtherType follows from the IP version."""
    found = _moved(start, captured, length, np.full(len(start), header - ETHERNET_SIZE), header + 1)
    found = found._replace(good=found.good & (found.start >= 0))
    at = found.start[found.good]
    kind = np.where(IP_VERSION.gather(data, at + ETHERNET_SIZE) == 6, IPV6_TYPE, IPV4_TYPE)
    _write(data, at, [np.zeros(len(at), np.uint8)] * MAC_BYTES)
    place = at + EthernetFields.ETHERTYPE.at
    data[place], data[place + 1] = kind >> 8, kind & 0xFF
    return found


def _null(data: Octets, start: Ints, captured: Ints, length: Ints) -> Plain:
    """LINKTYPE_NULL and LOOP: a 4-byte address family, which is redundant with the IP version."""
    return _raw(data, start, captured, length, 4)


def _erf(data: Octets, start: Ints, captured: Ints, length: Ints) -> Plain:
    """LINKTYPE_ERF: a header, optional extension headers of eight bytes each, and two bytes of padding."""
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
    """Write MAC addresses: zeros as destination, and the source."""
    for index in range(MAC_BYTES):
        data[at + EthernetFields.DST.at + index] = 0
        data[at + EthernetFields.SRC.at + index] = source[index]


_CONVERT: Final[dict[int, Callable[[Octets, Ints, Ints, Ints], Plain]]] = {
    _NULL: _null,
    **dict.fromkeys(_RAW, _raw),
    _LOOP: _null,
    _SLL: _cooked,
    _ERF: _erf,
    _SLL2: _cooked2,
}
